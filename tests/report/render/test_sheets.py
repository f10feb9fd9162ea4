"""Sheets and text tables: what every renderer shares."""

import math

import pytest

from invariance.core.artefacts import Boxes, Column, Curve, Figure, Line, Lines, Printed, Quantity, Surface, Table
from invariance.report.render.sheets import Footnotes, is_empty, sheets
from invariance.report.render.text_tables import text_tables


def test_a_table_keeps_ours_printed_difference_and_note(table):
    (sheet,) = sheets(table)
    entry = sheet.rows[2].entries[0]
    assert (entry.text, entry.printed, entry.difference) == ("70.3 ± 0.3", "66.33 ± 0.31", "+4.0")
    assert dict(sheet.footnotes)[entry.mark] == "collapsed 1 of 3"
    assert entry.value == pytest.approx(70.3)


def test_equal_notes_share_a_mark():
    notes = Footnotes()
    assert [notes.mark(note) for note in ("x", "y", "", "x")] == ["a", "b", "", "a"]
    assert list(notes) == [("a", "x"), ("b", "y")]


def test_there_are_marks_for_any_number_of_notes():
    notes = Footnotes()
    marks = [notes.mark(str(i)) for i in range(800)]
    assert marks[25:28] == ["z", "aa", "ab"]
    assert len(set(marks)) == 800


def test_a_part_of_a_split_sheet_has_no_blank_rows(table):
    (sheet,) = sheets(table)
    blank = Table(
        "t", "", "", "m", (Column("x", "A"), Column("y", "B")), (Line("one", ("", 1.0)), Line("two", (2.0, "")))
    )
    parts = [sheets(blank)[0].part(slice(i, i + 1)) for i in range(2)]
    assert [part.title for part in parts] == ["A", "B"]
    assert [[row.label for row in part.rows] for part in parts] == [["two"], ["one"]]
    assert [column.group for column in sheet.part(slice(1, 3)).columns] == [c.group for c in table.columns[2:]]


def test_curves_stand_beside_each_other_over_all_their_positions():
    panel = Lines("p", "x", "y", (Curve("a", (1.0, 2.0), (10.0, 20.0)), Curve("b", (2.0, 3.0), (5.0, 6.0))))
    (sheet,) = sheets(Figure("f", "", "", (panel,)))
    assert [column.name for column in sheet.columns] == ["a", "b"]
    assert [(row.label, *(e.text for e in row.entries)) for row in sheet.rows] == [
        ("1", "10", "–"),
        ("2", "20", "5"),
        ("3", "–", "6"),
    ]


def test_positions_may_have_names():
    panel = Lines("p", "site", "y", (Curve("a", (0.0, 1.0), (1.0, 2.0)),), places=("Lyon", "Oslo"))
    (sheet,) = sheets(Figure("f", "", "", (panel,)))
    assert [row.label for row in sheet.rows] == ["Lyon", "Oslo"]


def test_a_distribution_is_summarised():
    (sheet,) = sheets(Figure("f", "", "", (Boxes("", "%", {"a": (1.0, 2.0, 3.0, 4.0, 5.0), "none": ()}),)))
    assert [entry.value for entry in sheet.rows[0].entries] == [5, 1, 2, 3, 4, 5, 3]
    assert [entry.text for entry in sheet.rows[1].entries[1:]] == ["–"] * 6


def test_a_surface_says_where_it_is_lowest():
    surface = Surface("s", "x", "y", "loss", (0.0, 1.0), (2.0, 3.0), ((5.0, 4.0), (math.nan, 6.0)))
    (sheet,) = sheets(Figure("f", "", "", (surface,)))
    assert [entry.value for entry in sheet.rows[0].entries] == [4, 1, 2, 5, 6]


def _of_seeds(*counts: int) -> Table:
    """A table with a group for each number of seeds."""
    columns = tuple(Column("average", f"data set {i}") for i in range(len(counts)))
    cells = tuple(Quantity((70.0,) * count, None, "" if count else "collapsed 3 of 3", count or 3) for count in counts)
    return Table("t", "", "", "method", columns, (Line("REx", cells), Line("ERM", cells)))


def test_every_group_says_on_how_many_seeds_it_rests_where_the_groups_differ():
    for counts in ((3, 3), (3, 0)):
        equal = text_tables(_of_seeds(*counts), lambda table: table.width <= 2)
        assert [table.names() for table in equal] == [["method", "average"]] * 2
    parts = text_tables(_of_seeds(3, 10), lambda table: table.width <= 3)
    assert [table.names() for table in parts] == [["method", "average, ours", "average, n"]] * 2
    assert [table.rows[0][-1] for table in parts] == ["3", "10"]


def test_a_text_table_has_a_column_for_each_part_of_a_quantity(table):
    first = text_tables(table)[0]
    assert first.title == "large batch · Colored-MNIST"
    assert first.names()[:4] == ["method", "average, ours", "average, printed", "average, difference"]
    assert first.rows[0] == ("GrayScale", "68.3 ± 0.3", "68.33 ± 0.31", "0.0", "69.3 ± 0.3", "68.33 ± 0.31", "+1.0")
    assert first.spans(0) == [("", 1), ("average", 3), ("gap", 3)]


def test_a_narrow_table_stays_whole_under_its_groups():
    columns = (Column("a", "G"), Column("b", "G"), Column("c", "H"))
    (made,) = text_tables(Table("t", "", "", "m", columns, (Line("one", (Quantity((1.0,)), 2.0, "x")),)))
    assert made.header == (("", "G", "G", "H"), ("m", "a", "b", "c"))
    assert made.spans(0) == [("", 1), ("G", 2), ("H", 1)]


def test_neighbours_of_different_groups_are_not_one_heading():
    columns = (Column("a", "G"), Column("a", "H"))
    cells = (Quantity((1.0,), Printed(1.0)), Quantity((1.0,), Printed(1.0)))
    (made,) = text_tables(Table("t", "", "", "m", columns, (Line("one", cells),)))
    assert made.spans(1) == [("", 1), ("a", 3), ("a", 3)]


def test_every_row_of_every_text_table_is_as_wide_as_its_header(artefacts):
    for artefact in artefacts:
        for made in text_tables(artefact):
            assert {len(row) for row in (*made.header, *made.rows)} == {made.width}


def test_an_artefact_without_anything_is_no_error():
    empty = Figure("f", "", "", (Lines("", "x", "y", ()), Boxes("", "y", {}), Surface("", "x", "y", "z", (), (), ())))
    assert is_empty(empty)
    assert len(text_tables(empty)) == 3
    (made,) = text_tables(Table("t", "", "", "method", (), ()))
    assert made.names() == ["method"]
