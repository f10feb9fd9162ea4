"""Images on disk, and their bytes in one file made once."""
