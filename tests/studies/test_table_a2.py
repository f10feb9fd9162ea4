import pytest

from invariance.studies.table_a2 import ADJUSTED, CLOSE, ENVIRONMENTS, TableA2
from invariance.studies.table_a5 import TableA5


def ratios(scale):
    """Of the weight, and of the epochs with the penalty, where environments are close over where they are not."""
    specs = {(arm.method, arm.setting): arm.spec for arm in TableA2().arms(scale)}
    (usual,) = ENVIRONMENTS.keys() - {CLOSE}
    found = {}
    for method in {method for method, _ in specs}:
        near, far = (specs[method, setting] for setting in (CLOSE, usual))
        epochs = [spec.recipe.epochs * (1 - spec.recipe.warmup) for spec in (near, far)]
        assert near.recipe.epochs * near.recipe.warmup == pytest.approx(far.recipe.epochs * far.recipe.warmup)
        weight = near.method.gamma / far.method.gamma if hasattr(far.method, "gamma") else 1
        found[method] = weight, round(epochs[0] / epochs[1], 6)
    return found


def test_penalties_of_close_environments_have_four_times_the_weight_or_twice_the_updates():
    found = ratios("ours")
    assert {found.pop(method) for method in ADJUSTED} == {(4, 1), (1, 2), (4, 2)}
    assert set(found.values()) == {(1, 1)}


def test_the_line_below_the_table_names_what_was_changed_in_recipes_and_in_methods(results):
    table, differences = TableA2().show(results(TableA2(), "ours"))
    assert table.provenance == differences.provenance
    _, recipe, methods, _, _ = table.provenance.split(" · ")
    assert recipe == "recipe two-phase (epochs 18, 22; warmup 0.273, 0.333)"
    weights = {name: changes["method"]["gamma"] for name, changes in ADJUSTED.items() if "method" in changes}
    assert len(weights) == 4
    assert methods == f"changed in methods: {', '.join(f'{name} (gamma {w:.0f})' for name, w in weights.items())}"


@pytest.mark.parametrize("scale", ["full", "debiased", "quick"])
def test_by_other_recipes_close_environments_change_nothing(scale):
    assert set(ratios(scale).values()) == {(1, 1)}


def test_table_a5_whose_environments_differ_as_little_has_the_same_changes():
    close = {arm.method: arm.spec for arm in TableA2().arms("ours") if arm.setting == CLOSE}
    for arm in TableA5().arms("ours"):
        assert (arm.spec.method, arm.spec.recipe) == (close[arm.method].method, close[arm.method].recipe)
