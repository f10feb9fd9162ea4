"""``invariance reproduce``: every table and figure of the paper, by name."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from invariance.cli.follow import STORE, StorePath, Workers, carry_out, finished, span
from invariance.cli.options import Json, out, print_json

if TYPE_CHECKING:
    from pathlib import Path

    from invariance.core.artefacts import Artefact
    from invariance.studies.support.base import Study


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Tables and figures, e.g. table-4, or 'all'.")] = None,
    list_them: Annotated[
        bool, typer.Option("--list", help="Show what there is, what it costs here, and what is in the store.")
    ] = False,
    scale: Annotated[str, typer.Option("--scale", help="How much is run, e.g. quick or full (see --list).")] = "quick",
    seeds: Annotated[int | None, typer.Option("--seeds", min=1, help="Trials (default: the scale's).")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Run only what has this method, data set or setting, e.g. 'small batch'; repeat."),
    ] = None,
    workers: Workers = None,
    selection: Annotated[
        str, typer.Option("--selection", help="Which checkpoint counts: invariant, last, training-domain, oracle.")
    ] = "invariant",
    store: StorePath = STORE,
    as_json: Json = False,
) -> None:
    """Make tables and figures of the paper, our numbers beside the printed ones. Only missing runs are run."""
    from invariance.core.errors import BadValue
    from invariance.studies import STUDIES
    from invariance.studies.support.results import possible

    if list_them:
        _list(store, workers, as_json)
        return
    if not names:
        raise BadValue("say what to reproduce, e.g. table-4, or 'all'; see: invariance reproduce --list")
    studies = [cls() for cls in (STUDIES.classes.values() if "all" in names else [STUDIES[name] for name in names])]
    _scale(scale)
    possible(selection)
    made = _make(studies, scale, seeds, only or [], store, workers, selection)
    if as_json:
        print_json([_plain(artefact) for artefact in made])
        return
    from invariance.report.render.terminal import show

    for artefact in made:
        out().print(show(artefact))
    out().print(f"The page with all of it: invariance report --store {store}", highlight=False)


def _make(
    studies: "list[Study]",
    scale: str,
    seeds: int | None,
    only: list[str],
    store: "Path",
    workers: int | None,
    selection: str,
) -> "list[Artefact]":
    from invariance.experiments.store import Store
    from invariance.studies.support.base import SCALES
    from invariance.studies.support.results import results, specs

    _known(studies, scale, only)
    wanted = [spec for study in studies for spec in specs(study, scale, seeds or SCALES[scale].seeds, only)]
    carry_out(wanted, store, workers)
    with Store(store) as kept:
        return [artefact for study in studies for artefact in study.show(results(study, scale, kept, selection))]


def _known(studies: "list[Study]", scale: str, only: list[str]) -> None:
    """Refuse to keep only what these studies do not have."""
    from invariance.core.errors import UnknownName

    arms = [arm for study in studies for arm in study.arms(scale)]
    there = {name.lower() for arm in arms for name in (arm.method, arm.data, arm.setting)}
    for name in only:
        if name.lower() not in there:
            raise UnknownName.of("method, data set or setting of these studies", name, there)


def _scale(name: str) -> None:
    from invariance.core.errors import UnknownName
    from invariance.studies.support.base import SCALES

    if name not in SCALES:
        raise UnknownName.of("scale", name, SCALES)


def _list(path: "Path", workers: int | None, as_json: bool) -> None:
    from invariance.core.provenance import cores
    from invariance.studies import STUDIES
    from invariance.studies.support.base import SCALES

    many = workers or cores()
    there = finished(path)
    studies = [cls() for cls in STUDIES.classes.values()]
    entries = [
        {
            "name": study.name,
            "title": study.title,
            "scales": {scale: _work(study, scale, there, many) for scale in SCALES},
            "waits": sorted({arm.waits for arm in study.arms("full") if arm.waits}),
        }
        for study in studies
    ]
    if as_json:
        print_json(entries)
    else:
        _table(entries, path, many)


def _work(study: "Study", scale: str, there: set[str], workers: int) -> dict[str, Any]:
    from invariance.experiments.cost import seconds
    from invariance.studies.support.base import SCALES
    from invariance.studies.support.results import specs

    wanted = specs(study, scale, SCALES[scale].seeds)
    missing = [spec for spec in wanted if spec.key not in there]
    return {
        "runs": len(wanted),
        "stored": len(wanted) - len(missing),
        "seconds": sum(seconds(spec) for spec in missing) / workers,
    }


def _table(entries: list[dict[str, Any]], path: "Path", workers: int) -> None:
    from rich import box
    from rich.table import Table

    from invariance.studies.support.base import SCALES

    titles, work = Table.grid(padding=(0, 2, 0, 1)), Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("", *SCALES):
        work.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for entry in entries:
        titles.add_row(entry["name"], entry["title"].partition(": ")[2] or entry["title"])
        work.add_row(entry["name"], *map(_cell, entry["scales"].values()))
    console = out()
    console.print(titles, work)
    console.print(f"Runs in {path} of those needed, and the time for the rest with {workers} workers.", highlight=False)
    for scale, how in SCALES.items():
        console.print(f"{scale}: {how.about}; {how.seeds} seed{'s' if how.seeds > 1 else ''}", highlight=False)
    waits = {name for entry in entries for name in entry["waits"]}
    for line in sorted(waits):
        console.print(line, highlight=False)


def _cell(work: dict[str, Any]) -> str:
    left = f", {span(work['seconds'])}" if work["stored"] < work["runs"] else ""
    return f"{work['stored']}/{work['runs']}{left}" if work["runs"] else "no runs"


def _plain(artefact: "Artefact") -> dict[str, Any]:
    """A table or figure as plain data."""
    return {"kind": type(artefact).__name__.lower(), **dataclasses.asdict(artefact)}
