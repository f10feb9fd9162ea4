"""``python -m invariance``."""

from invariance.cli import main

if __name__ == "__main__":
    main()
