"""Chapters about the runs of a store: trials, failures, methods, software and machines."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from invariance.core.artefacts import Column, Formula, Line, Quantity, Table
from invariance.core.catalogue import Catalogue
from invariance.data import DATA
from invariance.experiments.store import Group, Summary
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.recipes.presets import ALIASES, PRESETS
from invariance.report.page import Chapter
from invariance.report.settings import told_apart
from invariance.studies.support.scales import differences

MAX_FAILURES, MAX_TRIALS = 200, 500
WORST_FIRST = ("failed", "diverged", "collapsed")


def trials(groups: Sequence[Group], specs: Mapping[str, Mapping[str, Any]]) -> Chapter:
    """Every trial, its seeds together; those of one method, recipe and data set are told apart by what decided them."""

    def percent(share: float | None) -> Quantity | str:
        return "" if share is None else Quantity((100 * share,))

    shown = groups[:MAX_TRIALS]
    names: dict[str, str] = {}
    for (_, _, _), alike in groupby(shown, key=lambda g: (g.data, g.recipe, g.method)):
        own = {g.trial: g for g in alike}
        titles = {trial: _title(METHODS, g.method) for trial, g in own.items()}
        names |= titles | told_apart({trial: specs[trial] for trial in own if trial in specs}, titles)
    lines = tuple(
        Line(
            names[g.trial],
            (
                *(_title(DATA, g.data), g.recipe, g.runs, g.finished),
                *(percent(g.average), percent(g.worst), percent(g.gap), Quantity((g.seconds / g.runs,)), g.trial[:10]),
            ),
        )
        for g in shown
    )
    columns = ("data", "recipe", "seeds", "finished", "average", "worst", "gap", "seconds per run", "key")
    caption = (
        "Every trial, its seeds together: accuracy in % at the end of training, over the test environments, mean over "
        "the seeds that finished."
    )
    table = Table("trials", "Every trial", caption, "method", tuple(map(Column, columns)), lines, listing=True)
    left_out = _rest(len(groups), MAX_TRIALS, "trials", "invariance runs list")
    return Chapter("runs", "All runs", artefacts=(table,) if groups else (), left_out=left_out, folded=True)


def failures(runs: Iterable[Summary]) -> Chapter:
    """The runs that did not finish well, the worst first."""
    title, runs = "Collapsed and failed runs", tuple(runs)
    alone = sum(run.status == "finished" and bool(run.reason) for run in runs)
    text = (f"{alone} finished without a logit offset: debiasing found nothing to remove.",) if alone else ()
    failed = sorted((r for r in runs if r.status != "finished"), key=lambda r: WORST_FIRST.index(r.status))
    if not failed:
        return Chapter("failures", title, ("None: every run finished.", *text))
    lines = []
    for run in failed[:MAX_FAILURES]:
        without = f", without {run.hold_out}" if run.hold_out is not None else ""
        cells = (_title(DATA, run.data), run.recipe, run.seed, run.status, run.reason, run.key)
        lines.append(Line(_title(METHODS, run.method) + without, cells))
    caption = (
        "A collapsed run ended no better than a constant, a diverged one left the finite numbers, a failed one raised "
        "an error. Means leave out runs that failed, that diverged, or that had collapsed at the selected checkpoint, "
        "unless collapsed seeds are asked for; a run that collapsed later is averaged."
    )
    names = ("data", "recipe", "seed", "status", "reason", "key")
    table = Table("failed-runs", title, caption, "method", tuple(map(Column, names)), tuple(lines), listing=True)
    left_out = _rest(len(failed), MAX_FAILURES, "runs", "invariance runs list --status collapsed")
    return Chapter("failures", title, text, artefacts=(table,), left_out=left_out)


def methods(classes: Iterable[type[Method]], *, differences: bool = True) -> Chapter:
    """What each method minimises, whom to cite, and where this implementation differs from the paper."""
    lines = []
    for cls in classes:
        lines.append(Line(cls.title, (Formula(cls.formula), cls.citation, cls.differs if differences else ())))
    columns = tuple(map(Column, ("minimises", "citation", "differs")))
    table = Table("method-list", "Methods", "", "method", columns, tuple(lines))
    return Chapter("methods", table.title, artefacts=(table,) if lines else (), cards=True)


def recipes(names: Iterable[str], scales: Collection[str]) -> Chapter:
    """How runs by these recipes were trained, and where recipes and scales differ from the paper."""
    used = {ALIASES.get(part, part) for name in names for part in name.split("+")}
    lines = tuple(Line(name, (each.about, each.differs)) for name, each in PRESETS.items() if name in used)
    table = Table("recipe-list", "Recipes", "", "recipe", (Column("trains"), Column("differs")), lines)
    words = (f"Where the studies differ from the paper: {' '.join(differences(scales))}",) if scales else ()
    return Chapter("recipes", table.title, words, (table,) if lines else (), cards=True)


def installed(names: Iterable[str]) -> list[type[Method]]:
    """The methods of these names that are there, in the order of their titles."""
    return sorted((METHODS[name] for name in names if name in METHODS.classes), key=lambda cls: cls.title.lower())


def provenance(made: Sequence[tuple[dict[str, Any], int]]) -> Chapter:
    """With what and where runs were made, and how many."""
    fields = [content["machine"] | content["versions"] for content, _ in made]
    names = list(dict.fromkeys(name for each in fields for name in each))
    lines = tuple(
        Line(f"{many:,} run{'' if many == 1 else 's'}", tuple(str(each.get(name, "")) for name in names))
        for each, (_, many) in zip(fields, made, strict=True)
    )
    table = Table("software", "Provenance", "", "runs", tuple(map(Column, names)), lines)
    return Chapter("provenance", table.title, artefacts=(table,) if made else (), cards=True)


def _title(catalogue: Catalogue[Any], name: str) -> str:
    """As it calls itself; the name of what is not installed any more."""
    cls = catalogue.classes.get(name)
    return getattr(cls, "title", name)


def _rest(there: int, shown: int, what: str, command: str) -> str:
    return f"Not listed: {there - shown:,} more {what}; see: {command}" if there > shown else ""
