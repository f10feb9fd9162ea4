"""What several commands share: options, consoles, progress."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from invariance.cli import completion
from invariance.cli.console import console
from invariance.core.atomic import check_folder
from invariance.core.fields import finite
from invariance.core.progress import progress_bar
from invariance.core.text import clean, json_escape

if TYPE_CHECKING:
    from invariance.core.artefacts import Artefact
    from invariance.data.base import DataSet

Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="SECTION.FIELD=VALUE",
        help="Change a field of data, model, method or recipe, e.g. recipe.epochs=20. May be repeated.",
    ),
]
RecipeName = Annotated[
    str,
    typer.Option(
        "--recipe",
        help="A recipe, or several joined by +, e.g. small-batch+sam (see: list recipes).",
        autocompletion=completion.recipes,
    ),
]
Device = Annotated[
    str,
    typer.Option(
        "--device",
        metavar="cpu|cuda|mps|auto",
        help="Where to compute; auto takes a GPU if there is one.",
        autocompletion=completion.listed("cpu", "cuda", "mps", "auto"),
    ),
]
Checkpoints = Annotated[
    str | None,
    typer.Option(
        "--checkpoints",
        metavar="URI",
        help="With --engine ray: where tasks keep checkpoints, such as s3://bucket/folder.",
    ),
]
MAX_SEEDS = 10_000
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def ranks() -> int:
    """How many processes of this command torchrun started, by the variables that it sets."""
    started = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()
    return int(os.environ["WORLD_SIZE"]) if started else 1


def quiet() -> bool:
    """Whether another of several ranks is the one that prints."""
    return ranks() > 1 and os.environ["RANK"] != "0"


def remembered(variable: str) -> Callable[[bool], bool]:
    """A callback of a flag that sets a variable of the environment."""

    def remember(wanted: bool) -> bool:
        if wanted:
            os.environ[variable] = "1"
        return wanted

    return remember


def results_only() -> bool:
    """Whether progress and notes are left out: --quiet was given, or another rank prints."""
    return quiet() or bool(os.environ.get("INVARIANCE_QUIET"))


def out() -> Console:
    """Where results go."""
    return console(quiet=quiet())


def errors() -> Console:
    """Where everything else goes."""
    return console(stderr=True, quiet=results_only())


def progress() -> Progress:
    """A bar on standard error, gone when done, and absent where nobody looks."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    return progress_bar(*columns, TimeRemainingColumn(), console=errors(), disable=results_only())


@contextmanager
def stages(total: int) -> Iterator[Callable[[str], None]]:
    """A bar over the stages of a command; a line for each, and a last one, where standard error is no terminal."""
    done = 0
    with progress() as bar:
        task = bar.add_task("", total=total)

        def begin(description: str) -> None:
            nonlocal done
            done += 1
            bar.update(task, description=description, completed=done - 1)
            if bar.disable:
                say(f"{done} of {total}: {description}")

        yield begin
        if bar.disable:
            say("done")


@contextmanager
def counting(unit: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar that counts up to ``total``; ten lines and a last one where standard error is no terminal."""
    shown, last = 0, 0
    with progress() as bar:
        task = bar.add_task(unit, total=total)

        def count(done: int) -> None:
            nonlocal shown, last
            last = done
            bar.update(task, completed=done)
            tenth = 10 * done // total if total else 0
            if bar.disable and tenth > shown:
                shown = tenth
                say(f"{unit}: {done:,} of about {total:,}")

        yield count
        if bar.disable:
            say(f"{unit}: {last:,}, done")


def say(line: str) -> None:
    """A line on standard error."""
    errors().print(line, highlight=False, markup=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print plain data; a number that is not finite is null, which JSON has and NaN it has not. Names are escaped."""
    ascii_only = not (sys.stdout.encoding or "").lower().startswith("utf")
    print(json_escape(json.dumps(finite(value), indent=2, ensure_ascii=ascii_only, allow_nan=False)))


def conclude(line: str, plain: Any, *, as_json: bool) -> None:
    """The last line of a command, or the same as JSON."""
    if as_json:
        print_json(plain)
    else:
        out().print(clean(line), highlight=False, markup=False, soft_wrap=True)


def print_notes(notes: Iterable[str], console: Console) -> None:
    """Print what was noticed, one line each; names in it are those of files and cells."""
    for note in notes:
        console.print(f"Note: {clean(note)}.", highlight=False, markup=False)


def say_partial(data: "DataSet") -> None:
    """Where only a part of a data set is here, what follows is about that part: say so."""
    if (state := data.availability()) and state.here == "partial":
        errors().print(
            f"Note: a part of {data.title}: {clean(state.about)}", highlight=False, markup=False, soft_wrap=True
        )


def writable(picture: Path, *kinds: str) -> None:
    """Refuse a picture that could not be written, before anything is computed."""
    from invariance.core.errors import BadValue

    check_folder(picture)
    if picture.suffix.lower() not in kinds:
        raise BadValue(f"cannot write {picture}: its name must end in {', '.join(kinds)}")


def draw(figure: "Artefact", path: Path, what: str, *, quiet: bool) -> None:
    """Draw a picture, and say what is where unless ``quiet``; without matplotlib, say why there is none."""
    try:
        from invariance.report.render.matplotlib_figures import draw as drawn
    except ModuleNotFoundError:
        note = "no picture: it needs matplotlib (pip install 'invariance[report]')"
        (errors() if quiet else out()).print(note, highlight=False, markup=False)  # [report] is an extra, no style
        return
    drawn(figure, path, path.suffix.lower().removeprefix("."))
    if not quiet:
        out().print(f"{what}: {path}", highlight=False, markup=False)
