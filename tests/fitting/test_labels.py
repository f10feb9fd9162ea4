from dataclasses import replace

import numpy as np

from invariance.core.rows import Rows, coded
from invariance.fitting.labels import few_rows, seen


def rows_at(**counts: int) -> Rows:
    names, codes = coded(np.repeat(list(counts), list(counts.values())))
    return Rows(np.zeros((len(codes), 1)), np.zeros(len(codes)), codes, names)


def test_environments_with_few_rows_are_named():
    (note,) = few_rows(rows_at(Bern=1000, Lyon=900, Graz=800, Tiny=2))
    assert note.startswith("few rows at Tiny (2): an environment counts as much as any other, here one of 850 rows")
    assert few_rows(rows_at(Bern=1000, Lyon=900, Graz=50)) == ()
    many = rows_at(**{f"H{i}": 500 for i in range(20)}, **{f"T{i}": 1 for i in range(7)})
    assert "T4 (1) and 2 more: " in few_rows(many)[0]


def test_test_rows_that_are_training_rows_are_noticed():
    rng = np.random.default_rng(0)
    train, new = (Rows(rng.normal(size=(50, 2)), np.zeros(50), np.zeros(50, int), np.array(["a"])) for _ in range(2))
    assert seen(train, new) == ()
    (note,) = seen(train, replace(new, x=np.concatenate([train.x[:40], new.x[:10]])))
    assert note.startswith("test data: 80 % of the rows have the same inputs as a training row")
