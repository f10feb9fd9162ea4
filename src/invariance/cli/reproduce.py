"""``invariance reproduce``: every table and figure of the paper, by name."""

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from invariance.cli import completion
from invariance.cli.ending import ended, last_line
from invariance.cli.follow import STORE, Address, EngineName, Fresh, StorePath, Workers, carry_out, finished, span
from invariance.cli.options import MAX_SEEDS, Checkpoints, Device, Json, out, print_json, writable
from invariance.cli.tracking import Track
from invariance.core.fields import finite

if TYPE_CHECKING:
    from invariance.core.artefacts import Artefact
    from invariance.experiments.spec import Spec
    from invariance.experiments.stored_runs import StoredRuns
    from invariance.studies.support.base import Plan

PAGE = Path("report.html")


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Tables and figures, e.g. table-4, or 'all'.", autocompletion=completion.studies),
    ] = None,
    list_them: Annotated[
        bool,
        typer.Option("--list", help="List the studies, their cost on this machine and what the store has of them."),
    ] = False,
    scale: Annotated[str, typer.Option("--scale", help="How much is run, e.g. quick or full (see --list).")] = "quick",
    seeds: Annotated[
        int | None, typer.Option("--seeds", min=1, max=MAX_SEEDS, help="How many seeds (default: the scale's).")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", help="Run only what has this method, data set or setting; repeat to narrow it down."),
    ] = None,
    workers: Workers = None,
    engine: EngineName = "local",
    address: Address = None,
    checkpoints: Checkpoints = None,
    device: Device = "cpu",
    fresh: Fresh = False,
    track: Track = None,
    selection: Annotated[
        str, typer.Option("--selection", help="Which checkpoint counts: invariant, last, training-domain, oracle.")
    ] = "invariant",
    store: StorePath = STORE,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The page to write (default: report.html; with --json, none)."),
    ] = None,
    show_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Make tables and figures of the paper, our numbers beside the printed ones. Only missing runs are run."""
    from invariance.core.errors import BadValue
    from invariance.experiments.engines import chosen
    from invariance.experiments.store import Store
    from invariance.experiments.stored_runs import StoredRuns
    from invariance.studies.support.results import chosen_arms, refuse_held_out, results, specs
    from invariance.studies.support.scales import SCALES

    if list_them:
        _list(store, workers, as_json)
        return
    if not names:
        raise BadValue("say what to reproduce, e.g. table-4, or 'all'; see: invariance reproduce --list")
    refuse_held_out(selection)
    plans = _plans(names, scale, only or [])
    page = output or (None if as_json else PAGE)
    if page:
        writable(page, ".html")
    needed = [spec for plan in plans for spec in specs(plan, seeds or SCALES[scale].seeds, only or [])]
    waiting = sum(bool(arm.waits) for plan in plans for arm in chosen_arms(plan, only or []))
    made_by = chosen(engine, workers=workers, address=address, device=device, fresh=fresh, checkpoints=checkpoints)
    reuse = carry_out(needed, store, made_by, track)
    with Store(store) as opened:
        runs = StoredRuns(opened)
        studies = [results(plan, runs, selection) for plan in plans]
        _show([artefact for study in studies for artefact in study.plan.study.show(study)], as_json)
        note = _write(runs, plans, selection, page) if page else ""
    if show_page and page and page.exists():
        typer.launch(str(page.absolute()))
    if not as_json:
        reuse.say()
    last_line(note, ended(needed, store, waiting), quiet=as_json)


def _plans(names: list[str], scale: str, only: list[str]) -> "list[Plan]":
    """The named studies at a scale. Refuses to run only what none of them has."""
    from invariance.core.errors import BadValue, UnknownName
    from invariance.studies import STUDIES
    from invariance.studies.support.results import chosen_arms
    from invariance.studies.support.scales import SCALES

    studies = list(STUDIES.classes.values()) if "all" in names else [STUDIES[name] for name in names]
    if scale not in SCALES:
        raise UnknownName.of("scale", scale, SCALES)
    plans = [cls().plan(scale) for cls in studies]
    known = {name.lower() for plan in plans for arm in plan.arms for name in (arm.method, arm.data, arm.setting)}
    for name in only:
        if name.lower() not in known:
            raise UnknownName.of("method, data set or setting of these studies", name, known)
    if only and not any(chosen_arms(plan, only) for plan in plans):
        raise BadValue(f"no run has {' and '.join(only)} together; --only takes one method, one data set, one setting")
    return plans


def _show(artefacts: "list[Artefact]", as_json: bool) -> None:
    if as_json:
        print_json([{"kind": type(each).__name__.lower(), **finite(dataclasses.asdict(each))} for each in artefacts])
        return
    from invariance.report.render.terminal import show

    for artefact in artefacts:
        out().print(show(artefact))


def _write(runs: "StoredRuns", plans: "list[Plan]", selection: str, page: Path) -> str:
    """Write the page of these studies; returns where it is, or why there is none."""
    try:
        from invariance.report.export import write_page
        from invariance.report.study_blocks import Asked
        from invariance.report.study_report import study_page
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("invariance"):
            raise
        return f"no page: it needs {error.name} (pip install 'invariance[report]')"
    write_page(study_page(runs, [[plan] for plan in plans], Asked(selection)), page)
    return f"report: {page}"


def _list(path: Path, workers: int | None, as_json: bool) -> None:
    from invariance.core.provenance import cores
    from invariance.studies import STUDIES
    from invariance.studies.support.results import specs
    from invariance.studies.support.scales import SCALES

    processes = workers or cores()
    stored = finished(path)
    entries = []
    every: dict[str, dict[str, Spec]] = {scale: {} for scale in SCALES}
    for study in (cls() for cls in STUDIES.classes.values()):
        plans = {scale: study.plan(scale) for scale in SCALES}
        needed = {scale: specs(plan, SCALES[scale].seeds) for scale, plan in plans.items()}
        for scale in SCALES:
            every[scale] |= {spec.key: spec for spec in needed[scale]}
        entries.append(
            {
                "name": study.name,
                "title": study.full_title,
                "scales": {scale: _work(needed[scale], stored, processes) for scale in SCALES},
                "waits": sorted({arm.waits for arm in plans["full"].arms if arm.waits}),
            }
        )
    if as_json:
        print_json(entries)
    else:
        together = [_work(specs.values(), stored, processes) for specs in every.values()]
        _print_list(entries, together, path, processes)


def _work(needed: "Collection[Spec]", stored: set[str], workers: int) -> dict[str, Any]:
    from invariance.experiments.cost import seconds

    missing = [spec for spec in needed if spec.key not in stored]
    return {
        "runs": len(needed),
        "stored": len(needed) - len(missing),
        "seconds": sum(seconds(spec) for spec in missing) / workers,
    }


def _print_list(entries: list[dict[str, Any]], together: list[dict[str, Any]], path: Path, workers: int) -> None:
    from invariance.core.artefacts import Column, Line, Table
    from invariance.report.render.terminal import show
    from invariance.studies.support.scales import SCALES, differences

    titles = tuple(Line(e["name"], (e["title"].partition(": ")[2] or e["title"],)) for e in entries)
    work = [Line(e["name"], tuple(map(_cell, e["scales"].values()))) for e in entries]
    work.append(Line("all", tuple(map(_cell, together))))
    scales = [f"{name}: {scale.about}; {scale.seeds} seed{'s' * (scale.seeds > 1)}" for name, scale in SCALES.items()]
    scales.append(f"Where these differ from the paper: {' '.join(differences(SCALES))}")
    waits = sorted({name for entry in entries for name in entry["waits"]})
    caption = (
        f"Runs in {path} of those needed, and the time for the rest, {workers} at a time. Studies share runs, and "
        "'all' counts each once."
    )
    columns = tuple(map(Column, SCALES))
    console = out()
    console.print(show(Table("studies", "Studies", "", "name", (Column("shows"),), titles)))
    console.print(show(Table("work", "Runs", caption, "name", columns, tuple(work), notes=(*scales, *waits))))


def _cell(work: dict[str, Any]) -> str:
    left = f", {span(work['seconds'])}" if work["stored"] < work["runs"] else ""
    return f"{work['stored']}/{work['runs']}{left}" if work["runs"] else "no runs"
