from operator import attrgetter

import pytest

from invariance.data import DATA
from invariance.experiments.spec import Spec
from invariance.methods import METHODS
from invariance.recipes.presets import PRESETS
from invariance.recipes.search import LogRange, SearchSpace
from invariance.tuning.search import Search, rounded


def space(data: str, method: str, recipe: str = "default", ranges: SearchSpace | None = None) -> dict[str, str]:
    search = Search(data, method, recipe, "oracle", ranges=ranges or {})
    return {name: str(each) for name, each in search.space.items()}


@pytest.mark.parametrize("method", METHODS.classes)
def test_every_method_has_a_search_space_whose_ends_can_be_run(method):
    assert {"recipe.lr", "recipe.epochs"} <= space("two-bit", method).keys()


@pytest.mark.parametrize("method", METHODS.classes)
@pytest.mark.parametrize("recipe", PRESETS)
def test_every_search_holds_the_method_as_it_stands_on_every_data_set(recipe, method):
    for data in DATA.classes:
        search, spec = Search(data, method, recipe, "oracle"), Spec.of(data, method, recipe)
        assert search.profile == {name: rounded(attrgetter(name)(spec)) for name in search.space}, data
        assert all(value in search.space[name] for name, value in search.profile.items())


def test_a_range_is_widened_to_what_a_field_is_on_the_data_and_by_the_recipe():
    assert space("colored-mnist", "irmv1")["method.gamma"] == "log:10:1e+06"
    assert space("pacs", "irmv1")["method.gamma"] == "log:0.01:1e+06"  # γ is 0.1 there
    assert space("colored-mnist", "irm-game")["recipe.epochs"] == "int:8:66"
    assert space("colored-mnist", "irmv1", "full-batch")["recipe.epochs"] == "int:8:500"


def test_a_range_that_is_asked_for_is_searched_as_it_is():
    assert space("pacs", "irmv1", ranges={"method.gamma": LogRange(10, 100)})["method.gamma"] == "log:10:100"


def test_a_field_that_is_off_is_not_searched_unless_it_is_asked_for():
    stop_at = {"method.stop_at": LogRange(0.1, 1.0)}
    assert "method.stop_at" in space("two-bit", "irm-game")
    assert "method.stop_at" not in space("two-bit", "irm-game", "paper")  # the paper's game does not stop
    assert "method.stop_at" in space("two-bit", "irm-game", "paper", stop_at)


def test_the_first_trial_is_the_method_as_it_stands(bench):
    game = bench.tune("irm-game", trials=1)  # 66 epochs, a warm-up of 1/11
    assert game.trials[0].settings == game.search.profile
    assert (game.search.profile["recipe.epochs"], game.search.profile["recipe.warmup"]) == (66, 0.0909)
    first = bench.tune("irmv1", trials=1).trials[0].settings
    as_it_stands = Spec.of("two-bit", "irmv1", "default")
    assert first["method.gamma"] == as_it_stands.method.gamma
    assert first["recipe.warmup"] == pytest.approx(as_it_stands.recipe.warmup, rel=2e-3)  # three digits
    assert first["method.estimator"] == "squared"
