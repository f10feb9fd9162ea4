"""What a method and a recipe make of each other, whatever the recipe is called."""

import pytest

from invariance.core.errors import BadValue
from invariance.data import DATA
from invariance.methods import METHODS
from invariance.methods.profile import profile
from invariance.recipes.presets import PRESETS, recipe

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


@pytest.mark.parametrize("data", [None, *DATA.classes])
@pytest.mark.parametrize("method", [name for name, cls in METHODS.classes.items() if "gamma_alone" in cls.later_fields])
def test_where_debiasing_finds_nothing_a_penalty_has_the_weight_that_it_has_alone(method, data):
    profiles = DATA[data].profiles if data else None
    debiased, alone = (profile(method, name, profiles=profiles).method for name in ("debiased", "two-phase"))
    assert debiased.alone().gamma == alone.gamma


def test_on_all_samples_a_game_has_the_moves_that_it_has_in_small_batches():
    recipes = [profile("irm-game", name).recipe.updates(50_000) for name in ("two-phase", "two-phase+all-samples")]
    assert [steps - before for before, steps in recipes] == [60, 60]


def test_on_all_samples_every_penalty_and_the_game_have_the_same_updates_of_erm():
    methods = ("irmv1", "rex", "birm", "fishr", "sparse-irm", "irm-game")
    assert {profile(name, "two-phase+all-samples").recipe.updates(50_000)[0] for name in methods} == {214}


def test_a_protocol_of_two_recipes_counts_where_both_are_joined_and_nowhere_else():
    joined = {"two-phase+all-samples": {"lr": 7e-3}}
    assert recipe("two-phase+all-samples", joined).lr == recipe("default+bf16+all-samples", joined).lr == 7e-3
    for name in ("two-phase", "all-samples", "debiased+all-samples", "all-samples+two-phase"):
        assert recipe(name, joined) == recipe(name)


@pytest.mark.parametrize("version", [None, "tiny", "small"])
@pytest.mark.parametrize(
    "name", ["colored-digits", "colored-mnist", "colored-object", "cifar-mnist", "celeba", "pacs", "vlcs"]
)
def test_sparse_irm_drops_weights_while_the_penalty_is_on(name, version):
    data = DATA[name]
    smaller = data.smaller.get(version, {}) if version else {}
    method, how = profile("sparse-irm", "two-phase", data.preferences, profiles=data.profiles)
    samples = {"colored-object": 12_000, "pacs": 6_000, "vlcs": 6_000, "celeba": 20_000}.get(name, 10_000)
    switch, steps = how.updates(smaller.get("data", {}).get("images", samples))
    assert switch / steps < method.start < method.end < 1


def test_on_resnets_the_paper_s_protocol_has_its_batches_and_its_weight_decay():
    for name in ("colored-object", "cifar-mnist", "celeba", "pacs", "vlcs"):
        data = DATA[name]
        method, how = profile("bloc-irm", "paper", data.preferences, profiles=data.profiles)
        assert (how.batch_size, how.lr, method.inner_lr, 2 * method.l2) == (256, 0.1, 0.1, 5e-4)
        scores, how = profile("sparse-irm", "paper", data.preferences, profiles=data.profiles)
        assert scores.score_rate * how.lr == pytest.approx(6e-3)


@pytest.mark.parametrize("how", ["paper", "two-phase"])
@pytest.mark.parametrize(("name", "tau"), [("cifar-mnist", 0.15), ("colored-object", 1 / 12)])
def test_birm_has_its_authors_scale(how, name, tau):
    assert profile("birm", how, profiles=DATA[name].profiles).method.tau == pytest.approx(tau)


def test_a_light_penalty_goes_with_debiasing():
    assert profile("irmv1", "debiased").method.gamma == 1.0
    assert profile("irmv1", "short").method.gamma == profile("irmv1", "paper").method.gamma == 1e6
