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
from invariance.experiments.stored_runs import StoredRuns
from invariance.report.citation import citations
from invariance.report.drawings import histories
from invariance.report.page import Chapter, Page
from invariance.report.run_chapters import WORST_FIRST, failures, installed, methods, provenance, recipes, trials
from invariance.report.settings import of_other_runs, of_studies
from invariance.report.study_blocks import Asked, ShownStudy, curve_blocks, study_block, with_runs
from invariance.studies import STUDIES
from invariance.studies.support.base import Plan
from invariance.studies.support.completeness import plans_with_runs
from invariance.studies.support.results import refuse_held_out
from invariance.studies.support.scales import SCALES
from invariance.studies.support.seeds import seed_table
from invariance.training.selection import label

COMPARED = ("average", "gap")
"""Metrics whose distances from the printed numbers are summed up, each by itself."""


def collect(
    store: Store,
    names: Sequence[str] = (),
    *,
    scale: str | None = None,
    asked: Asked | None = None,
    title: str = "",
    note: str = "",
) -> Page:
    """The page of the named studies, or of all with runs, at a scale, or at the most complete and all others."""
    asked = asked or Asked()
    refuse_held_out(asked.selection)
    stored = StoredRuns(store)
    page = study_page(stored, _plans(stored, names, scale), asked, others=not names)
    return replace(page, title=title or page.title, note=note)


def study_page(stored: StoredRuns, plans: Sequence[Sequence[Plan]], asked: Asked, *, others: bool = False) -> Page:
    """The page of studies, each at one scale or at several.

    ``others`` draws the runs of the store that belong to none of them too.
    """
    studies = [study_block(stored, own, asked) for own in plans]
    groups, runs = stored.store.groups(), stored.summaries
    every = [each for study in studies for each in study.results]
    settings, not_drawn = of_studies(every), ""
    if others:
        known = {row.trial for each in every for row in each.rows.values()}
        more, not_drawn = of_other_runs(stored, groups, known, asked.selection)
        settings += more
    curves, curves_left_out = curve_blocks(stored, settings, asked) if settings else ((), "")
    lines, lines_left_out = histories(settings)
    paper, ours = ([s.block for s in studies if bool(s.first.plan.study.number) == own] for own in (True, False))
    seeds = tuple(seed_table(study.first) for study in with_runs(studies))
    chapters = (
        Chapter("paper", "The paper's tables and figures", blocks=tuple(paper)),
        Chapter("ours", "Studies of our own", blocks=tuple(ours)),
        Chapter(
            "curves", "Accuracy over environments", (), (), f"{curves_left_out} {not_drawn}".strip(), blocks=curves
        ),
        Chapter("histories", "Training histories", (), lines, f"{lines_left_out} {not_drawn}".strip(), folded=True),
        Chapter("seeds", "Every seed", artefacts=seeds, folded=True),
        trials(groups, stored.specs),
        failures(runs),
        methods(installed({run.method for run in runs})),
        recipes({run.recipe for run in runs}, _scales(studies)),
        provenance(stored.store.provenances()),
    )
    return Page(
        title=f"Report on {len(runs):,} run{'' if len(runs) == 1 else 's'}",
        note="",
        made=_made(stored.store, asked),
        facts=_facts(runs),
        summary=(_overview(studies, others=others),) if studies else (),
        chapters=tuple(c for c in chapters if c.words or c.artefacts or c.blocks or c.left_out),
        citations=citations(),
    )


def _plans(stored: StoredRuns, names: Sequence[str], scale: str | None) -> list[list[Plan]]:
    """The paper's tables and figures in its order, then our studies; those that need no runs come last.

    A study without runs is shown if it needs none or was asked for.
    """
    if scale is not None and scale not in SCALES:
        raise UnknownName.of("scale", scale, SCALES)
    studies = [STUDIES[name]() for name in names] or [cls() for cls in STUDIES.classes.values()]
    plans = plans_with_runs(studies, stored, [scale] if scale else list(SCALES))
    shown = [own for own in plans.values() if names or not own[0].arms or stored.held(own[0].identities)]
    return sorted(shown, key=lambda own: (not own[0].study.number, own[0].study.position, not own[0].arms))


def _made(store: Store, asked: Asked) -> str:
    today = date.today()
    seeds = (
        "Collapsed seeds are averaged with the others."
        if asked.with_collapsed
        else "Collapsed seeds are counted and not averaged."
    )
    return (
        f"Made by invariance {__version__} on {today.day} {today:%B %Y} from {store.path.name}. "
        f"Checkpoint of each run: {label(asked.selection)}. {seeds}"
    )


def _facts(runs: Sequence[Summary]) -> tuple[tuple[str, str], ...]:
    states = Counter(run.status for run in runs)
    seconds = sum(run.seconds for run in runs)
    spent = f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
    facts = [("runs", len(runs)), *((state, states[state]) for state in ("finished", *WORST_FIRST[::-1]))]
    facts += [("methods", len({run.method for run in runs})), ("data sets", len({run.data for run in runs}))]
    return (*((name, f"{many:,}") for name, many in facts), ("computed", spent))


def _overview(studies: Sequence[ShownStudy], *, others: bool) -> Table:
    """Every study in one line: how much of it there is, and how far it is from what is printed."""
    lines = []
    for study in studies:
        arms = study.first.arms
        rows = study.first.rows.values()
        places = f"{sum(study.first.row(arm) is not None for arm in arms)} of {len(arms)}" if arms else "no runs needed"
        seeds = f"{sum(len(row.chosen) for row in rows)} of {sum(len(row.runs) for row in rows)}" if rows else ""
        far = chain.from_iterable(_distance(study.block.first, metric) for metric in COMPARED)
        lines.append(Line(study.block.title, (study.first.scale if arms else "", places, seeds, *far)))
    caption = (
        "What the store holds of each: places with a run, and of their seeds those that are averaged. Then how many of "
        "its averages and gaps stand beside a printed one, and how far our means are from these, in percentage points."
    )
    names = ("printed", "mean |Δ|", "largest |Δ|")
    columns = (
        Column("scale"),
        Column("places filled"),
        Column("seeds averaged"),
        *(Column(name, m) for m in COMPARED for name in names),
    )
    notes = tuple(_overview_notes(studies, others=others))
    return Table("overview", "Studies at a glance", caption, "study", columns, tuple(lines), notes=notes)


def _distance(artefacts: Sequence[Artefact], metric: str) -> tuple[int | str, Quantity | str, Quantity | str]:
    """Of all numbers of one metric from the printed ones: how many, the mean and the largest."""
    own = [q for q in _quantities(artefacts) if q.metric == metric and not math.isnan(q.difference)]
    distances = [abs(q.difference) for q in own]
    if not distances:
        return "", "", ""
    return len(distances), Quantity((fmean(distances),)), Quantity((max(distances),))


def _scales(studies: Sequence[ShownStudy]) -> list[str]:
    """The scales at which studies are shown."""
    used = {each.scale for study in studies for each in study.results if each.arms}
    return [scale for scale in SCALES if scale in used]


def _overview_notes(studies: Sequence[ShownStudy], *, others: bool) -> Iterator[str]:
    yield from (f"{scale}: {SCALES[scale].about}." for scale in _scales(studies))
    several = [study.block.title.partition(":")[0] for study in studies if len(study.results) > 1]
    if several:
        yield f"Runs at several scales, to choose between: {', '.join(several)}."
    shown = {study.block.name for study in studies}
    missing = [name for name in STUDIES.classes if name not in shown] if others else []
    if missing:
        yield f"Not shown, since the store holds none of their runs: {', '.join(missing)}."


def _quantities(artefacts: Sequence[Artefact]) -> Iterator[Quantity]:
    for artefact in artefacts:
        if isinstance(artefact, Table):
            yield from (cell for line in artefact.lines for cell in line.cells if isinstance(cell, Quantity))
