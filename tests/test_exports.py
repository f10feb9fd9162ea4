import ast
import runpy
import subprocess
import sys
from collections.abc import Callable
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


@pytest.fixture(scope="module")
def generated() -> Callable[[str], str]:
    """What ``make stub`` makes of a stub."""
    return runpy.run_path(str(Path(__file__).parents[1] / "tools" / "stub.py"))["generated"]


def test_the_stub_is_current(generated):
    assert STUB.read_text(encoding="utf-8") == generated(STUB.read_text(encoding="utf-8")), "run 'make stub'"


def test_a_stub_loses_what_is_gone_and_gains_what_is_missing(generated):
    current = STUB.read_text(encoding="utf-8")
    line = "from .methods.irmv1 import IRMv1 as IRMv1\n"
    assert line in current
    assert generated(current.replace(line, "")) == current
    assert generated(current + "from .methods.gone import Gone as Gone\n") == current
    assert generated(current.replace("IRMv1 as IRMv1", "OldName as OldName")) == current
    assert generated(current + "from .core.errors import Another as Another\n").count("Another as Another") == 1


@pytest.mark.parametrize("catalogue", [METHODS, DATA, MODELS], ids=lambda c: c.kind)
def test_every_method_data_set_and_model_is_exported(catalogue):
    missing = [cls.__name__ for cls in catalogue.classes.values() if cls.__name__ not in stubbed()]
    assert not missing, "run 'make stub'"
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
