import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import invariance
from invariance.data import DATA
from invariance.methods import METHODS
from invariance.models import MODELS

STUB = Path(invariance.__file__).with_suffix(".pyi")


def stubbed() -> dict[str, str]:
    """Names in the stub and the modules they come from."""
    nodes = [node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ImportFrom)]
    return {alias.asname: f"invariance.{node.module}" for node in nodes for alias in node.names}


def test_the_stub_and_the_package_name_the_same_things():
    assert set(invariance.__all__) == stubbed().keys()
    assert stubbed().keys() <= set(dir(invariance))


@pytest.mark.parametrize("name", stubbed())
def test_every_name_is_what_its_module_has_under_that_name(name):
    assert getattr(invariance, name) is getattr(import_module(stubbed()[name]), name)


def test_names_in_the_stub_are_sorted_and_exported_under_their_own_name():
    nodes = [node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ImportFrom)]
    assert all(alias.asname == alias.name for node in nodes for alias in node.names)
    assert [node.module for node in nodes] == sorted(node.module for node in nodes)


@pytest.mark.parametrize("catalogue", [METHODS, DATA, MODELS], ids=lambda c: c.kind)
def test_every_method_data_set_and_model_is_exported(catalogue):
    missing = [cls.__name__ for cls in catalogue.classes.values() if cls.__name__ not in stubbed()]
    assert not missing
    assert all(getattr(invariance, cls.__name__) is cls for cls in catalogue.classes.values())


def test_every_error_is_exported():
    from invariance.core import errors

    raised = [name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)]
    own = [name for name in raised if getattr(errors, name).__module__ == "invariance.core.errors"]
    assert set(own) <= stubbed().keys()


@pytest.mark.parametrize("name", ["IRMv2", "Trian", "__wrapped__", "_private"])
def test_an_unknown_name_is_an_attribute_error(name):
    with pytest.raises(AttributeError, match=name):
        getattr(invariance, name)
    with pytest.raises(ImportError):
        exec(f"from invariance import {name}")


def test_the_first_example_of_the_package_runs_as_it_stands():
    """The docstring's lines, in a fresh interpreter, on a tenth of the data."""
    code = [line[4:] for line in invariance.__doc__.splitlines() if line.startswith((">>> ", "... "))]
    source = "import torch; torch.set_num_threads(1)\n" + "\n".join(code) + "\nprint(scores.mean)"
    source = source.replace('recipe("short")', 'recipe("short", changes={"epochs": 2})')
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert 0 < float(done.stdout) < 1
