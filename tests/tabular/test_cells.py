import math
from datetime import date, timedelta
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")

import pyarrow as pa

from invariance.tabular.cells import list_width, names, numbers, unusable, vectors


@given(st.lists(st.floats(-1e30, 1e30) | st.none(), min_size=1))
def test_numbers_are_the_same_as_text_and_as_numbers(values):
    expected = [math.nan if value is None else value for value in values]
    text = pa.array([None if value is None else repr(value) for value in values], pa.string())
    assert numbers(pa.array(values, pa.float64())).tolist() == pytest.approx(expected, nan_ok=True, rel=0)
    assert numbers(text).tolist() == pytest.approx(expected, nan_ok=True, rel=0)


def test_words_are_no_numbers_and_do_not_spoil_their_neighbours():
    values = numbers(pa.array(["1", " 2.5 ", "<5", None, "1e3", "0x10", "-.5"]))
    assert values.tolist() == pytest.approx([1, 2.5, math.nan, math.nan, 1000, math.nan, -0.5], nan_ok=True)


def test_a_number_that_models_cannot_compute_with_is_infinite():
    assert np.isinf(numbers(pa.array(["1e39", "-inf", "9" * 400]))).all()


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["1", "2", None]),
        pa.array([" 1", "2.0", ""]),
        pa.array([1, 2, None]),
        pa.array([1.0, 2.0, math.nan]),
        pa.array(["1", "2", None]).dictionary_encode(),
        pa.array(["1", "2", None], pa.large_string()),
        pa.array([Decimal("1.00"), Decimal("2.00"), None]),
    ],
    ids=lambda column: str(column.type),
)
def test_a_name_is_the_same_in_every_kind_of_file(column):
    assert names(column).to_pylist() == ["1", "2", None]


def test_truth_is_a_name_and_a_number():
    assert names(pa.array([True, False, None])).to_pylist() == ["true", "false", None]
    assert numbers(pa.array([True, False, None])).tolist() == pytest.approx([1, 0, math.nan], nan_ok=True)


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (pa.array([[1, 2]]), "lists"),
        (pa.array([{"a": 1}]), "lists"),
        (pa.array([b"raw"]), "binary"),
        (pa.nulls(1), ""),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_what_is_neither_number_nor_name_is_told(column, what):
    assert unusable(column.type) == what
    assert np.isnan(numbers(column)).all()
    assert names(column).to_pylist() == [None]


def test_dates_are_names_and_no_numbers_and_spans_of_time_are_numbers():
    days = pa.array([date(2021, 1, 31), None])
    assert names(days).to_pylist() == ["2021-01-31", None]
    assert np.isnan(numbers(days)).all()
    assert numbers(pa.array([timedelta(days=1)], pa.duration("s"))).tolist() == [86400]


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.large_list(pa.float64()), pa.list_(pa.int64(), 2)])
def test_lists_of_one_length_are_vectors(kind):
    column = pa.array([[1, 2], None, [3, 4]], kind)
    assert list_width(column) == 2
    assert vectors(column, 2) == pytest.approx(np.array([[1, 2], [math.nan] * 2, [3, 4]]), nan_ok=True)


def test_lists_of_several_lengths_or_of_words_are_no_vectors():
    assert list_width(pa.array([[1, 2], [3]])) == 0
    assert list_width(pa.array([["a"], ["b"]])) == 0
    assert np.isnan(vectors(pa.array([[1, 2], [3]]), 1)).tolist() == [[True], [False]]
