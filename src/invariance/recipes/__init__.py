"""How objectives are minimised."""
