import io

import pytest
from rich.console import Console

from invariance.core.artefacts import Column, Line, Quantity, Sparkline, Table
from invariance.report.render.terminal import show


def printed(artefact, width: int = 100) -> str:
    text = io.StringIO()
    Console(file=text, width=width, force_terminal=False).print(show(artefact))
    return text.getvalue()


def test_a_table_fits_into_a_hundred_columns(table):
    text = printed(table)
    assert max(map(len, text.splitlines())) <= 100
    assert "small batch · Colored-MNIST" in text
    assert " ".join(text.split("GrayScale")[1].split()[:8]) == "68.3 ±0.3 68.33 0.0 69.3 ±0.3 68.33 +1.0"
    assert "b collapsed 1 of 3" in text


@pytest.mark.parametrize("width", [80, 120])
def test_at_any_width_every_table_keeps_its_names_and_its_numbers(table, width):
    text = printed(table, width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    words = text.split()
    for line in table.lines:
        assert line.label in words
        for cell in line.cells:
            if cell:
                assert f"{cell.printed.mean:.2f}" in words


def test_curves_are_bars(lines):
    text = printed(lines)
    assert "β: 0.05 … 0.95" in text
    assert text.count("▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆") >= 2
    assert max(map(len, text.splitlines())) <= 100


def test_every_kind_is_shown(artefacts):
    for artefact in artefacts:
        assert artefact.title in printed(artefact)


@pytest.mark.parametrize("names", ["hostile"], indirect=True)
def test_a_name_neither_colours_nor_rings(artefacts):
    for artefact in artefacts:
        text = printed(artefact, width=200)
        assert "\x1b" not in text
        assert "\x07" not in text
    assert "[link](javascript:alert(1))" in printed(artefacts[0], width=200)  # rich reads brackets as markup


def test_deviations_of_a_column_are_equally_wide_and_values_are_bars():
    quantities = (Quantity((50.0, 50.0)), Quantity((40.0, 75.2)), Quantity((7.0,), note="collapsed 1 of 2"))
    lines = tuple(Line(name, (q, Sparkline((0.0, 50.0, 100.0)))) for name, q in zip("xyz", quantities, strict=True))
    text = printed(Table("t", "Title", "", "method", (Column("average"), Column("over β")), lines))
    shown = [line.rstrip() for line in text.splitlines() if "█" in line]
    assert shown == [
        " x       50.0 ± 0.0    ▁▅█",
        " y       57.6 ±17.6    ▁▅█",
        " z        7.0       a  ▁▅█",
    ]
