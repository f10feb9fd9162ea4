"""The one training loop, what it draws batches with, and which of its moments counts."""
