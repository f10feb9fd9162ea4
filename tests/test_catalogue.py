import importlib
import inspect
import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from pydantic import TypeAdapter, ValidationError

import invariance
from invariance.core.catalogue import Catalogue, defaults
from invariance.core.errors import BadValue, InvarianceError, UnknownName
from invariance.data import DATA
from invariance.data.colored_digits import ColoredDigits
from invariance.experiments.run import execute
from invariance.experiments.spec import Spec
from invariance.methods import METHODS
from invariance.methods.irmv1 import IRMv1
from invariance.models import MODELS
from invariance.models.linear import Linear
from invariance.report.formats import FORMATS
from invariance.studies import STUDIES

CATALOGUES = {"methods": METHODS, "data": DATA, "models": MODELS}
FOLDERS = {**CATALOGUES, "studies": STUDIES, "report/formats": FORMATS}
EVERY = [(catalogue, name) for catalogue in CATALOGUES.values() for name in catalogue.classes]
each = pytest.mark.parametrize(("catalogue", "name"), EVERY, ids=[name for _, name in EVERY])


def one_line(caught: pytest.ExceptionInfo[InvarianceError]) -> str:
    assert "\n" not in str(caught.value)
    return str(caught.value)


# The folder is the registry


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_with_a_class_that_can_be_made_is_listed_under_its_name(folder):
    catalogue, found = FOLDERS[folder], {}
    for path in sorted((Path(invariance.__file__).parent / folder).glob("*.py")):
        module = import_module(f"invariance.{folder.replace('/', '.')}.{path.stem}")
        for value in vars(module).values():
            own = inspect.isclass(value) and value.__module__ == module.__name__
            if own and issubclass(value, catalogue.base) and not inspect.isabstract(value):
                assert path.stem not in found, f"{path} holds two"
                found[path.stem] = value
    assert found
    assert catalogue.classes == {stem.replace("_", "-"): cls for stem, cls in found.items()}
    assert list(catalogue.classes) == sorted(catalogue.classes)


def test_two_classes_in_one_file_are_refused_by_name(tmp_path, monkeypatch):
    (folder := tmp_path / "crowded").mkdir()
    (folder / "alone.py").write_text("class Alone(dict): ...\nagain = Alone\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert Catalogue("thing", "crowded", dict).classes.keys() == {"alone"}
    (folder / "pair.py").write_text("from crowded.alone import Alone\nclass Left(Alone): ...\nclass Right(dict): ...\n")
    importlib.invalidate_caches()
    with pytest.raises(InvarianceError) as caught:
        Catalogue("thing", "crowded", dict)["alone"]
    assert one_line(caught) == f"{folder / 'pair.py'} holds Left and Right; a thing is a file of its own"


@each
def test_every_class_is_final_and_says_what_it_is(catalogue, name):
    cls = catalogue[name]
    assert getattr(cls, "__final__", False)
    assert cls.__doc__
    wanted = {METHODS: ("title", "formula", "citation"), DATA: ("title", "about", "citation", "licence"), MODELS: ()}
    assert all(getattr(cls, field) for field in wanted[catalogue])


def test_what_a_method_remembers_is_not_in_its_fields():
    for cls in METHODS.classes.values():
        assert cls.__dataclass_params__.frozen


# Names


@pytest.mark.parametrize("name", ["irm-game", "IRM-Game", "irm_game", "IRM_GAME"])
def test_names_are_read_in_any_case_and_with_either_dash(name):
    assert METHODS[name].__name__ == "IRMGame"


@pytest.mark.parametrize(
    ("catalogue", "name", "message"),
    [
        (METHODS, "irm1", "no method is called 'irm1'. Did you mean 'irmv1'?"),
        (METHODS, "block_irm", "no method is called 'block_irm'. Did you mean 'bloc-irm'?"),
        (DATA, "coloured-mnist", "no data set is called 'coloured-mnist'. Did you mean 'colored-mnist'?"),
        (MODELS, "MPL", "no model is called 'MPL'. Did you mean 'mlp'?"),
        (MODELS, "zzzz", f"no model is called 'zzzz'. Known: {', '.join(MODELS.classes)}."),
        (MODELS, "", f"no model is called ''. Known: {', '.join(MODELS.classes)}."),
    ],
)
def test_an_unknown_name_says_what_was_probably_meant(catalogue, name, message):
    with pytest.raises(UnknownName) as caught:
        catalogue.create(name)
    assert one_line(caught) == message


def test_an_unknown_field_says_what_was_probably_meant():
    with pytest.raises(UnknownName) as caught:
        METHODS.create("irmv1", {"gama": 3})
    assert one_line(caught) == "no field of method 'irmv1' is called 'gama'. Did you mean 'gamma'?"


@pytest.mark.parametrize(
    ("catalogue", "name", "fields"),
    [
        (METHODS, "irmv1", {"gamma": -1}),
        (METHODS, "irmv1", {"gamma": "much"}),
        (METHODS, "irmv1", {"gamma": float("nan")}),
        (METHODS, "irmv1", {"estimator": "cubed"}),
        (METHODS, "fishr", {"ema": 1.0}),
        (DATA, "two-bit", {"samples": 0}),
        (DATA, "two-bit", {"betas": []}),
        (DATA, "two-bit", {"betas": [0.1, 1.2]}),
        (DATA, "two-bit", {"alpha": float("nan")}),
        (MODELS, "mlp", {"width": 1.5}),
    ],
    ids=lambda value: value.kind if isinstance(value, Catalogue) else str(value),
)
def test_a_value_that_cannot_be_used_is_named_in_one_line(catalogue, name, fields):
    with pytest.raises(BadValue) as caught:
        catalogue.create(name, fields)
    message = one_line(caught)
    assert message.startswith(f"{catalogue.kind} {name!r}: {next(iter(fields))}")
    assert "cannot be used" in message


def test_a_class_that_is_not_listed_has_no_name():
    class Private:
        pass

    with pytest.raises(InvarianceError) as caught:
        METHODS.name(Private())
    assert "Private" in one_line(caught)


# Plain data


OTHERS = {
    "classes": ("automobile", "truck"),
    "colours": ((1, 2, 3), (4, 5, 6)),
    "images": 150,
    "min_area": 1.5,
    "path": "somewhere",
    "repeats": 3,
    "super_classes": (("dog",), ("cow", "horse")),
    "unseen": "another",
    "weights": "weights.pth",
}
"""Values of fields whose type does not tell enough."""


def other_value(field: str, hint: object, default: object) -> object:
    """A value of the field's type that is not its default; the default itself where none is easily found."""
    choices = [choice for choice in get_args(hint) if isinstance(choice, str)]
    numbers = (default - 1, default + 1) if isinstance(default, int) else ()
    simple = (OTHERS.get(field), *choices, not default, *numbers, 0.5, 0.25, (0.25, 0.5, 0.75), "another", ("a", "b"))
    for value in simple:
        try:
            checked = TypeAdapter(hint).validate_python(value, strict=True)
        except ValidationError:
            continue
        if checked not in (default, None):
            return checked
    return default


@each
def test_what_is_dumped_is_plain_and_loads_to_an_equal_value(catalogue, name):
    value = catalogue.create(name)
    plain = json.loads(json.dumps(catalogue.dump(value)))
    assert plain["name"] == name
    assert catalogue.load(plain) == value


@each
def test_changed_fields_survive_too(catalogue, name):
    cls = catalogue[name]
    hints = get_type_hints(cls, include_extras=True)
    changed = {field: other_value(field, hints[field], default) for field, default in defaults(cls).items()}
    value = catalogue.create(name, changed)
    assert catalogue.load(json.loads(json.dumps(catalogue.dump(value)))) == value
    assert all(getattr(value, field) == wanted for field, wanted in changed.items())
    assert not changed or value != cls()


def test_the_fields_listed_are_the_defaults():
    assert defaults(IRMv1)["gamma"] == IRMv1().gamma
    assert set(defaults(ColoredDigits)) == {"betas", "alpha", "test_betas", "shift", "p", "draws"}
    assert defaults(Linear) == {}
    assert defaults(int) == {}


# Other packages


METHOD = '''
    from collections.abc import Iterator
    from typing import ClassVar

    from pydantic.dataclasses import dataclass

    from invariance.methods.base import Move, Method
    from invariance.core.fields import STRICT, Positive

    @dataclass(frozen=True, config=STRICT)
    class WorstCase(Method):
        """The highest risk."""

        title: ClassVar[str] = "Worst case"
        formula: ClassVar[str] = "min max_e R^e"
        citation: ClassVar[str] = "folklore"

        power: Positive = 2.0

        def moves(self, model, batch, clock, generator) -> Iterator[Move]:
            yield Move(lambda: batch.risks(model(batch.x)).max())

    not_a_class = 3
'''
SMALL = {"data": {"samples": 100}, "recipe": {"epochs": 3, "batch_size": 50}}


def test_a_method_of_another_package_is_listed_and_trained_like_the_others(plugin):
    plugin(METHOD, methods=["worst-case = another_package:WorstCase"])
    assert set(METHODS.classes) > {"worst-case", "irmv1"}
    spec = Spec.of("two-bit", "worst-case", "short", changes={"method": {"power": 3}, **SMALL})
    assert spec.method.power == 3
    assert Spec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    run = execute(spec).run
    assert run.history[-1].step == 12
    assert run.history[-1].loss < run.history[0].loss
    with pytest.raises(UnknownName, match="Did you mean 'worst-case'"):
        METHODS.create("worst-cas")


def test_a_method_of_another_package_is_in_the_command_line_too(plugin):
    folder = plugin(METHOD, methods=["worst-case = another_package:WorstCase"])
    command = [Path(sys.executable).with_name("invariance"), "compare", "--methods", "worst-case,erm", "--json"]
    command += ["--data", "two-bit", "--set", "data.samples=500", "--set", "recipe.epochs=60", "--seeds", "1"]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(folder)}, capture_output=True, text=True, check=True
    )
    rows = json.loads(done.stdout)
    assert sorted(row["method"] for row in rows) == ["erm", "worst-case"]
    assert all(isinstance(row["average"], float) for row in rows)


@pytest.mark.parametrize("name", ["worst_case", "WorstCase"])
def test_an_entry_points_name_may_be_spelt_as_names_are(plugin, name):
    plugin(METHOD, methods=[f"{name} = another_package:WorstCase"])
    assert METHODS[name].__name__ == "WorstCase"
    assert all(METHODS[listed] is cls for listed, cls in METHODS.classes.items())


def test_the_earlier_name_of_the_group_still_counts(plugin):
    plugin(METHOD, objectives=["worst-case = another_package:WorstCase"])
    assert METHODS["worst-case"].__name__ == "WorstCase"


@pytest.mark.parametrize("catalogue", [DATA, STUDIES], ids=lambda c: c.kind)
def test_folders_inside_a_catalogue_and_what_they_hold_are_not_listed(catalogue):
    folder = Path(import_module(catalogue.package).__file__).parent
    inside = {path.stem.replace("_", "-") for path in folder.glob("*/**/*.py")} | {
        path.name for path in folder.iterdir()
    }
    assert inside
    assert not inside & catalogue.classes.keys()


def test_an_entry_point_that_is_no_method_is_refused(plugin):
    plugin(METHOD, methods=["odd = another_package:not_a_class"])
    with pytest.raises(InvarianceError) as caught:
        METHODS["irmv1"]
    assert one_line(caught) == "entry point 'odd' of invariance.methods is no Method class"


@pytest.mark.parametrize("entry", ["odd = another_package:Missing", "odd = no_such_package:Odd"])
def test_an_entry_point_that_cannot_be_loaded_is_named_in_one_line(plugin, entry):
    plugin(METHOD, methods=[entry])
    with pytest.raises(InvarianceError) as caught:
        METHODS["irmv1"]
    assert "odd" in one_line(caught)


def test_the_package_itself_is_found_again_when_the_other_one_is_gone():
    assert Catalogue("method", "invariance.methods", METHODS.base).classes == METHODS.classes
    assert "worst-case" not in METHODS.classes
