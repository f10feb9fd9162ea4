"""A search as a table of its best trials and a figure of what mattered."""

from collections import Counter
from collections.abc import Iterator
from statistics import fmean

from invariance.core.artefacts import Boxes, Column, Curve, Figure, Line, Lines, Panel, Table
from invariance.methods import METHODS
from invariance.recipes.search import LogRange, OneOf, written
from invariance.tuning.rules import labelled, tuning_rule
from invariance.tuning.trials import Trial
from invariance.tuning.tune import Tuning

BEST = 10
"""Trials in the table."""
MOST_PANELS = 5
"""Fields that the figure shows, the most important ones."""


def table(tuning: Tuning) -> Table:
    """The best trials, one per line."""
    space, rule = tuning.search.space, tuning_rule(tuning.search.rule)
    columns = (Column("score"), *(Column(_short(name)) for name in space), Column("seconds"))
    lines = tuple(
        Line(str(t.number), (f"{t.score:.2f}", *(written(t.settings[name]) for name in space), t.seconds))
        for t in tuning.ranked[:BEST]
    )
    caption = f"The best trials. Score: {rule.measure}; higher is better. Seconds are of all runs."
    return Table("tune", title(tuning), caption, "trial", columns, lines, _provenance(tuning), tuple(_notes(tuning)))


def figure(tuning: Tuning) -> Figure:
    """What mattered: the share of every field in the score's variance, and the score over the most important ones."""
    panels: list[Panel] = []
    if tuning.importances:
        shares = {_short(name): tuple(100 * s for s in each) for name, each in tuning.importances.items()}
        panels.append(Boxes("importance", "variance of the score explained, %", shares))
    names = [*tuning.importances, *(name for name in tuning.search.space if name not in tuning.importances)]
    panels += [_scores(tuning, name) for name in names[:MOST_PANELS] if tuning.ranked]
    caption = "Importance by fANOVA over resampled trials; then the score of every scored trial over one field each."
    return Figure("tune-importance", title(tuning), caption, tuple(panels), _provenance(tuning))


def title(tuning: Tuning) -> str:
    """What was tuned, by what."""
    search = tuning.search
    name = METHODS[search.method].title
    return f"Tuning of {name} on {search.spec({}).data.title} · recipe {search.recipe} · rule {labelled(search.rule)}"


def _provenance(tuning: Tuning) -> str:
    search = tuning.search
    last = search.first_seed + search.seeds - 1
    seeds = f"seeds {search.first_seed}–{last}" if search.seeds > 1 else f"seed {search.first_seed}"
    return f"{len(tuning.trials)} trials of {tuning.budget} · {seeds} · rule: {labelled(search.rule)} · {tuning.study}"


def _notes(tuning: Tuning) -> Iterator[str]:
    reasons = Counter(t.reason for t in tuning.trials if t.status != "finished")
    if reasons:
        counted = "; ".join(f"{n} × {reason}" for reason, n in reasons.most_common())
        yield f"Without a score: {sum(reasons.values())} of {len(tuning.trials)} trials ({counted})."
    if tuning.importances:
        shares = {_short(name): fmean(each) for name, each in tuning.importances.items()}
        yield f"What mattered: {', '.join(f'{name} {100 * share:.0f} %' for name, share in shares.items())}."
    at_end = [name for name in tuning.search.space if tuning.best and _at_end(tuning, name)]
    if at_end:
        yield f"At the end of its range: {', '.join(at_end)}; a wider one (--search) may hold more."
    if tuning_rule(tuning.search.rule).sees_test:
        yield "The rule has seen test data: these values say what is possible, not what can be expected."


def _at_end(tuning: Tuning, name: str) -> bool:
    each = tuning.search.space[name]
    assert tuning.best  # noqa: S101 - the caller has asked
    return not isinstance(each, OneOf) and tuning.best.settings[name] in each.parts


def _scores(tuning: Tuning, name: str) -> Lines:
    """One point per scored trial; the best one by itself."""
    each = tuning.search.space[name]
    values = each.parts if isinstance(each, OneOf) else ()

    def point(label: str, trial: Trial) -> Curve:
        value = trial.settings[name]
        assert trial.score is not None  # noqa: S101 - ranked trials have one
        return Curve(label, (float(values.index(value) if values else value),), (trial.score,))

    best, *others = tuning.ranked
    curves = (*(point("trial", trial) for trial in others), point("best trial", best))
    places = tuple(map(written, values))
    measure = tuning_rule(tuning.search.rule).measure
    return Lines(_short(name), name, measure, curves, log_x=isinstance(each, LogRange), places=places)


def _short(name: str) -> str:
    return name.rpartition(".")[2]
