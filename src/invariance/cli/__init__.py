"""The command line: one file per command. Nothing here imports torch until a command needs it."""

import io
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from invariance.cli import (
    calibrate,
    cluster,
    compare,
    data,
    doctor,
    evaluate,
    export,
    fit,
    listing,
    predict,
    report,
    reproduce,
    run,
    runs,
    train,
    tune,
)
from invariance.cli.follow import INTERRUPTED
from invariance.cli.help import HELP_NAMES, command
from invariance.cli.options import ranks, remembered
from invariance.core.errors import BadValue, InvarianceError
from invariance.core.one_look import one_look
from invariance.core.text import clean

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": HELP_NAMES},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help=(
        "Models that do not rely on what changes between environments. Start with **invariance compare**, or with "
        "**invariance fit** on your own data."
    ),
)
app.command("compare")(compare.compare)
app.command("fit")(fit.fit)
app.command("predict")(predict.predict)
app.command("evaluate")(evaluate.evaluate)
app.command("calibrate")(calibrate.calibrate)
app.command("export")(export.export)
app.command("train")(train.train)
app.command("tune")(tune.tune)
app.command("reproduce")(reproduce.reproduce)
app.command("run")(run.run)
app.command("report")(report.report)
app.command("doctor")(doctor.doctor)
app.add_typer(runs.app, name="runs")
app.add_typer(listing.app, name="list")
app.add_typer(data.app, name="data")
app.add_typer(cluster.app, name="cluster")


def _version(wanted: bool) -> None:
    if wanted:
        from invariance import __version__

        print(f"invariance {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", callback=remembered("INVARIANCE_DEBUG"), help="Show the traceback of an error.")
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option(
            *("-q", "--quiet"),
            callback=remembered("INVARIANCE_QUIET"),
            help="Print results only: no progress, no notes.",
        ),
    ] = False,
) -> None:
    if ranks() > 1 and context.invoked_subcommand != "train":
        raise BadValue(f"torchrun is for 'train'; give '{context.invoked_subcommand}' without it")


def main() -> None:
    """Run a command; an error is one line on standard error and a non-zero exit.

    Of several ranks that torchrun started, the first one that has something to report is the one that does.
    """
    for stream in (sys.stdout, sys.stderr):  # a terminal may lack some characters
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if ranks() == 1:
        sys.exit(_run())
    from invariance.core.ranks import joined, reports_first

    with joined():
        code = _run(reports_first)
    sys.exit(code)


def _run(reports: Callable[[], bool] = lambda: True) -> int:
    try:
        with one_look():
            code = command(app)(standalone_mode=False)
    except typer.Abort as error:  # Ctrl-C, or the answer was no
        code = INTERRUPTED if isinstance(error.__cause__, KeyboardInterrupt) else 1
        if code != INTERRUPTED:
            print("stopped; nothing was changed", file=sys.stderr)
    except BrokenPipeError:  # the reader (a pager, head) went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (typer.TyperException, InvarianceError, OSError, MemoryError, RuntimeError) as error:
        known = not isinstance(error, RuntimeError) or _out_of_memory(error)
        if not known or os.environ.get("INVARIANCE_DEBUG"):
            raise
        code = 2 if isinstance(error, typer.TyperException) else 1
        if (line := _line(error)) and reports():  # none where help was shown instead
            print(f"error: {clean(line)}", file=sys.stderr, flush=True)
    if code == INTERRUPTED and reports():
        print("stopped", file=sys.stderr)
    return code if isinstance(code, int) else 0


def _out_of_memory(error: Exception) -> bool:
    """Whether Python or torch, which has no error of its own for it, could not get memory."""
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))


def _line(error: Exception) -> str:
    if isinstance(error, typer.TyperException):
        message = error.format_message()
        return f"{message}{'' if message.endswith(('.', '?')) else '.'} Try --help." if message else ""
    if _out_of_memory(error):
        return "there is not enough memory; use a smaller model, smaller images or fewer samples"
    if isinstance(error, OSError):
        return f"{error.filename or 'the system'}: {error.strerror or error}"
    return str(error)
