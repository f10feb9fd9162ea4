"""Published files: found or fetched, verified, and read."""
