"""``invariance report``: one page of everything, or a file for each table and figure."""

from pathlib import Path
from typing import Annotated

import typer

from invariance.cli.follow import STORE, StorePath
from invariance.cli.options import out

FORMATS = ("html", "markdown", "latex", "csv", "png", "svg")


def report(
    names: Annotated[
        list[str] | None, typer.Argument(help="Tables and figures, e.g. table-4; all with runs if none is given.")
    ] = None,
    store: StorePath = STORE,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to (default: report.html, or the folder report).")
    ] = None,
    how: Annotated[
        str, typer.Option("--format", help="html for one page; markdown, latex, csv, png or svg for a file each.")
    ] = "html",
    scale: Annotated[
        str | None, typer.Option("--scale", help="smoke, quick, ours or full (default: the largest with runs).")
    ] = None,
    selection: Annotated[
        str, typer.Option("--selection", help="Which checkpoint counts: invariant, last, training-domain, oracle.")
    ] = "invariant",
    title: Annotated[str, typer.Option("--title", help="The page's title.")] = "",
    note: Annotated[str, typer.Option("--note", help="What readers should know.")] = "",
) -> None:
    """Show what the runs in the store say. Trains nothing; the page opens from disk, without a network."""
    from invariance.core.errors import BadValue, UnknownName

    if how not in FORMATS:
        raise UnknownName.of("format", how, FORMATS)
    path = output or Path("report.html" if how == "html" else "report")
    _claim(path, how)
    try:
        from invariance.report.export import write_files, write_page
        from invariance.report.study_report import collect
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("invariance"):
            raise
        raise BadValue(f"a report needs {error.name}: pip install 'invariance[report]'") from None
    from invariance.experiments.store import Store

    runs = Store(store, must_exist=True)
    page = collect(runs, names or (), scale=scale, selection=selection, title=title.strip(), note=note.strip())
    if how == "html":
        write_page(page, path)
        out().print(f"report: {path}", highlight=False, markup=False, soft_wrap=True)
    else:
        many = write_files(page, path, how)
        out().print(f"{many} files: {path}", highlight=False, markup=False, soft_wrap=True)


def _claim(path: Path, how: str) -> None:
    """Refuse what could not be written, before anything is read."""
    from invariance.core.errors import BadValue

    if how == "html" and path.is_dir():
        raise BadValue(f"cannot write {path}: it is a folder; give a file, e.g. -o {path / 'report.html'}")
    if how != "html" and path.exists() and not path.is_dir():
        raise BadValue(f"cannot write to {path}: it is no folder; {how} needs one for its files")
    if not path.parent.is_dir():
        raise BadValue(f"cannot write {path}: there is no folder {path.parent}")
