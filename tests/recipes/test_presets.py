from itertools import product

import pytest

from invariance.core.errors import BadValue, UnknownName
from invariance.recipes.gradient import SAM, Plain
from invariance.recipes.optimiser import LALR, SGD
from invariance.recipes.presets import PRESETS, recipe
from invariance.recipes.recipe import Recipe
from invariance.recipes.schedules import Clock, Decay, Steps


def test_the_full_batch_recipe_is_the_default():
    assert recipe("full-batch") == Recipe()


def test_presets_combine():
    combined = recipe("small-batch+sam")
    assert combined.batch_size == 1024
    assert combined.gradient == SAM()
    assert recipe("small-batch").gradient == Plain()


def test_of_two_presets_the_later_one_wins():
    assert recipe("lsgd+lalr").lr == 0.1
    assert recipe("lsgd+lalr").lr_ramp == 0.05
    assert recipe("lalr+lsgd").lr_scale == 10
    assert recipe("lalr+lsgd").step == LALR()


@pytest.mark.parametrize("names", list(product(PRESETS, repeat=2)), ids="+".join)
def test_every_pair_of_presets_is_a_recipe(names):
    first, second = names
    combined = recipe("+".join(names))
    for field, value in recipe(second).__dict__.items():
        if field in PRESETS[second].changes:
            assert getattr(combined, field) == value
        elif field not in PRESETS[first].changes:
            assert getattr(combined, field) == getattr(Recipe(), field)


def test_lsgd_scales_the_rate_of_the_recipe_that_it_is_joined_to():
    plain, scaled = recipe("two-phase+all-samples"), recipe("two-phase+all-samples+lsgd")
    clocks = [Clock(step, 500, 214) for step in (0, 24, 213, 214, 357, 499)]
    factors = [scaled.rate(clock) / plain.rate(clock) for clock in clocks]
    assert factors == pytest.approx([10 / 25, 10, 10, 10, 10, 10])


def test_remedies_of_the_paper_say_where_they_differ_from_it():
    assert [name for name, preset in PRESETS.items() if preset.differs] == ["lsgd", "lalr", "sam"]
    (lsgd,) = PRESETS["lsgd"].differs
    assert ("by ten, where linear scaling would say 49" in lsgd, round(50_000 / 1024)) == (True, 49)
    assert recipe("lsgd").lr_scale == 10


def test_preferences_of_a_method_count_where_a_recipe_follows_that_protocol():
    preferences = {"small-batch": {"lr": 7e-3, "schedule": {"kind": "steps", "at": [0.5]}}}
    assert recipe("small-batch", preferences).lr == 7e-3
    assert recipe("small-batch", preferences).schedule == Steps(at=(0.5,))
    assert recipe("small-batch", preferences).epochs == 200
    assert recipe("small-batch+sam", preferences).lr == 7e-3
    assert recipe("lsgd", preferences) == recipe("lsgd")


def test_changes_win_over_presets_and_preferences():
    changes = {"lr": 1.0, "schedule": "decay", "step": "sgd"}
    made = recipe("small-batch", {"small-batch": {"lr": 7e-3}}, changes=changes)
    assert made.lr == 1.0
    assert made.schedule == Decay()
    assert made.step == SGD()
    assert made.batch_size == 1024


def one_line(error: pytest.ExceptionInfo[Exception]) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("name", "meant"), [("smal-batch", "small-batch"), ("small_batch", "small-batch"), ("full-batch+san", "sam")]
)
def test_an_unknown_recipe_says_what_was_probably_meant(name, meant):
    with pytest.raises(UnknownName) as caught:
        recipe(name)
    assert f"Did you mean {meant!r}?" in one_line(caught)


def test_an_unknown_recipe_unlike_any_lists_them():
    with pytest.raises(UnknownName) as caught:
        recipe("zzzzzz")
    assert all(name in one_line(caught) for name in PRESETS)


def test_an_unknown_field_says_what_was_probably_meant():
    with pytest.raises(UnknownName) as caught:
        recipe("sam", changes={"batchsize": 3})
    assert "Did you mean 'batch_size'?" in one_line(caught)


@pytest.mark.parametrize(
    "changes",
    [
        {"batch_size": -1},
        {"batch_size": 0},
        {"epochs": 0},
        {"lr": -1e-3},
        {"lr": float("nan")},
        {"lr": float("inf")},
        {"warmup": 1.5},
        {"average": -0.1},
        {"gradient": "shm"},
        {"step": {"kind": "adam", "beta1": 1.0}},
    ],
    ids=str,
)
def test_a_value_that_cannot_be_used_is_refused_in_one_line(changes):
    with pytest.raises(BadValue) as caught:
        recipe("small-batch+sam", changes=changes)
    message = one_line(caught)
    assert message.startswith("recipe 'small-batch+sam': ")
    assert next(iter(changes)) in message


def test_a_negative_batch_size_is_named_with_its_value():
    with pytest.raises(BadValue, match=r"batch_size = -1 cannot be used: .*greater than 0"):
        recipe("small-batch", changes={"batch_size": -1})


def test_a_field_may_be_called_as_in_stored_runs():
    assert recipe("short", changes={"explain": 3}) == recipe("short", changes={"debias": 3})
