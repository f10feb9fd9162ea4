"""``invariance report``: one page of everything, or a file for each table and figure."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from invariance.cli import completion
from invariance.cli.follow import STORE, FromPublished, StorePath, open_runs
from invariance.cli.options import Json, conclude

if TYPE_CHECKING:
    from invariance.core.catalogue import Catalogue
    from invariance.report.formats.base import Format


def report(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            help="Tables and figures, e.g. table-4; all with runs if none is given.", autocompletion=completion.studies
        ),
    ] = None,
    store: StorePath = STORE,
    published: FromPublished = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to (default: report.html, or the folder report).")
    ] = None,
    how: Annotated[
        str, typer.Option("--format", help="html for one page, or e.g. csv for a file each (see: list formats).")
    ] = "html",
    scale: Annotated[
        str | None,
        typer.Option("--scale", help="Only this one, e.g. full (default: all with runs, the most complete first)."),
    ] = None,
    selection: Annotated[
        str, typer.Option("--selection", help="Which checkpoint counts: invariant, last, training-domain, oracle.")
    ] = "invariant",
    with_collapsed: Annotated[
        bool, typer.Option("--with-collapsed", help="Average collapsed seeds with the others.")
    ] = False,
    title: Annotated[str, typer.Option("--title", help="The page's title.")] = "",
    note: Annotated[str, typer.Option("--note", help="What readers should know.")] = "",
    as_json: Json = False,
) -> None:
    """Show what the runs in the store say. Trains nothing; the page opens from disk, without a network."""
    form = formats()[how]()
    path = output or Path(form.output)
    form.check(path)
    from invariance.report.study_blocks import Asked
    from invariance.report.study_report import collect

    with open_runs(store, published) as runs:
        asked = Asked(selection, with_collapsed)
        page = collect(runs, names or (), scale=scale, asked=asked, title=title.strip(), note=note.strip())
    line = form.write(page, path)
    conclude(line, {"output": str(path), "format": how, "chapters": len(page.chapters)}, as_json=as_json)


def formats() -> "Catalogue[Format]":
    """What a report can be written as, where the packages that this needs are installed."""
    from invariance.core.errors import BadValue

    try:
        from invariance.report.formats import FORMATS
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("invariance"):
            raise
        raise BadValue(f"a report needs {error.name}: pip install 'invariance[report]'") from None
    return FORMATS
