"""``invariance`` and ``python -m invariance``."""

import sys


def main() -> None:
    """The command line, where Ctrl-C shows no traceback even while commands are being imported."""
    try:
        from invariance.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
