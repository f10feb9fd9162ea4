"""The report of a store: what its runs show of every study, and everything that is known about them."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import fmean
from typing import Any

from invariance import __version__
from invariance.core.artefacts import Artefact, Column, Line, Quantity, Table
from invariance.core.catalogue import Catalogue
from invariance.core.errors import UnknownName
from invariance.data import DATA
from invariance.experiments.store import Group, Store, Summary
from invariance.methods import METHODS
from invariance.report.citation import citations
from invariance.report.drawings import histories, spectra
from invariance.report.page import MethodEntry, Page, Provenance, Section, Trouble
from invariance.report.settings import Shown, of_other_runs, of_studies
from invariance.studies import STUDIES
from invariance.studies.support.base import SCALES, Study
from invariance.studies.support.results import results
from invariance.training.selection import label, rule

MOST_TROUBLES, MOST_TRIALS = 200, 500
WORST_FIRST = ("failed", "diverged", "collapsed")


@dataclass(frozen=True)
class Wish:
    """What a reader wants to see: the named studies (all with runs, if none), at this scale (the largest with runs)."""

    names: tuple[str, ...] = ()
    scale: str | None = None
    selection: str = "invariant"
    title: str = ""
    note: str = ""


def collect(store: Store, wish: Wish) -> Page:
    """The page that a store and a wish give."""
    rule(wish.selection)
    groups, runs = store.groups(), store.summaries()
    shown = list(_shown(store, wish, {group.trial for group in groups}))
    settings = of_studies(shown)
    if not wish.names:
        known = {key for _, found in shown for key in found.rows}
        others, not_drawn = of_other_runs(store, groups, known, wish.selection)
    else:
        others, not_drawn = [], ""
    curves, curves_left_out = spectra([*settings, *others], wish.selection)
    lines, lines_left_out = histories([*settings, *others])
    sections = tuple(Section(study.name, study.show(found)) for study, found in shown)
    troubles = sorted((r for r in runs if r.status != "finished"), key=lambda r: WORST_FIRST.index(r.status))
    return Page(
        title=wish.title or f"Report on {len(runs):,} run{'' if len(runs) == 1 else 's'}",
        note=wish.note,
        made=_made(store, wish),
        facts=_facts(runs),
        summary=(_overview(shown, sections, wish),) if shown else (),
        sections=sections,
        curves=curves,
        curves_left_out=" ".join(filter(None, (curves_left_out, not_drawn))),
        histories=lines,
        histories_left_out=" ".join(filter(None, (lines_left_out, not_drawn))),
        runs=(_trials(groups),) if groups else (),
        runs_left_out=_rest(len(groups), MOST_TRIALS, "trials", "invariance runs list"),
        troubles=tuple(map(_trouble, troubles[:MOST_TROUBLES])),
        troubles_left_out=_rest(len(troubles), MOST_TROUBLES, "runs", "invariance runs list --status collapsed"),
        methods=tuple(_methods({run.method for run in runs})),
        provenances=tuple(Provenance(many, made["versions"], made["machine"]) for made, many in store.provenances()),
        citations=citations(),
    )


def _shown(store: Store, wish: Wish, there: set[str]) -> Iterator[Shown]:
    """A study without runs is shown if it needs none, after all others, or if it was asked for.

    Among studies that have some, one that can have none yet is shown too: it says what it waits for.
    """
    if wish.scale is not None and wish.scale not in SCALES:
        raise UnknownName.of("scale", wish.scale, SCALES)
    scales = [wish.scale] if wish.scale else list(SCALES)[::-1]
    studies = [STUDIES[name]() for name in wish.names] or [cls() for cls in STUDIES.classes.values()]
    found = [next((s for s in scales if _has_runs(study, s, there)), None) for study in studies]
    order = sorted(zip(studies, found, strict=True), key=lambda pair: not wish.names and not pair[0].arms(scales[0]))
    for study, scale in order:
        arms = study.arms(scales[0])
        waits = any(found) and all(arm.waits for arm in arms)
        if scale or wish.names or not arms or waits:
            yield Shown(study, results(study, scale or scales[0], store, wish.selection))


def _has_runs(study: Study, scale: str, there: set[str]) -> bool:
    return any(arm.spec and arm.spec.trial.key in there for arm in study.arms(scale))


def _made(store: Store, wish: Wish) -> str:
    today = date.today()
    return (
        f"Made by invariance {__version__} on {today.day} {today:%B %Y} from {store.path.name}. "
        f"Checkpoint of each run: {label(wish.selection)}."
    )


def _facts(runs: Sequence[Summary]) -> tuple[tuple[str, str], ...]:
    states = Counter(run.status for run in runs)
    seconds = sum(run.seconds for run in runs)
    spent = f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:.0f} min"
    facts = [("runs", len(runs)), *((state, states[state]) for state in ("finished", *WORST_FIRST[::-1]))]
    facts += [("methods", len({run.method for run in runs})), ("data sets", len({run.data for run in runs}))]
    return (*((name, f"{many:,}") for name, many in facts), ("computed", spent))


def _overview(shown: Sequence[Shown], sections: Sequence[Section], wish: Wish) -> Table:
    """Every study in one line: how much of it there is, and how far it is from what is printed."""
    lines = []
    for (study, found), section in zip(shown, sections, strict=True):
        arms = study.arms(found.scale)
        filled = sum(1 for arm in arms if (row := found.row(arm)) and row.chosen)
        differences = [abs(q.difference) for q in _quantities(section.artefacts) if not math.isnan(q.difference)]
        far = Quantity((fmean(differences),)) if differences else ""
        farthest = Quantity((max(differences),)) if differences else ""
        scale = found.scale if arms else ""
        many = len(differences) or ""
        cells = (scale, f"{filled} of {len(arms)}" if arms else "no runs needed", many, far, farthest)
        lines.append(Line(study.title, cells))
    columns = ("scale", "places filled", "printed", "mean |Δ|", "largest |Δ|")
    missing = [] if wish.names else [n for n in STUDIES.classes if n not in {study.name for study, _ in shown}]
    scales = {found.scale for study, found in shown if study.arms(found.scale)}
    notes = [f"{scale}: {SCALES[scale].about}." for scale in SCALES if scale in scales]
    notes += [f"Not shown, since the store holds none of their runs: {', '.join(missing)}."] if missing else []
    caption = (
        "What the store holds of each, how many of its numbers stand beside a printed one, and how far our means are "
        "from these, in percentage points."
    )
    names = tuple(Column(name) for name in columns)
    return Table("overview", "Studies at a glance", caption, "study", names, tuple(lines), notes=tuple(notes))


def _quantities(artefacts: Sequence[Artefact]) -> Iterator[Quantity]:
    for artefact in artefacts:
        if isinstance(artefact, Table):
            yield from (cell for line in artefact.lines for cell in line.cells if isinstance(cell, Quantity))


def _trials(groups: Sequence[Group]) -> Table:
    """All trials, their seeds together."""

    def percent(share: float | None) -> Quantity | str:
        return "" if share is None else Quantity((100 * share,))

    lines = tuple(
        Line(
            _title(METHODS, g.method),
            (
                *(_title(DATA, g.data), g.recipe, g.runs, g.finished),
                *(percent(g.average), percent(g.worst), percent(g.gap), Quantity((g.seconds / g.runs,)), g.trial[:10]),
            ),
        )
        for g in groups[:MOST_TRIALS]
    )
    names = ("data", "recipe", "seeds", "finished", "average", "worst", "gap", "seconds a run", "key")
    caption = (
        "Every trial, its seeds together: accuracy in % at the end of training, over the test environments, mean over "
        "the seeds that finished."
    )
    return Table("trials", "Every trial", caption, "method", tuple(map(Column, names)), lines)


def _trouble(run: Summary) -> Trouble:
    without = f", without {run.hold_out}" if run.hold_out is not None else ""
    method = _title(METHODS, run.method) + without
    return Trouble(run.key, method, _title(DATA, run.data), run.recipe, run.seed, run.status, run.reason)


def _methods(names: set[str]) -> Iterator[MethodEntry]:
    """Those that are installed."""
    for name in sorted(names & METHODS.classes.keys(), key=lambda name: _title(METHODS, name).lower()):
        cls = METHODS[name]
        yield MethodEntry(cls.title, cls.formula, cls.citation, cls.differs)


def _title(catalogue: Catalogue[Any], name: str) -> str:
    """As it calls itself; the name of what is not installed any more."""
    cls = catalogue.classes.get(name)
    return getattr(cls, "title", name)


def _rest(there: int, shown: int, what: str, command: str) -> str:
    return f"Not listed: {there - shown:,} more {what}; see: {command}" if there > shown else ""
