import csv
import io

import pytest

from invariance.core.artefacts import Curve, Figure, Lines
from invariance.report.render.csv_files import comma_separated


def read(artefact) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(comma_separated(artefact))))


def test_a_quantity_is_plain_numbers(table):
    first = read(table)[0]
    assert first["line"] == "GrayScale"
    assert (first["group"], first["column"]) == ("large batch · Colored-MNIST", "average")
    assert float(first["mean"]) == pytest.approx(68.3)
    assert float(first["std"]) == pytest.approx(0.3)
    assert (first["seeds"], first["printed_mean"], first["printed_std"], first["note"]) == ("2", "68.33", "0.31", "")
    assert float(first["difference"]) == pytest.approx(-0.03)


def test_what_is_missing_is_empty_and_says_why(table):
    waiting = [row for row in read(table) if row["note"] == "no run yet"]
    assert len(waiting) == len(table.lines) - 1
    assert {(row["mean"], row["seeds"], row["printed_mean"]) for row in waiting} == {("", "0", "50.0")}


def test_a_curve_is_one_line_a_point(lines):
    rows = read(lines)
    assert len(rows) == 2 * 10 * 19
    assert rows[0].keys() == {"panel", "series", "x", "y", "low", "high"}
    assert (rows[0]["panel"], rows[0]["series"], float(rows[0]["x"])) == ("Colored-MNIST", "GrayScale", 0.05)


def test_positions_that_have_names_keep_them():
    panel = Lines("", "site", "y", (Curve("a", (0.0, 1.0), (1.0, 2.0)),), places=("Lyon", "Oslo"))
    assert [row["x"] for row in read(Figure("f", "", "", (panel,)))] == ["Lyon", "Oslo"]


def test_every_value_of_a_distribution_and_every_point_of_a_surface_is_there(boxes, surface):
    assert len(read(boxes)) == 10 * 12
    assert len(read(surface)) == 2 * 21 * 21
    assert read(surface)[0].keys() == {"panel", "x", "y", "z"}


@pytest.mark.parametrize("names", ["hostile"], indirect=True)
def test_names_are_read_back_and_run_nowhere(table, hostile):
    labels = list(dict.fromkeys(row["line"] for row in read(table)))
    assert labels[0] == hostile[0]
    assert labels[4] == f"'{hostile[4]}"  # a spreadsheet does not take it for a formula
    assert "\x1b" not in comma_separated(table)
