"""The examples run as they stand, and show what they say."""

import io
import re
import runpy
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import sklearn

LOOPS = ("torch_loop.py", "lightning_loop.py")
FOLDER = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """matplotlib draws nothing, and what an example sets in scikit-learn is put back."""
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="needs matplotlib: pip install 'invariance[report]'")
    before = pyplot.get_backend()
    pyplot.switch_backend("template")
    with sklearn.config_context():
        yield
    pyplot.close("all")
    pyplot.switch_backend(before)


def run(name: str) -> str:
    """What an example prints, run as a program in this process; a warning is an error, as everywhere in the tests."""
    with redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(FOLDER / name), run_name="__main__")
    return printed.getvalue()


def numbers(line: str) -> list[float]:
    return [float(text) for text in re.findall(r"-?\d+\.\d+", line)]


def test_every_example_is_run_here():
    tests = Path(__file__).read_text(encoding="utf-8")
    assert [path.name for path in FOLDER.glob("*.py") if f'"{path.name}"' not in tests] == []


def test_a_column_misleads_logistic_regression_and_not_us():
    *_, plain, own = run("misleading_column.py").splitlines()
    assert numbers(own)[1] > numbers(plain)[1] + 0.3


def test_a_module_of_ones_own_is_trained_and_kept():
    out = run("own_module.py")
    assert numbers(out.splitlines()[0])[-1] > 0.8
    assert "Licence: CC0-1.0" in out
    assert out.endswith("the loaded model predicts the same: True\n")


def test_a_grid_search_takes_the_invariant_model_by_its_worst_environment():
    average, worst = run("grid_search.py").splitlines()
    assert "erm" in average
    assert "erm" not in worst
    assert numbers(worst)[0] > numbers(average)[0] + 0.3


def test_regression_keeps_the_cause():
    plain, own = run("regression.py").splitlines()
    assert numbers(own)[1] > max(0.2, numbers(plain)[1] + 0.2)


@pytest.mark.parametrize("name", LOOPS)
def test_a_penalty_in_another_loop_keeps_the_column_that_keeps_its_meaning(name):
    plain, own = run(name).splitlines()
    assert numbers(plain)[-1] < 0.4
    assert numbers(own)[-1] > 0.65


@pytest.mark.slow
def test_invariant_methods_stay_level_where_erm_falls():
    erm, rex, env_poe, oracle = (numbers(line) for line in run("accuracy_over_beta.py").splitlines())
    assert erm[2] > 0.8  # its gap
    assert max(rex[2], env_poe[2]) < 0.15
    assert oracle[2] == 0


def test_drawn_environments_have_a_larger_gap_than_exact_ones():
    drawn, exact = numbers(run("exact_evaluation.py").splitlines()[-1])
    assert drawn > exact


def test_the_closed_form_is_autograd():
    assert float(run("penalty_by_hand.py").split()[-1]) < 1e-6


@pytest.mark.slow
def test_a_penalty_that_is_too_heavy_collapses():
    heavy, two_phase = run("collapse.py").splitlines()
    assert "collapsed" in heavy
    assert numbers(two_phase)[0] > numbers(heavy)[0] + 0.05


@pytest.mark.slow
def test_the_highest_validation_accuracy_is_that_of_a_misled_model():
    rules = {line.split(":")[0]: numbers(line) for line in run("selection_rules.py").splitlines()}
    assert rules["training-domain"][1] < 0.2 < 0.5 < rules["invariant"][1]
    assert rules["oracle"][0] >= max(average for average, _ in rules.values())


@pytest.mark.slow
def test_auto_keeps_erm_where_all_columns_mean_the_same():
    same, other = run("when_erm_is_enough.py").splitlines()
    assert ": erm," in same
    assert ": erm," not in other


def test_the_published_runs_are_drawn():
    assert run("published_runs.py").endswith("methods, scale ours\n")
