"""Models that do not lean on what changes between environments."""

__version__ = "0.1.0"
