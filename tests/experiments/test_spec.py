import json

import pytest

from invariance.data.colored_digits import ColoredDigits
from invariance.errors import BadValue, InvarianceError, UnknownName
from invariance.experiments.spec import Spec, parse_changes
from invariance.models.linear import Linear
from invariance.models.mlp import MLP
from invariance.objectives import METHODS
from invariance.objectives.irmv1 import IRMv1
from invariance.recipes.gradient import SAM
from invariance.recipes.presets import PRESETS, recipe
from invariance.schedules import Steps


def one_line(caught: pytest.ExceptionInfo[InvarianceError]) -> str:
    assert "\n" not in str(caught.value)
    return str(caught.value)


# From names


def test_names_and_defaults_make_a_spec():
    spec = Spec.of("colored-digits", "irmv1", "short", seed=3)
    assert spec == Spec(ColoredDigits(), ColoredDigits.architecture, IRMv1(), recipe("short"), "short", 3)
    assert (spec.data_name, spec.method, spec.recipe_name) == ("colored-digits", "irmv1", "short")


def test_changes_reach_their_section():
    changes = {
        "data": {"draws": 10, "betas": [0.3, 0.4]},
        "model": {"width": 7},
        "objective": {"gamma": 5},
        "recipe": {"epochs": 2, "gradient": {"kind": "sam", "radius": 0.5}},
    }
    spec = Spec.of("colored-digits", "irmv1", "short", changes=changes)
    assert spec.data == ColoredDigits(draws=10, betas=(0.3, 0.4))
    assert spec.model == MLP(width=7)
    assert spec.objective == IRMv1(gamma=5)
    assert (spec.recipe.epochs, spec.recipe.gradient) == (2, SAM(radius=0.5))
    assert spec.recipe.lr == recipe("short").lr


def test_preferences_of_the_method_count_then_those_of_the_data_then_changes():
    assert Spec.of("colored-digits", "bloc-irm", "full-batch").recipe.lr == 2e-3
    assert Spec.of("two-bit", "bloc-irm", "full-batch").recipe.lr == 1e-2
    assert Spec.of("two-bit", "bloc-irm", "full-batch", changes={"recipe": {"lr": 0.5}}).recipe.lr == 0.5
    assert Spec.of("colored-digits", "birm", "small-batch").recipe.schedule == Steps(at=(0.5,))


def test_another_model_may_be_named():
    spec = Spec.of("two-bit", "erm", "short", changes=parse_changes(["model.name=linear"]))
    assert spec.model == Linear()


def test_a_model_is_not_named_by_a_number():
    with pytest.raises(InvarianceError) as caught:
        Spec.of("two-bit", "erm", "short", changes=parse_changes(["model.name=3"]))
    assert "model" in one_line(caught)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere", "erm", "short"), "no data set is called 'nowhere'"),
        (("two-bit", "em", "short"), "no method is called 'em'. Did you mean 'erm'?"),
        (("two-bit", "erm", "shrt"), "no recipe is called 'shrt'. Did you mean 'short'?"),
    ],
)
def test_an_unknown_name_is_one_line(arguments, message):
    with pytest.raises(UnknownName) as caught:
        Spec.of(*arguments)
    assert one_line(caught).startswith(message)


def test_an_unknown_section_is_one_line():
    with pytest.raises(UnknownName) as caught:
        Spec.of("two-bit", "erm", "short", changes={"reciepe": {}})
    assert one_line(caught) == "no section of a run is called 'reciepe'. Did you mean 'recipe'?"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.sample=3", "no field of data set 'two-bit' is called 'sample'. Did you mean 'samples'?"),
        ("model.widht=3", "no field of model 'mlp' is called 'widht'. Did you mean 'width'?"),
        ("objective.gama=3", "no field of method 'irmv1' is called 'gama'. Did you mean 'gamma'?"),
        ("recipe.epoch=3", "no field of a recipe is called 'epoch'. Did you mean 'epochs'?"),
    ],
)
def test_an_unknown_field_of_any_section_says_what_was_meant(setting, message):
    with pytest.raises(UnknownName) as caught:
        Spec.of("two-bit", "irmv1", "short", changes=parse_changes([setting]))
    assert one_line(caught) == message


@pytest.mark.parametrize(
    "setting",
    [
        "data.betas=3",
        "data.betas=[0.1",
        "data.alpha=NaN",
        "model.width=-1",
        "objective.gamma=big",
        "objective.gamma.x=1",
        "recipe.batch_size=-8",
        "recipe.gradient=3",
        "recipe.gradient=null",
        "recipe.gradient={}",
        "recipe.step.kind=adamw",
        'recipe.schedule={"kind": "steps", "factor": NaN}',
        'recipe.schedule={"kind": "steps", "factor": -1}',
    ],
)
def test_a_value_that_cannot_be_used_is_one_line(setting):
    with pytest.raises(BadValue) as caught:
        Spec.of("two-bit", "irmv1", "short", changes=parse_changes([setting]))
    assert setting.split("=")[0].split(".")[1] in one_line(caught)


# Plain data


@pytest.mark.parametrize("method", METHODS.classes)
@pytest.mark.parametrize("name", [*PRESETS, "small-batch+sam+lalr"])
def test_every_spec_survives_json(method, name):
    changes = {"data": {"betas": [0.1, 0.15, 0.2]}, "model": {"depth": 3}}
    spec = Spec.of("two-bit", method, name, seed=4, changes=changes).holding_out("β=0.15")
    again = Spec.from_json(json.loads(json.dumps(spec.to_json())))
    assert again == spec
    assert again.recipe_name == name
    assert again.hold_out == "β=0.15"


def test_plain_data_has_every_field_so_that_other_defaults_do_not_change_it():
    plain = Spec.of("two-bit", "irmv1", "short").to_json()
    assert set(plain) == {"data", "model", "objective", "recipe", "seed", "hold_out"}
    assert plain["objective"]["gamma"] == 1e6
    assert plain["recipe"]["gradient"] == {"kind": "plain"}
    assert plain["recipe"]["lr"] == 1e-2
    assert plain["model"] == {"name": "mlp", "width": 16, "depth": 2}


# Settings


def test_settings_are_read_as_json_or_else_as_text():
    assert parse_changes(
        [
            "objective.gamma=1e4",
            "recipe.batch_size=null",
            "recipe.reset=true",
            "data.betas=[0.1, 0.2]",
            "recipe.step=sgd",
            'recipe.schedule={"kind": "ramp"}',
            "objective.estimator = split ",
        ]
    ) == {
        "objective": {"gamma": 1e4, "estimator": "split"},
        "recipe": {"batch_size": None, "reset": True, "step": "sgd", "schedule": {"kind": "ramp"}},
        "data": {"betas": [0.1, 0.2]},
    }


def test_a_later_setting_wins():
    assert parse_changes(["recipe.lr=1", "recipe.lr=2"]) == {"recipe": {"lr": 2}}


def test_fields_of_a_field_are_reached_by_dots():
    changes = parse_changes(["recipe.gradient.kind=sam", "recipe.gradient.radius=0.1"])
    assert changes == {"recipe": {"gradient": {"kind": "sam", "radius": 0.1}}}
    assert Spec.of("two-bit", "erm", "short", changes=changes).recipe.gradient == SAM(radius=0.1)


def test_a_field_of_what_the_recipe_already_has_can_be_changed():
    """As the docstring of ``parse_changes`` says."""
    changes = parse_changes(["recipe.gradient.radius=0.1"])
    assert Spec.of("two-bit", "erm", "sam", changes=changes).recipe.gradient == SAM(radius=0.1)


def test_a_kind_may_be_named_before_its_fields():
    changes = parse_changes(["recipe.gradient=sam", "recipe.gradient.radius=0.1"])
    assert Spec.of("two-bit", "erm", "short", changes=changes).recipe.gradient == SAM(radius=0.1)


@pytest.mark.parametrize("setting", ["", "gamma=3", "objective.gamma", "objective", "=3", "recipe=short"])
def test_a_setting_that_cannot_be_read_says_how_to_write_one(setting):
    with pytest.raises(BadValue) as caught:
        parse_changes([setting])
    assert one_line(caught) == (f"cannot read {setting!r}; write SECTION.FIELD=VALUE, for example objective.gamma=1e4")


def test_a_setting_of_an_unknown_section_says_what_was_meant():
    with pytest.raises(UnknownName, match=r"no section of a run is called 'method'"):
        parse_changes(["method.gamma=3"])
    with pytest.raises(UnknownName, match=r"Did you mean 'objective'\?"):
        parse_changes(["objectiv.gamma=3"])
