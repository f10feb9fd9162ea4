"""Differences between methods, seed by seed, with an interval: the same seed has the same data and the same order."""

from collections.abc import Iterable, Sequence
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from scipy.special import stdtrit

from invariance.core.artefacts import Column, Difference, Line, Table
from invariance.studies.support.base import METRICS, Arm, Results

LEVEL = 0.95
NO_COMMON_SEED = "no seed that both have"
CAPTION = (
    "In points, mean over the seeds that both have, with a 95 % interval of Student's t for paired values. Where the "
    "interval holds zero, these seeds do not tell the two apart."
)


class Pair(NamedTuple):
    """Two arms to compare: the first less the second, in a line and a column of the table of differences."""

    line: str
    group: str
    arm: Arm
    other: Arm


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Of the mean of these values; not numbers for fewer than two."""
    if len(values) < 2:
        return float("nan"), float("nan")
    half = float(stdtrit(len(values) - 1, (1 + LEVEL) / 2)) * stdev(values) / sqrt(len(values))
    return fmean(values) - half, fmean(values) + half


def paired(results: Results, arm: Arm, other: Arm, metric: str) -> Difference:
    """A metric of an arm less that of the other, over their common seeds."""
    first, second = (row.by_seed if (row := results.row(a)) else {} for a in (arm, other))
    name = METRICS[metric]
    common = [seed for seed in first if seed in second]
    values = tuple(100 * (getattr(first[s].test, name) - getattr(second[s].test, name)) for s in common)
    return Difference(values, *interval(values), note="" if values else NO_COMMON_SEED)


def paired_table(results: Results, pairs: Iterable[Pair], what: str, metrics: Sequence[str]) -> tuple[Table, ...]:
    """The differences that a study's claim is about, as one table; none where no two arms have a seed in common."""
    pairs, study = list(pairs), results.plan.study
    at = {(pair.line, pair.group): pair for pair in pairs}
    groups = list(dict.fromkeys(pair.group for pair in pairs))
    lines = []
    for line in dict.fromkeys(pair.line for pair in pairs):
        own = [at.get((line, group)) for group in groups]
        cells = tuple(paired(results, p.arm, p.other, m) if p else "" for p in own for m in metrics)
        lines.append(Line(line, cells))
    if not any(isinstance(cell, Difference) and cell.values for line in lines for cell in line.cells):
        return ()
    columns = tuple(Column(metric, group) for group in groups for metric in metrics)
    title = f"{study.title.removesuffix('?')}: {what}"
    caption = f"{what[0].upper()}{what[1:]}. {CAPTION}"
    name = f"{study.name}-differences"
    return (Table(name, title, caption, "method", columns, tuple(lines), results.provenance, number=study.number),)
