import pytest

from invariance.core.artefacts import Printed
from invariance.studies import STUDIES
from invariance.studies.audit import below_the_floor, different_values, impossible
from invariance.studies.support.base import Results
from invariance.studies.support.printed import Place


def pair(average, gap, data="Colored-MNIST", std=None):
    where = ("table-4", data, "reference", "ERM")
    return {Place(*where, "average"): Printed(average, std), Place(*where, "gap"): Printed(gap, std)}


@pytest.fixture(scope="module")
def tables():
    study = STUDIES["audit"]()
    return {table.name: table for table in study.show(Results(study.plan("full"), "last", {}))}


def test_the_audit_needs_no_run(tables):
    assert STUDIES["audit"]().arms("full") == []
    assert list(tables) == ["audit-impossible", "audit-floor", "audit-disagreements", "audit-repeats"]


def test_eleven_printed_pairs_cannot_be_all_of_erm(tables):
    lines = tables["audit-impossible"].lines
    assert len(lines) == 11
    assert all(line.label.startswith("ERM") for line in lines)
    assert all(line.cells[2] < 0 and line.cells[4] > 0 for line in lines)
    worst = min(lines, key=lambda line: line.cells[2])
    assert worst.label == "ERM · Colored-FMNIST · class imbalance"
    assert worst.cells[2] == pytest.approx(41.72 - 93.37 / 1.8)


@pytest.mark.parametrize(
    ("average", "gap", "lines"), [(50, 90, 0), (49, 90, 1), (49.9, 90, 1), (51, 90, 1), (70, 5, 0)]
)
def test_a_pair_is_impossible_if_an_end_leaves_the_scale(average, gap, lines):
    assert len(impossible(pair(average, gap)).lines) == lines


def test_what_chance_may_explain_is_listed_as_such():
    (line,) = impossible(pair(49.9, 90)).lines
    assert line.cells[2] == pytest.approx(-0.1)
    assert -0.6 < line.cells[4] < 0


def test_domains_are_not_symmetric_environments():
    assert impossible(pair(40, 90, "PACS")).lines == ()
    assert below_the_floor(pair(70, 0.1, "VLCS")).lines == ()


def test_gaps_below_the_floor_are_those_of_small_batches_and_grayscale(tables):
    lines = {line.label: line.cells for line in tables["audit-floor"].lines}
    cells = lines["BLOC-IRM · Colored-MNIST · small batch"]
    assert cells[2] == pytest.approx(1.70, abs=0.01)
    assert cells[3] == pytest.approx(0.34, abs=0.01)
    assert cells[4] > 5
    assert "IRMv1 · Colored-MNIST · small batch" not in lines
    assert sum(label.startswith("GrayScale") for label in lines) == 5


def test_a_gap_as_large_as_chance_is_no_finding():
    assert below_the_floor(pair(70, 1.7)).lines == ()
    assert len(below_the_floor(pair(70, 1.0)).lines) == 1


def test_steady_gaps_are_counted():
    assert below_the_floor(pair(70, 1.7, std=0.05)).notes[1].startswith("1 of 1 printed deviations")
    assert below_the_floor(pair(70, 1.7, std=0.3)).notes[1].startswith("0 of 1 printed deviations")
    assert below_the_floor(pair(70, 1.7)).notes[1].startswith("0 of 0 printed deviations")


def test_quantities_with_several_values_are_found(tables):
    found = {(line.label, line.cells[0]): line.cells for line in tables["audit-disagreements"].lines}
    assert found.keys() == {
        ("IRM-Game · Colored-MNIST · large batch", "average"),
        ("Fishr · Colored-MNIST · large batch", "average"),
        ("SparseIRM · CIFAR-MNIST · small batch", "average"),
        *(
            (f"GrayScale · {data} · small batch", m)
            for data in ("Colored-MNIST", "Colored-FMNIST")
            for m in ("average", "gap")
        ),
    }
    values = found["Fishr · Colored-MNIST · large batch", "average"]
    assert values[1] == "67.88 (table-3), 67.49 ± 0.39 (table-4), 67.05 (figure-2)"
    assert values[2] == pytest.approx(0.83)
    assert "5 of 5 averages over methods follow from their lines." in tables["audit-disagreements"].notes


def test_an_average_that_does_not_follow_from_its_lines_is_listed():
    def at(method):
        return Place("table-3", "Colored-MNIST", "large batch", method, "average")

    table = different_values({at("ERM"): Printed(60), at("REx"): Printed(62), at("Average"): Printed(62)})
    (line,) = table.lines
    assert line.cells[1:3] == ("62.00 (table-3), 61.00 by its lines", pytest.approx(1))


def test_identical_digits_are_found(tables):
    (line,) = tables["audit-repeats"].lines
    assert line.label == "BIRM"
    assert line.cells[:2] == ("gap", "3.81 ± 0.11")
