"""How methods are minimised."""
