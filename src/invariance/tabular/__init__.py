"""Users' tables: files read in batches, columns profiled, rows encoded as numbers."""
