"""Columns by name in options."""

import csv
from pathlib import Path

import numpy as np
import pytest

from invariance.core.errors import UnknownName
from invariance.fitting.reader import FitTask
from invariance.fitting.settings import changed_method, columns_of, inputs_of
from invariance.fitting.table import table_task
from invariance.tabular.source import TableSource


@pytest.fixture
def task(tmp_path: Path) -> FitTask:
    """A number that is sometimes missing, a note, a category."""
    rng = np.random.default_rng(0)
    with (tmp_path / "t.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["crp", "note", "ward", "site", "sick"])
        for i in range(60):
            words = " ".join(rng.choice(["pain", "cough", "fever", "night", "later", "since"], 6))
            out.writerow(["" if i % 5 == 0 else i, words, "AB"[i % 2], "XYZ"[i % 3], ["no", "yes"][i % 2]])
    source = TableSource.open(tmp_path / "t.csv")
    return table_task(source, "sick", "site", {"note": "text"}, test=None, seed=0)


def test_inputs_are_named_by_their_columns_and_found_again(task):
    places = {name: list(range(place.start, place.stop)) for name, place in task.reader.columns}
    assert len(places["note"]) > 100
    assert columns_of(places["note"], task) == ["note"]
    assert columns_of([*places["ward"], *places["crp"]], task) == ["crp", "ward"]
    assert columns_of(places["crp"][1:], task) == ["crp is missing"]
    assert columns_of(places["note"][3:5], task) == places["note"][3:5]
    for inputs in (places["note"], places["crp"][1:], [places["crp"][0], *places["note"][:7]]):
        assert inputs_of(columns_of(inputs, task), task) == inputs


def test_a_method_leaves_out_columns_by_name(task):
    ward = dict(task.reader.columns)["ward"]
    method = changed_method("subset-erm", {"without": ["ward"]}, task)
    assert method.without == tuple(range(ward.start, ward.stop))
    with pytest.raises(UnknownName, match="no column that is used is called 'wards'"):
        changed_method("subset-erm", {"without": ["wards"]}, task)
