"""``invariance tune`` as it is used: worker processes, a study and a store in files."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

TUNE = ["tune", "two-bit", "rex", "--set", "data.samples=400", "--search", "recipe.epochs=int:2:6", "--workers", "1"]
KEYS = {
    *("data", "method", "recipe", "rule", "sees_test", "seeds", "first_seed", "fixed", "space"),
    *("study", "name", "budget", "trials", "seconds", "best", "options", "importances"),
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_tune_shows_its_best_trials_a_line_to_type_and_a_picture_and_goes_on_from_there(invariance):
    done = invariance(*TUNE, "--rule", "oracle", "--trials", "2")
    assert (done.code, done.err) == (0, "")
    assert "oracle (has seen test data)" in done.out
    assert "best settings (the rule has seen test data):" in done.out
    (line,) = [line for line in done.out.splitlines() if line.startswith("--recipe default --set method.gamma=")]
    with Image.open("invariance-tune.png") as picture:
        assert min(picture.size) > 300
    assert sorted(path.name for path in Path().iterdir()) == [
        "invariance-tune.png",
        "runs.db",
        "runs.db-stages",
        "tune.db",
    ]
    same = ["--data", "two-bit", "--set", "data.samples=400", "--seeds", "1", "--first-seed", "100", *line.split()]
    assert invariance("compare", "--methods", "rex", "--json", *same).json[0]["method"] == "rex"
    with sqlite3.connect("runs.db") as runs:
        assert runs.execute("SELECT count(*) FROM runs").fetchone() == (2,)  # the line gives the same run
    runs.close()
    Path("invariance-tune.png").unlink()
    again = invariance(*TUNE, "--rule", "oracle", "--trials", "2", "--json").json
    assert set(again) == KEYS
    assert again["options"] == line
    assert sum(again["trials"].values()) == again["budget"] == 2
    assert (again["sees_test"], again["space"]["recipe.epochs"]) == (True, "int:2:6")
    with sqlite3.connect("tune.db") as study:
        assert study.execute("SELECT study_name FROM studies").fetchall() == [(again["name"],)]
    study.close()
    assert not Path("invariance-tune.png").exists()


def test_a_search_without_a_single_score_says_why_and_exits_with_3(invariance):
    done = invariance(*TUNE, "--trials", "1", "--set", "recipe.lr=1e30", "--set", "recipe.step=sgd")
    assert done.code == 3
    assert "1 × diverged 1 of 1" in done.out
    assert not Path("invariance-tune.png").exists()


INTERRUPTIBLE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background of a shell
from invariance.cli import main
main()
"""


def test_ctrl_c_keeps_what_is_finished_and_the_same_command_goes_on(invariance):
    endless = [*TUNE, "--trials", "1", "--set", "recipe.epochs=100000"]
    command = [sys.executable, "-c", INTERRUPTIBLE, *endless]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        while not list(Path().glob("runs.db-work/*")):  # until its run has begun
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130
    assert "0 of 1 runs are in runs.db; the same command goes on" in said
    with sqlite3.connect("tune.db") as study:
        assert study.execute("SELECT state FROM trials").fetchall() == [("RUNNING",)]
    study.close()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tune", "two-bits", "rex"], "no data set is called 'two-bits'. Did you mean 'two-bit'?"),
        (["tune", "two-bit", "rexx"], "no method is called 'rexx'. Did you mean 'rex'?"),
        (["tune", "two-bit", "rex", "--rule", "orakle"], "no tuning rule is called 'orakle'. Did you mean 'oracle'?"),
        (["tune", "two-bit", "rex", "--search", "recipe.lr=1:2"], "cannot read 'recipe.lr=1:2'"),
        (["tune", "two-bit", "rex", "--rule", "leave-one-environment-out"], "leaving out 'β=0.1' leaves 1 training"),
        (["tune", "two-bit", "rex", "--picture", "plot.txt"], "cannot write plot.txt"),
        (["tune", "two-bit", "rex", "--study", "no/tune.db"], "cannot write no/tune.db: there is no folder no"),
    ],
    ids=lambda value: value[-1] if isinstance(value, list) else "",
)
def test_an_error_of_tune_is_one_line_and_nothing_is_written(invariance, arguments, said):
    assert invariance(*arguments).error.startswith(said)
    assert not list(Path().iterdir())
