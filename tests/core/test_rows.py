import numpy as np
import pytest
import torch

from invariance.core.inputs import Pixels
from invariance.core.rows import Rows, coded


def test_names_are_coded_in_sorted_order():
    names, codes = coded(np.array(["Lyon", "Bern", "Lyon"], dtype=object))
    assert names.tolist() == ["Bern", "Lyon"]
    assert codes.tolist() == [1, 0, 1]
    assert names.dtype == object
    assert coded([3, 1, 3])[1].dtype == np.int64
    with pytest.raises(TypeError):
        coded(np.array(["a", 1], dtype=object))


def test_taking_rows_keeps_weights_and_drops_environments_without_rows():
    codes = np.array([0, 1, 2, 2])
    rows = Rows(np.arange(8.0).reshape(4, 2), np.array(list("wxyz")), codes, np.array(["a", "b", "c"]), np.arange(4.0))
    part = rows.take(np.array([True, False, True, True]))
    assert part.names.tolist() == ["a", "c"]
    assert part.codes.tolist() == [0, 1, 1]
    assert part.environments.tolist() == ["a", "c", "c"]
    assert part.counts == [1, 2]
    assert part.y.tolist() == list("wyz")
    assert part.weight.tolist() == [0, 2, 3]
    assert len(part) == 3


def test_rows_say_what_they_are():
    y, e = np.array(["a", "b"]), np.array(["u", "v"])
    assert Rows.of(np.zeros((2, 3)), y, e).unit == "rows"
    assert Rows.of(Pixels.of(torch.zeros(2, 3, 4, 4).byte()), y, e).unit == "images"
