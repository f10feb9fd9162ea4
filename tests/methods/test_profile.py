"""What a method and a recipe make of each other, whatever the recipe is called."""

import pytest

from invariance.core.errors import BadValue
from invariance.data import DATA
from invariance.methods import METHODS
from invariance.methods.profile import profile
from invariance.recipes.presets import PRESETS

every_preset = pytest.mark.parametrize("preset", PRESETS)


@every_preset
@pytest.mark.parametrize("method", METHODS.classes)
def test_a_copy_of_a_preset_under_another_name_gives_the_same_run(monkeypatch, method, preset):
    monkeypatch.setitem(PRESETS, "another-name", PRESETS[preset])
    for data in DATA.classes.values():
        assert profile(method, "another-name", data.preferences) == profile(method, preset, data.preferences)


@every_preset
@pytest.mark.parametrize("method", ["erm", "grayscale"])
def test_erm_is_erm_under_every_preset(method, preset):
    assert profile(method, preset).recipe.debias == 0


@every_preset
def test_env_poe_debiases_under_every_preset(preset):
    assert profile("env-poe", preset).recipe.debias > 0


@pytest.mark.parametrize(
    "method", [name for name in METHODS.classes if name not in ("erm", "subset-erm", "grayscale", "env-poe")]
)
def test_a_penalty_is_debiased_by_a_recipe_that_says_so_and_by_no_other(method):
    found = {name: profile(method, name).recipe.debias for name in PRESETS}
    assert found == {name: preset.changes.get("debias", 0) for name, preset in PRESETS.items()}
    assert found["debiased"] > 0


def test_erm_refuses_debiasing_that_was_asked_for():
    with pytest.raises(BadValue, match=r"ERM cannot be trained with debias=2; ERM with debiasing is env-poe"):
        profile("erm", "short", changes={"recipe": {"debias": 2}})
    assert profile("erm", "short", changes={"recipe": {"debias": 0}}).recipe.debias == 0


def test_a_light_penalty_goes_with_debiasing():
    assert profile("irmv1", "debiased").method.gamma == 1.0
    assert profile("irmv1", "short").method.gamma == profile("irmv1", "paper").method.gamma == 1e6
