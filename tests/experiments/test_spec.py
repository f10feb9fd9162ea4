import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from invariance.core.errors import BadValue, DataError, InvarianceError, UnknownName
from invariance.core.one_look import one_look
from invariance.data import DATA
from invariance.data.colored_digits import ColoredDigits
from invariance.data.colored_mnist import ColoredMNIST
from invariance.experiments.spec import SECTIONS, STORED_NAMES, Evaluation, Spec, parse_changes
from invariance.methods import METHODS
from invariance.methods.irmv1 import IRMv1
from invariance.models import MODELS
from invariance.models.linear import Linear
from invariance.models.mlp import MLP
from invariance.recipes.gradient import SAM
from invariance.recipes.presets import PRESETS, recipe
from invariance.recipes.schedules import Steps


def one_line(caught: pytest.ExceptionInfo[InvarianceError]) -> str:
    assert "\n" not in str(caught.value)
    return str(caught.value)


# From names


def test_names_and_defaults_make_a_spec():
    spec = Spec.of("colored-digits", "irmv1", "short", seed=3)
    assert spec == Spec(ColoredDigits(), ColoredDigits.architecture, IRMv1(), recipe("short"), "short", 3)
    assert (spec.data_name, spec.method_name, spec.recipe_name) == ("colored-digits", "irmv1", "short")


def test_changes_reach_their_section():
    changes = {
        "data": {"draws": 10, "betas": [0.3, 0.4]},
        "model": {"width": 7},
        "method": {"gamma": 5},
        "recipe": {"epochs": 2, "gradient": {"kind": "sam", "radius": 0.5}},
        "evaluation": {"checkpoints": 3, "landscape": 5},
    }
    spec = Spec.of("colored-digits", "irmv1", "short", changes=changes)
    assert spec.data == ColoredDigits(draws=10, betas=(0.3, 0.4))
    assert spec.model == MLP(width=7)
    assert spec.method == IRMv1(gamma=5)
    assert (spec.recipe.epochs, spec.recipe.gradient) == (2, SAM(radius=0.5))
    assert spec.recipe.lr == recipe("short").lr
    assert spec.evaluation == Evaluation(checkpoints=3, landscape=5)


def test_preferences_of_the_method_count_then_those_of_the_data_then_changes():
    assert Spec.of("colored-digits", "bloc-irm", "full-batch").recipe.lr == 2e-3
    assert Spec.of("two-bit", "bloc-irm", "full-batch").recipe.lr == 1e-2
    assert Spec.of("two-bit", "bloc-irm", "full-batch", changes={"recipe": {"lr": 0.5}}).recipe.lr == 0.5
    assert Spec.of("colored-digits", "birm", "small-batch").recipe.schedule == Steps(at=(0.5,))


def test_a_data_set_changes_fields_of_methods_that_have_them_and_whoever_asks_wins():
    assert Spec.of("pacs", "bloc-irm", "two-phase").method.gamma == 0.1
    assert Spec.of("pacs", "bloc-irm", "paper").method.gamma == 1e6
    assert Spec.of("pacs", "erm", "two-phase").method == METHODS.create("erm", {})
    assert Spec.of("pacs", "irmv1", "two-phase", changes={"method": {"gamma": 7.0}}).method.gamma == 7.0


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
        ("method.gama=3", "no field of method 'irmv1' is called 'gama'. Did you mean 'gamma'?"),
        ("recipe.epoch=3", "no field of a recipe is called 'epoch'. Did you mean 'epochs'?"),
        ("evaluation.checkpoint=3", "no field of an evaluation is called 'checkpoint'. Did you mean 'checkpoints'?"),
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
        "method.gamma=big",
        "method.gamma.x=1",
        "recipe.batch_size=-8",
        "evaluation.checkpoints=0",
        "evaluation.train_rows=all",
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
    assert set(plain) == {"data", "model", "objective", "recipe", "seed", "hold_out", "evaluation"}
    assert plain["objective"]["gamma"] == 1e6
    assert plain["recipe"]["gradient"] == {"kind": "plain"}
    assert plain["recipe"]["lr"] == 1e-2
    assert plain["model"] == {"name": "mlp", "width": 16, "depth": 2}
    assert plain["evaluation"] == {"checkpoints": 10, "train_rows": 5000, "landscape": 0}


specs = st.builds(
    lambda data, method, name, model, seed, hold_out, evaluation: replace(
        Spec.of(data, method, name, seed, {"model": {"name": model}, "evaluation": evaluation}), hold_out=hold_out
    ),
    st.sampled_from(sorted(DATA.classes)),
    st.sampled_from(sorted(METHODS.classes)),
    st.lists(st.sampled_from(sorted(PRESETS)), min_size=1, max_size=3).map("+".join),
    st.sampled_from(sorted(MODELS.classes)),
    st.integers(0, 2**40),
    st.none() | st.sampled_from(["β=0.1", "site ‘B’"]),
    st.fixed_dictionaries({"checkpoints": st.integers(1, 500), "landscape": st.integers(0, 50)}),
)


@given(specs)
def test_any_spec_comes_back_from_json_with_its_key(spec):
    again = Spec.from_json(json.loads(json.dumps(spec.to_json())))
    assert again == spec
    with one_look():  # at the files of a data set, which are many
        assert again.key == spec.key
        assert again.trial.key == spec.trial.key


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (("sead",), "no field of a run is called 'sead'. Did you mean 'seed'?"),
        (("data", "sample"), "no field of data set 'two-bit' is called 'sample'. Did you mean 'samples'?"),
        (("model", "widht"), "no field of model 'mlp' is called 'widht'. Did you mean 'width'?"),
        (("objective", "gama"), "no field of method 'irmv1' is called 'gama'. Did you mean 'gamma'?"),
        (("recipe", "epoch"), "no field of a recipe is called 'epoch'. Did you mean 'epochs'?"),
        (("evaluation", "points"), "no field of an evaluation is called 'points'. Did you mean 'checkpoints'?"),
    ],
    ids=lambda path: ".".join(path) if isinstance(path, tuple) else "",
)
def test_an_unknown_field_of_plain_data_says_what_was_meant(path, message):
    plain = Spec.of("two-bit", "irmv1", "short").to_json()
    with pytest.raises(UnknownName) as caught:
        Spec.from_json(changed(plain, path, 3))
    assert one_line(caught) == message


@pytest.mark.parametrize("name", ["data", "model", "objective", "recipe", "seed", "hold_out", "evaluation"])
def test_a_missing_field_of_plain_data_is_named(name):
    plain = Spec.of("two-bit", "irmv1", "short").to_json()
    del plain[name]
    with pytest.raises(BadValue) as caught:
        Spec.from_json(plain)
    assert one_line(caught).startswith(f"a run needs the field {name!r}; got ")


# Keys

OTHERS = {
    "estimator": ("squared", "split"),
    "divide_by": ("gamma", "1+gamma"),
    "reduction": ("mean", "sum"),
    "penalty": ("stationarity", "rex"),
    "penalty_of": ("irmv1", "rex"),
    "inner_optimiser": ("gd", "adam"),
    "coordinates": ("sum", "mean"),
    "stop_below": (None, 0.55),
    "batch_size": (None, 512),
    "hold_out": (None, "β=0.1"),
    "shift": ("none", "class"),
    "test_pool": ("test-file", "train-file"),
    "gradient": ({"kind": "plain"}, {"kind": "sam", "radius": 0.1}),
    "step": ({"kind": "adam", "beta1": 0.9, "beta2": 0.999, "eps": 1e-8}, {"kind": "sgd", "momentum": 0.9}),
    "schedule": ({"kind": "constant"}, {"kind": "drop", "factor": 0.1}),
    "augment": (None, {"flip": 0.5, "shift": 4}),
    "without": ([], [0]),
}
"""Two values of every field that is no number."""


def leaves(plain: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every place in nested plain data that can be changed by itself, and one more way to fill it."""
    name = path[-1] if path else ""
    if name in OTHERS:
        yield path, next(value for value in OTHERS[name] if value != plain)
    if isinstance(plain, dict):
        for key, value in plain.items():
            yield from leaves(value, (*path, key))
    elif isinstance(plain, list):
        for i, value in enumerate(plain):
            yield from leaves(value, (*path, i))
    elif isinstance(plain, bool):
        yield path, not plain
    elif isinstance(plain, int):
        yield path, plain + 1 if name != "images" else plain - 1
    elif isinstance(plain, float):
        yield path, 0.97 * plain or 0.5


def changed(plain: Any, path: tuple[str | int, ...], value: Any) -> Any:
    again = json.loads(json.dumps(plain))
    place = again
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return again


def test_equal_specs_have_equal_keys():
    first, second = (Spec.of("two-bit", "birm", "short", 3, {"recipe": {"lr": 0.5}}) for _ in range(2))
    assert first is not second
    assert first.key == second.key
    assert len(first.key) == 24
    assert int(first.key, 16) >= 0


@pytest.mark.parametrize("method", METHODS.classes)
@pytest.mark.parametrize(
    ("data", "name"),
    [("two-bit", "short"), ("colored-digits", "lsgd"), ("colored-mnist", "sam+small-batch"), ("two-bit", "lalr")],
)
def test_every_field_changes_the_key(data, method, name):
    spec = Spec.of(data, method, name, seed=1)
    plain = spec.to_json()
    places = dict(leaves(plain))
    assert {"seed", "hold_out"} <= {path[0] for path in places}
    for section in (STORED_NAMES.get(each, each) for each in SECTIONS):
        assert {path[1] for path in places if path[0] == section} == plain[section].keys() - {"name"}
    keys = {path: Spec.from_json(changed(plain, path, value)).key for path, value in places.items()}
    assert spec.key not in keys.values()
    assert len(set(keys.values())) == len(keys)


def test_the_names_of_data_model_and_method_change_the_key():
    linear = {"model": {"name": "linear"}}
    made = [
        Spec.of("two-bit", "erm", "short", changes=linear),
        Spec.of("two-bit", "grayscale", "short", changes=linear),
        Spec.of("two-bit", "erm", "short"),
        Spec.of("colored-mnist", "erm", "short"),
        Spec.of("colored-fmnist", "erm", "short"),
    ]
    assert len({spec.key for spec in made}) == len(made)


def test_the_name_of_a_recipe_does_not_change_the_key_and_what_it_does_does():
    plain, long = (Spec.of("two-bit", "erm", name) for name in ("lsgd", "full-batch+lsgd"))
    assert plain.recipe == long.recipe
    assert plain != long
    assert plain.key == long.key
    assert plain.trial.key == long.trial.key
    assert plain.key != Spec.of("two-bit", "erm", "lalr").key


def test_other_data_behind_the_same_fields_change_the_key(monkeypatch):
    def key() -> str:
        return Spec.of("colored-mnist", "erm", "short").key

    before = key()
    first, *rest = ColoredMNIST.files
    monkeypatch.setattr(ColoredMNIST, "files", (replace(first, sha256="0" * 64), *rest))
    assert key() != before
    monkeypatch.undo()
    assert key() == before


def test_other_weights_to_start_from_change_the_key_and_a_finished_run_needs_none(tmp_path):
    def spec() -> Spec:
        return Spec.of("two-bit", "erm", "short", 3, {"model": {"name": "resnet", "weights": str(path)}})

    (path := tmp_path / "weights.pth").write_bytes(b"one")
    first = spec()
    assert first.key == spec().key
    path.write_bytes(b"other")
    assert spec().key != first.key
    assert spec().trial.key != first.trial.key
    path.unlink()
    again = Spec.from_json(json.loads(json.dumps(first.to_json())))
    assert again == first
    assert (again.key, again.trial.key) == (first.key, first.trial.key)
    with pytest.raises(DataError, match="there is no file"):
        spec()


def test_a_run_that_starts_from_no_file_says_nothing_of_one():
    assert "start" not in Spec.of("two-bit", "erm", "short", changes={"model": {"name": "resnet"}}).to_json()


def test_seeds_and_held_out_environments_share_a_trial():
    spec = Spec.of("two-bit", "erm", "short", 3)
    same = [spec, replace(spec, seed=4), spec.holding_out("β=0.1")]
    assert len({own.key for own in same}) == 3
    assert len({own.trial.key for own in same}) == 1
    assert Spec.of("two-bit", "erm", "short", changes={"data": {"alpha": 0.1}}).trial.key != spec.trial.key


# Settings


def test_settings_are_read_as_json_or_else_as_text():
    assert parse_changes(
        [
            "method.gamma=1e4",
            "recipe.batch_size=null",
            "recipe.reset=true",
            "data.betas=[0.1, 0.2]",
            "recipe.step=sgd",
            'recipe.schedule={"kind": "drop"}',
            "method.estimator = split ",
        ]
    ) == {
        "method": {"gamma": 1e4, "estimator": "split"},
        "recipe": {"batch_size": None, "reset": True, "step": "sgd", "schedule": {"kind": "drop"}},
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


@pytest.mark.parametrize("setting", ["", "gamma=3", "method.gamma", "method", "=3", "recipe=short"])
def test_a_setting_that_cannot_be_read_says_how_to_write_one(setting):
    with pytest.raises(BadValue) as caught:
        parse_changes([setting])
    assert one_line(caught) == (f"cannot read {setting!r}; write SECTION.FIELD=VALUE, for example method.gamma=1e4")


def test_the_earlier_name_of_a_method_is_understood():
    assert parse_changes(["objective.gamma=3"]) == parse_changes(["method.gamma=3"]) == {"method": {"gamma": 3}}
    earlier, now = (Spec.of("two-bit", "irmv1", "short", 0, {name: {"gamma": 3}}) for name in ("objective", "method"))
    assert earlier == now


def test_a_setting_of_an_unknown_section_says_what_was_meant():
    with pytest.raises(UnknownName, match=r"no section of a run is called 'penalty'"):
        parse_changes(["penalty.gamma=3"])
    with pytest.raises(UnknownName, match=r"Did you mean 'method'\?"):
        parse_changes(["metod.gamma=3"])
