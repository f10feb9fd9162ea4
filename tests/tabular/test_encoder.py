import json
import math
from collections import Counter
from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")

import pyarrow as pa

from invariance.core.errors import BadValue
from invariance.tabular.columns import (
    MAX_LEVELS,
    CategoricalColumn,
    DateColumn,
    NumericColumn,
    TextColumn,
    VectorColumn,
)
from invariance.tabular.encoder import Encoder
from invariance.tabular.profile import ColumnProfile
from invariance.tabular.roles import Role


def fitted(column: pa.Array, kind: str) -> Encoder:
    profile = ColumnProfile("v")
    profile.add(column)
    return Encoder.fit([profile], [Role("v", kind)])


def encoded(encoder: Encoder, column: pa.Array) -> tuple[list[list[float]], int]:
    strange: Counter[str] = Counter()
    return encoder.encode({"v": column}, strange).tolist(), strange["v"]


@given(st.lists(st.floats(-1e6, 1e6) | st.none(), min_size=2).filter(lambda v: any(x is not None for x in v)))
def test_missing_numbers_are_the_mean_and_are_marked(values):
    encoder = fitted(pa.array(values, pa.float64()), "numeric")
    known = [value for value in values if value is not None]
    rows, strange = encoded(encoder, pa.array(values, pa.float64()))
    assert strange == 0
    for value, row in zip(values, rows, strict=True):
        expected = [math.fsum(known) / len(known) if value is None else value]
        expected += [float(value is None)] if None in values else []
        assert row == pytest.approx(expected, rel=1e-5, abs=max(1e-6 * max(map(abs, known)), 1e-37))


@given(st.lists(st.sampled_from(["a", "b", "c"]) | st.none(), min_size=1), st.lists(st.sampled_from(["a", "b", "z"])))
def test_a_name_is_one_of_many_zeros(seen, new):
    encoder = fitted(pa.array(seen, pa.string()), "categorical")
    rows, strange = encoded(encoder, pa.array(new, pa.string()))
    known = sorted(set(seen) - {None})
    assert encoder.features[: len(known)] == tuple(f"v = {name}" for name in known)
    for name, row in zip(new, rows, strict=True):
        assert row[: len(known)] == [float(name == level) for level in known]
        assert sum(row) == (name in known)
    assert strange == sum(name not in known for name in new)


def test_rare_names_share_a_place_with_those_never_seen():
    common = [f"n{i:03}" for i in range(MAX_LEVELS)]
    encoder = fitted(pa.array([*common * 2, "rare"]), "categorical")
    assert encoder.features[-1] == "v is another"
    rows, strange = encoded(encoder, pa.array(["rare", "unheard of", "n000"]))
    assert [row[-1] for row in rows] == [1, 1, 0]
    assert strange == 0


def test_words_among_numbers_are_missing_and_counted():
    encoder = fitted(pa.array(["1", "3"]), "numeric")
    rows, strange = encoded(encoder, pa.array(["2", "many", None, "inf"]))
    assert rows == [[2], [2], [2], [2]]
    assert strange == 2
    assert encoder.notes(Counter({"v": 2})) == ("'v': 2 cells with no finite number, read as missing",)


def test_a_date_is_a_number_of_years_and_three_angles():
    encoder = fitted(pa.array(["2020-01-01 06:00", "2022-01-01 18:00"]), "date")
    assert [name.removeprefix("v") for name in encoder.features] == [
        *(" in years", ": time of year (sin)", ": time of year (cos)", ": weekday (sin)", ": weekday (cos)"),
        *(": hour (sin)", ": hour (cos)"),
    ]
    rows, unusable = encoded(encoder, pa.array(["2020-01-01 06:00", "2022-01-01 18:00", "soon"]))
    assert unusable == 1
    assert [row[0] for row in rows] == pytest.approx([-1.001, 1.001, 0], abs=2e-3)
    assert [row[5] for row in rows] == pytest.approx([1, -1, 0], abs=1e-6)


def test_dates_are_the_same_numbers_in_every_kind_of_file():
    days = [date(2021, 3, 4), date(2021, 12, 31), None]
    texts = pa.array([day and f"{day:%d.%m.%Y}" for day in days])
    for kind in (pa.date32(), pa.timestamp("ns"), pa.timestamp("s")):
        typed = pa.array(days, pa.date32()).cast(kind)
        assert encoded(fitted(typed, "date"), typed) == encoded(fitted(texts, "date"), texts)


def test_a_time_of_day_has_no_years():
    assert fitted(pa.array(["12:30", "1:05 pm"]), "date").features == ("v: hour (sin)", "v: hour (cos)")


def test_texts_of_the_same_words_are_the_same_numbers_whatever_their_order():
    encoder = fitted(pa.array(["fever and cough", None]), "text")
    rows, _ = encoded(encoder, pa.array(["cough and fever", "Fever, and COUGH.", "fever", None]))
    assert rows[0] == rows[1] != rows[2]
    assert np.square(rows[0]).sum() == pytest.approx(1)
    assert rows[3] == [0.0] * 256 + [1.0]


def test_lists_of_numbers_are_inputs_one_by_one():
    encoder = fitted(pa.array([[1.0, 2.0], [3.0, 4.0]]), "vector")
    assert encoder.features == ("v[0]", "v[1]")
    assert encoded(encoder, pa.array([[5.0, 6.0], [7.0], None])) == ([[5, 6], [0, 0], [0, 0]], 1)


def test_columns_stand_side_by_side_in_the_order_of_the_table():
    encoder = Encoder("y", "site", (NumericColumn("a", 1.5, True), CategoricalColumn("b", ("p", "q"), True, False)))
    assert encoder.features == ("a", "a is missing", "b = p", "b = q", "b is another")
    assert [(column.name, place.start, place.stop) for column, place in encoder.places] == [("a", 0, 2), ("b", 2, 5)]
    x = encoder.encode({"b": pa.array(["q", "r"]), "a": pa.array([None, 2.0])}, Counter())
    assert x.tolist() == [[1.5, 1, 0, 1, 0], [2, 0, 0, 0, 1]]
    assert x.dtype == np.float32


def test_parts_are_the_inputs_that_belong_together():
    date, text = DateColumn("c", "%Y-%m-%d", 1e9, True, True), TextColumn("d", False)
    columns = NumericColumn("a", 1.5, True), CategoricalColumn("b", ("p", "q"), True, True), date, text
    encoder = Encoder("y", "site", (*columns, NumericColumn("e", 0.0, False), VectorColumn("f", 2)))
    parts = {name: encoder.features[place] for name, place in encoder.parts}
    assert parts["a: value"] == ("a",)
    assert parts["a is missing"] == ("a is missing",)
    assert parts["b"] == ("b = p", "b = q", "b is another", "b is missing")
    assert parts["c in years"] == ("c in years",)
    assert parts["c: weekday"] == ("c: weekday (sin)", "c: weekday (cos)")
    assert len(parts["d"]) == 256
    assert parts["f[1]"] == ("f[1]",)
    assert sum(map(len, parts.values())) == len(encoder.features)


def test_an_encoder_is_plain_data():
    others = DateColumn("c", "%Y-%m-%d", 1e9, True, False), TextColumn("d", True), VectorColumn("e", 3)
    columns = NumericColumn("a", 1 / 3, True), CategoricalColumn("b", ("p", 'é"'), False, True), *others
    encoder = Encoder("y", None, columns, numeric_label=True)
    assert Encoder.from_json(json.loads(json.dumps(encoder.to_json()))) == encoder


@pytest.mark.parametrize("damage", [{"columns": 1}, {"version": 2}, {"other": 1}, {"columns": [{"kind": "text"}]}])
def test_what_is_no_encoder_is_refused_in_one_line(damage):
    plain = Encoder("y", None, (NumericColumn("a", 0.0, True),)).to_json() | damage
    with pytest.raises(BadValue) as caught:
        Encoder.from_json(plain)
    assert "\n" not in str(caught.value)
