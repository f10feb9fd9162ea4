"""The command line: one file a command. Nothing here imports torch until a command needs it."""

import os
import sys
from typing import Annotated

import typer

from invariance.cli import compare, data, evaluate, listing, train
from invariance.errors import InvarianceError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Models that do not lean on what changes between environments. Start with **invariance compare**.",
)
app.command("compare")(compare.compare)
app.command("train")(train.train)
app.command("evaluate")(evaluate.evaluate)
app.add_typer(listing.app, name="list")
app.add_typer(data.app, name="data")


def _version(wanted: bool) -> None:
    if wanted:
        from invariance import __version__

        print(f"invariance {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if debug:
        os.environ["INVARIANCE_DEBUG"] = "1"


def main() -> None:
    """Run a command; an error is one line on standard error and a non-zero exit."""
    try:
        code = app(standalone_mode=False)
    except KeyboardInterrupt:
        _fail("stopped", 130)
    except typer.Abort:
        _fail("stopped", 130)
    except typer.TyperException as error:
        _fail(f"{error.format_message()} Try --help.", 2)
    except InvarianceError as error:
        _fail(str(error), 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader (a pager, head) went away
    except OSError as error:
        _fail(f"{error.filename or 'the system'}: {error.strerror or error}", 1)
    else:
        sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> None:
    if os.environ.get("INVARIANCE_DEBUG"):
        raise
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)
