"""Artefacts and a page by hand, with ordinary names and with hostile ones."""

import math
from dataclasses import replace

import pytest

from invariance.core.artefacts import (
    Boxes,
    Column,
    Curve,
    Figure,
    Formula,
    Line,
    Lines,
    Printed,
    Quantity,
    Surface,
    Table,
)

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</script><!-- <b>bold</b> -->",
    r"50 % of_A & B $x^2$ #1 {a} ~b \input{x}",
    "=1+1|[link](javascript:alert(1)) `code` *b*",
    "\x1b[31mred\x07 中文 Zoë Łódź",
)
BETAS = tuple(i / 20 for i in range(1, 20))


def _curves(names, slope=40.0):
    curves = []
    for i, name in enumerate(names):
        y = tuple(70 - i - (0 if name == "GrayScale" else slope * i / 9) * (x - 0.5) for x in BETAS)
        curves.append(Curve(name, BETAS, y, tuple(v - 1.5 for v in y), tuple(v + 1.5 for v in y)))
    return tuple(curves)


METHODS = ("GrayScale", "ERM", "IRMv1", "IRMv0", "IRM-Game", "REx", "BIRM", "SparseIRM", "Fishr", "BLOC-IRM")


@pytest.fixture
def names(request):
    """What things are called; a test may ask for hostile names."""
    return HOSTILE if getattr(request, "param", "") == "hostile" else METHODS


@pytest.fixture
def hostile():
    """Names that are no harm if they are shown as they are."""
    return HOSTILE


@pytest.fixture
def table(names) -> Table:
    """Methods in two settings: numbers of ours, some printed, one waiting and one word."""
    groups = ("large batch · Colored-MNIST", "small batch · Colored-MNIST", "large batch · Colored-FMNIST")
    columns = tuple(Column(metric, group) for group in groups for metric in ("average", "gap"))
    lines = []
    for i, name in enumerate(names):
        cells = [
            Quantity((68.0 + i + k, 68.6 + i + k), Printed(68.33 - i, 0.31), "collapsed 1 of 3" if i == 2 else "")
            for k in range(len(columns) - 1)
        ]
        lines.append(Line(name, (*cells, Quantity((), Printed(50.0), "no run yet") if i else "")))
    return Table("table-4", "Table 4: batches", "Average and gap, in %.", "method", columns, tuple(lines), "2 seeds")


@pytest.fixture
def lines(names) -> Figure:
    """Curves with bands in two panels."""
    panels = tuple(
        Lines(title, "β", "accuracy, %", _curves(names, slope), span=(0, 100))
        for title, slope in (("Colored-MNIST", 60.0), ("Colored-FMNIST", 30.0))
    )
    return Figure("curves-1", "Accuracy over β", "Bands are one deviation over seeds.", panels, "2 seeds")


@pytest.fixture
def boxes(names) -> Figure:
    """Distributions of some values."""
    groups = {name: tuple(60 + i + (k * 7 % 5) for k in range(12)) for i, name in enumerate(names)}
    return Figure("boxes", "Distributions", "Over widths.", (Boxes("", "accuracy, %", groups),))


@pytest.fixture
def surface(names) -> Figure:
    """Two bowls."""
    axis = tuple(i / 10 - 1 for i in range(21))

    def bowl(tilt):
        return tuple(tuple(x * x + tilt * y * y for x in axis) for y in axis)

    panels = tuple(Surface(names[i], "first", "second", "loss", axis, axis, bowl(i)) for i in (1, 2))
    return Figure("surface", "Loss landscapes", "Around the final weights.", panels)


@pytest.fixture
def histories(names) -> Figure:
    """Curves over steps, on a logarithmic axis, with a hole."""
    steps = tuple(50.0 * i for i in range(1, 11))
    falling = tuple(Curve(n, steps, tuple(math.exp(-s / (60 * i)) for s in steps)) for i, n in enumerate(names, 1))
    rising = tuple(Curve(n, steps, (math.nan, *(50 + s / (9 + i) for s in steps[1:]))) for i, n in enumerate(names))
    panels = (Lines("average", "step", "%", rising), Lines("penalty", "step", "P", falling, log_y=True))
    return Figure("history-1", "Colored-MNIST · short", "Mean over seeds.", panels)


@pytest.fixture
def artefacts(table, lines, boxes, surface, histories):
    """One of each kind."""
    return (table, lines, boxes, surface, histories)


@pytest.fixture
def page(artefacts):
    """A report by hand."""
    from invariance.report.page import Chapter, Page

    table, lines, boxes, surface, histories = artefacts
    runs = replace(table, name="trials", title="Every trial", columns=table.columns[:2])
    runs = replace(runs, lines=tuple(replace(line, cells=line.cells[:2]) for line in table.lines * 4))
    formula = Formula("min_θ  mean_e [ R^e(w∘θ) + γ ‖∇_w R^e(w∘θ)‖² ]")
    cited = tuple(Line(line.label, (formula, "Somebody et al., 2020", ("It is averaged.",))) for line in table.lines)
    columns = (Column("minimises"), Column("citation"), Column("differs"))
    methods = Table("method-list", "Methods", "", "method", columns, cited)
    failed = (
        Line("IRMv0", ("Colored-MNIST", 3, "collapsed", "no better than a constant", "0123456789abcdef")),
        Line("Fishr", ("Colored-MNIST", 1, "diverged", "the loss is nan after 12 updates", "fedcba9876543210")),
    )
    columns = tuple(map(Column, ("data", "seed", "status", "reason", "key")))
    failures = Table("failed-runs", "Failed runs", "", "method", columns, failed)
    versions = Table("software", "Provenance", "", "runs", (Column("torch"),), (Line("1,240 runs", ("2.13.0",)),))
    return Page(
        title="Runs of November",
        note="Made on a small machine.\nSecond line.",
        made="Made by invariance 0.1.0 on 15 November 2026 from runs.db.",
        facts=(("runs", "1,240"), ("finished", "1,236"), ("collapsed", "3"), ("failed", "1"), ("hours", "12.4")),
        chapters=(
            Chapter("studies", "Studies", artefacts=(table, boxes, surface)),
            Chapter("curves", "Accuracy over environments", ("They differ.",), (lines,)),
            Chapter("histories", "Training histories", (), (histories,), "Left out: 12 more settings."),
            Chapter("runs", "All runs", artefacts=(runs,)),
            Chapter("failures", "Failed runs", artefacts=(failures,)),
            Chapter("methods", "Methods", artefacts=(methods,), cards=True),
            Chapter("provenance", "Provenance", artefacts=(versions,), cards=True),
        ),
        citations=("@software{invariance,\n  title = {invariance}\n}",),
    )
