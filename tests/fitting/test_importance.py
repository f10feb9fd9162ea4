import numpy as np
import pytest

from invariance.fitting.importance import largest_differences, permutation_importances

COLUMNS = [("used", slice(0, 1)), ("misleading", slice(1, 2)), ("pair", slice(2, 4))]


@pytest.fixture(scope="module")
def rows():
    """Two sites. The second column agrees with the label at the first site and contradicts it at the other."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    e = np.repeat([0, 1], 2000)
    x = rng.normal(size=(4000, 4)).astype(np.float32)
    x[:, 1] = np.where(e == 0, 2 * y - 1, 1 - 2 * y)
    return x, y, e


def lean_on(column: int):
    return lambda x: (x[:, column] > 0).astype(np.int64)


def test_a_model_leans_on_what_it_reads_and_on_nothing_else(rows):
    used, misleading, pair = permutation_importances(lean_on(0), *rows, ["a", "b"], COLUMNS)
    assert used.changed == pytest.approx(0.5, abs=0.05)
    assert misleading.changed == pair.changed == 0
    assert set(misleading.drop_by_environment.values()) == {0.0}


def test_a_column_that_misleads_costs_accuracy_where_it_is_right_only(rows):
    _, misleading, _ = permutation_importances(lean_on(1), *rows, ["a", "b"], COLUMNS)
    assert misleading.drop_by_environment["a"] == pytest.approx(0.5, abs=0.05)
    assert misleading.drop_by_environment["b"] == pytest.approx(-0.5, abs=0.05)
    low, high = misleading.interval_by_environment["a"]
    assert low < 0.5 < high
    assert high - low == pytest.approx(2 * 1.96 * 0.5 / 2000**0.5, rel=0.1)


def test_data_without_columns_have_no_importance(rows):
    assert permutation_importances(lean_on(0), *rows, ["a", "b"], []) == ()


def test_the_numbers_of_one_column_are_shuffled_together(rows):
    x, y, e = rows
    x = x.copy()
    x[:, 3] = -x[:, 2]
    *_, pair = permutation_importances(
        lambda x: (x[:, 2] + x[:, 3] != 0).astype(np.int64), x, y, e, ["a", "b"], COLUMNS
    )
    assert pair.changed == 0


def test_of_many_environments_the_largest_are_looked_at():
    rng = np.random.default_rng(0)
    e = np.concatenate([np.arange(500), np.full(100, 499)])
    x = rng.normal(size=(600, 4)).astype(np.float32)
    used, *_ = permutation_importances(lean_on(0), x, np.zeros(600, np.int64), e, [str(i) for i in range(500)], COLUMNS)
    assert len(used.changed_by_environment) == 12
    assert "499" in used.changed_by_environment


def test_columns_on_which_two_models_differ_come_first(rows):
    one, other = (permutation_importances(lean_on(i), *rows, ["a", "b"], COLUMNS) for i in (0, 1))
    assert [pair[0].column for pair in largest_differences(one, other, 2)] in (
        ["used", "misleading"],
        ["misleading", "used"],
    )
    assert largest_differences(one, one, 1)[0][0].column == "used"
