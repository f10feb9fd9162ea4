"""The report of a store: what its runs show of every study, and everything that is known about them."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import chain
from statistics import fmean

from invariance import __version__
from invariance.core.artefacts import Artefact, Column, Line, Quantity, Table
from invariance.core.errors import UnknownName
from invariance.experiments.store import Store, Summary
from invariance.report.citation import citations
from invariance.report.drawings import histories, spectra
from invariance.report.page import Chapter, Page
from invariance.report.run_chapters import WORST_FIRST, failures, installed, methods, provenance, trials
from invariance.report.settings import of_other_runs, of_studies
from invariance.studies import STUDIES
from invariance.studies.support.base import SCALES, Plan, Results, Study
from invariance.studies.support.results import refuse_held_out, results
from invariance.training.selection import label


def collect(
    store: Store,
    names: Sequence[str] = (),
    *,
    scale: str | None = None,
    selection: str = "invariant",
    title: str = "",
    note: str = "",
) -> Page:
    """The page of the named studies, or of all with runs, at a scale, or at the largest with runs."""
    refuse_held_out(selection)
    studies = [results(plan, store, selection) for plan in _plans(store, names, scale)]
    page = study_page(store, studies, selection, others=not names)
    return replace(page, title=title or page.title, note=note)


def study_page(store: Store, studies: Sequence[Results], selection: str, *, others: bool = False) -> Page:
    """The page of these studies; ``others`` draws the runs of the store that belong to none of them too."""
    groups, runs = store.groups(), store.summaries()
    settings, not_drawn = of_studies(studies), ""
    if others:
        known = {key for study in studies for key in study.rows}
        more, not_drawn = of_other_runs(store, groups, known, selection)
        settings += more
    artefacts = [study.plan.study.show(study) for study in studies]
    curves, curves_left_out = spectra(settings, selection)
    lines, lines_left_out = histories(settings)
    chapters = (
        Chapter("studies", "Studies", artefacts=tuple(chain.from_iterable(artefacts))),
        Chapter("curves", "Accuracy over environments", (), curves, f"{curves_left_out} {not_drawn}".strip()),
        Chapter("histories", "Training histories", (), lines, f"{lines_left_out} {not_drawn}".strip()),
        trials(groups),
        failures(runs),
        methods(installed({run.method for run in runs})),
        provenance(store.provenances()),
    )
    return Page(
        title=f"Report on {len(runs):,} run{'' if len(runs) == 1 else 's'}",
        note="",
        made=_made(store, selection),
        facts=_facts(runs),
        summary=(_overview(studies, artefacts, others=others),) if studies else (),
        chapters=tuple(chapter for chapter in chapters if chapter.words or chapter.artefacts or chapter.left_out),
        citations=citations(),
    )


def _plans(store: Store, names: Sequence[str], scale: str | None) -> Iterator[Plan]:
    """A study without runs is shown if it needs none, after all others, or if it was asked for.

    Among studies that have some, one that can have none yet is shown too: it says what it waits for.
    """
    if scale is not None and scale not in SCALES:
        raise UnknownName.of("scale", scale, SCALES)
    scales = [scale] if scale else list(SCALES)[::-1]
    stored = {group.trial for group in store.groups()}
    studies = [STUDIES[name]() for name in names] or [cls() for cls in STUDIES.classes.values()]
    plans = [_largest(study, scales, stored) for study in studies]
    some = any(_has_runs(plan, stored) for plan in plans)
    for plan in sorted(plans, key=lambda plan: not names and not plan.arms):
        waits = some and all(arm.waits for arm in plan.arms)
        if names or not plan.arms or waits or _has_runs(plan, stored):
            yield plan


def _largest(study: Study, scales: Sequence[str], stored: set[str]) -> Plan:
    """The study at the first of these scales that has runs; if none has, at the first."""
    first = study.plan(scales[0])
    if _has_runs(first, stored):
        return first
    return next((plan for plan in map(study.plan, scales[1:]) if _has_runs(plan, stored)), first)


def _has_runs(plan: Plan, stored: set[str]) -> bool:
    return any(arm.spec and arm.spec.trial.key in stored for arm in plan.arms)


def _made(store: Store, selection: str) -> str:
    today = date.today()
    return (
        f"Made by invariance {__version__} on {today.day} {today:%B %Y} from {store.path.name}. "
        f"Checkpoint of each run: {label(selection)}."
    )


def _facts(runs: Sequence[Summary]) -> tuple[tuple[str, str], ...]:
    states = Counter(run.status for run in runs)
    seconds = sum(run.seconds for run in runs)
    spent = f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
    facts = [("runs", len(runs)), *((state, states[state]) for state in ("finished", *WORST_FIRST[::-1]))]
    facts += [("methods", len({run.method for run in runs})), ("data sets", len({run.data for run in runs}))]
    return (*((name, f"{many:,}") for name, many in facts), ("computed", spent))


def _overview(studies: Sequence[Results], artefacts: Sequence[Sequence[Artefact]], *, others: bool) -> Table:
    """Every study in one line: how much of it there is, and how far it is from what is printed."""
    lines = []
    for study, shown in zip(studies, artefacts, strict=True):
        arms = study.arms
        filled = sum(1 for arm in arms if (row := study.row(arm)) and row.chosen)
        differences = [abs(q.difference) for q in _quantities(shown) if not math.isnan(q.difference)]
        far = Quantity((fmean(differences),)) if differences else ""
        farthest = Quantity((max(differences),)) if differences else ""
        places = f"{filled} of {len(arms)}" if arms else "no runs needed"
        cells = (study.scale if arms else "", places, len(differences) or "", far, farthest)
        lines.append(Line(study.plan.study.title, cells))
    caption = (
        "What the store holds of each, how many of its numbers stand beside a printed one, and how far our means are "
        "from these, in percentage points."
    )
    names = ("scale", "places filled", "printed", "mean |Δ|", "largest |Δ|")
    notes = tuple(_overview_notes(studies, others=others))
    title = "Studies at a glance"
    return Table("overview", title, caption, "study", tuple(map(Column, names)), tuple(lines), notes=notes)


def _overview_notes(studies: Sequence[Results], *, others: bool) -> Iterator[str]:
    used = {study.scale for study in studies if study.arms}
    yield from (f"{scale}: {SCALES[scale].about}." for scale in SCALES if scale in used)
    shown = {study.plan.study.name for study in studies}
    missing = [name for name in STUDIES.classes if name not in shown] if others else []
    if missing:
        yield f"Not shown, since the store holds none of their runs: {', '.join(missing)}."


def _quantities(artefacts: Sequence[Artefact]) -> Iterator[Quantity]:
    for artefact in artefacts:
        if isinstance(artefact, Table):
            yield from (cell for line in artefact.lines for cell in line.cells if isinstance(cell, Quantity))
