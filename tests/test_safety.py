"""Nothing that is read is ever run: neither in the source, nor from the current folder, nor on a page."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import invariance

ROOT = Path(invariance.__file__).parent
SOURCES = sorted([*ROOT.rglob("*.py"), *ROOT.parents[1].joinpath("tools").glob("*.py")])
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "code", "pty"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load"}


def unsafe(tree: ast.AST) -> list[str]:
    """What in a module would run what it reads."""
    wrong = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                wrong += [name.name for name in names if name.name.split(".")[0] in FORBIDDEN_MODULES]
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in FORBIDDEN_MODULES:
                wrong.append(module)
            case ast.Call(func=func, keywords=keywords):
                called = ast.unparse(func)
                if called in FORBIDDEN_CALLS:
                    wrong.append(called)
                named = {keyword.arg: ast.unparse(keyword.value) for keyword in keywords}
                if called == "torch.load" and named.get("weights_only") != "True":
                    wrong.append("torch.load of more than tensors")
                if named.get("shell", "False") != "False" or named.get("allow_pickle", "False") != "False":
                    wrong.append(f"{called} with {named}")
    return wrong


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_module_runs_what_it_reads(path):
    assert unsafe(ast.parse(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "line",
    [
        *("import pickle", "from joblib import load", "eval(x)", "exec(x)", "os.system(x)", "torch.load(x)"),
        *("subprocess.run(x, shell=True)", "np.load(x, allow_pickle=True)", "__import__(x)"),
    ],
)
def test_the_test_would_notice(line):
    assert unsafe(ast.parse(line))


def test_a_worker_imports_nothing_from_the_current_folder_and_what_others_print_does_no_harm(tmp_path):
    """Planted modules stay unread; a start-up file that prints, which may be anyone's, does not stop the driver."""
    (tmp_path / "here").mkdir()
    (tmp_path / "start").mkdir()
    for name in ("filelock", "random", "torch"):
        (tmp_path / "here" / f"{name}.py").write_text("open('planted', 'w').close()\nprint('planted')\n")
    (tmp_path / "start" / "sitecustomize.py").write_text("print('hello'); print('{\"no\": 1}'); print('[1')\n")
    spec = invariance.Spec.of("two-bit", "erm", "short", 0, {"data": {"samples": 40}, "recipe": {"epochs": 1}})
    (tmp_path / "specs.jsonl").write_text(json.dumps(spec.to_json()))
    command = [Path(sys.executable).with_name("invariance"), "run", "../specs.jsonl", "--workers", "1"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "start"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tmp_path / "here", env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "here" / "planted").exists()
    assert (tmp_path / "here" / "runs.db").exists()


def test_every_dependency_is_pinned_by_a_hash():
    project = Path(__file__).parents[1]
    (pins,) = (project / ".ci").glob("requirements-*.txt")
    pinned = [
        re.fullmatch(r"(\S+)==\S+ --hash=sha256:[0-9a-f]{64}", line) for line in pins.read_text().splitlines()[1:]
    ]
    assert all(pinned)
    names = {each[1].replace("_", "-") for each in pinned if each}
    stated = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*stated["dependencies"], *(line for lines in stated["optional-dependencies"].values() for line in lines)]
    asked = {re.split(r"[\[<>=; ]", line)[0].lower().replace("_", "-") for line in wanted}
    assert asked - {"invariance", "torch"} <= names, "give 'make hashes'"
