"""One format for every kind of model; what each kind holds is tested where it is written."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from safetensors.torch import save as packed

import invariance
from invariance.core.errors import BadValue, DataError
from invariance.core.model_folder import (
    CARD,
    FORMAT,
    MANIFEST,
    NEW_WEIGHTS,
    REPORT,
    WEIGHTS,
    _settle,
    claim,
    read,
    seal,
)
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.saved import read as read_estimator
from invariance.estimators.saved import save as save_estimator
from invariance.evaluation.scores import outputs
from invariance.experiments.run import execute
from invariance.experiments.saved import load as load_run
from invariance.experiments.saved import save as save_run
from invariance.experiments.spec import Spec
from invariance.recipes.presets import recipe


@pytest.fixture
def run(tmp_path) -> Path:
    changes = {"data": {"samples": 60}, "recipe": {"epochs": 1}, "evaluation": {"checkpoints": 1}}
    save_run(execute(Spec.of("two-bit", "irmv1", "short", changes=changes)), tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).normal(size=(60, 2))
    return X, X[:, 0] > 0, np.repeat(["a", "b"], 30)


@pytest.fixture
def estimator(tmp_path, table) -> Path:
    X, y, e = table
    model = InvariantClassifier("irmv1", recipe=recipe("full-batch", changes={"epochs": 5}))
    save_estimator(model.fit(X, y, environments=e), tmp_path / "model", extra={"answer": 42})
    return tmp_path / "model"


def rewritten(folder: Path, content: dict) -> None:
    (folder / MANIFEST).write_text(json.dumps(content), encoding="utf-8")


def manifest(folder: Path) -> dict:
    return json.loads((folder / MANIFEST).read_text(encoding="utf-8"))


def test_every_kind_has_the_same_manifest_but_for_its_content(run, estimator):
    for folder, kind in ((run, "run"), (estimator, "classifier")):
        content = manifest(folder)
        assert (content["format"], content["revision"], content["kind"]) == (FORMAT, 2, kind)
        assert {"versions", "weights", "seal"} <= content.keys()
        assert read(folder).kind == kind


def test_load_opens_what_train_and_what_save_wrote(run, estimator, table):
    trained = invariance.load(run)
    assert trained.run == load_run(run).run
    x = trained.benchmark.mechanism.inputs[0]
    assert torch.equal(outputs(trained.model, x), outputs(load_run(run).model, x))
    own = read_estimator(estimator).estimator
    assert (invariance.load(estimator).predict_proba(table[0]) == own.predict_proba(table[0])).all()


def test_a_run_of_revision_1_still_opens(run):
    """It had neither format, kind, revision nor seal."""
    before, old = load_run(run), manifest(run)
    rewritten(run, {key: old[key] for key in ("run", "environments", "versions")})
    again = invariance.load(run)
    assert again.run == before.run
    for name, weights in before.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], weights)


def test_an_estimator_of_revision_1_still_opens(estimator, table):
    """It had a format of its own, its kind among its content, and a seal."""
    before = invariance.load(estimator).predict_proba(table[0])
    old = manifest(estimator) | {"format": "invariance estimator", "revision": 1}
    del old["seal"]
    rewritten(estimator, old | {"seal": seal(old)})
    assert (invariance.load(estimator).predict_proba(table[0]) == before).all()
    assert read_estimator(estimator).extra == {"answer": 42}


def test_a_folder_of_another_kind_says_what_it_holds(run, estimator):
    with pytest.raises(DataError, match="holds a run, expected an estimator"):
        read_estimator(run)
    with pytest.raises(DataError, match="holds a classifier, expected a run"):
        load_run(estimator)


@pytest.mark.parametrize("content", [[], 3, {}, {"format": "onnx"}, {"format": FORMAT, "revision": 2, "kind": "tree"}])
def test_a_manifest_of_something_else_is_refused_in_one_line(run, content):
    rewritten(run, content)
    with pytest.raises(DataError, match="holds no model of this package"):
        invariance.load(run)


def test_a_later_revision_is_refused_with_advice(run):
    rewritten(run, manifest(run) | {"revision": 3, "versions": {"invariance": "9.1"}})
    with pytest.raises(DataError, match=r"written by invariance 9\.1, which is newer"):
        invariance.load(run)


def test_an_edited_run_is_noticed(run):
    content = manifest(run)
    content["run"]["seconds"] = 0
    rewritten(run, content)
    with pytest.raises(DataError, match="is not as it was written"):
        invariance.load(run)


def moved(folder: Path, content: bytes, name: str) -> None:
    (folder / name).write_bytes(content)


def test_a_model_is_replaced_at_the_moment_that_its_manifest_is(run, estimator):
    """A process that is killed between two renames leaves the new model, its weights under their first name."""
    old, new = ({path.name: path.read_bytes() for path in folder.iterdir()} for folder in (run, estimator))
    for step, kind in (
        ("weights written", "run"),
        ("manifest renamed", "classifier"),
        ("weights renamed", "classifier"),
    ):
        match step:
            case "weights written":
                moved(run, new[WEIGHTS], NEW_WEIGHTS)
            case "manifest renamed":
                moved(run, new[MANIFEST], MANIFEST)
            case _:
                (run / NEW_WEIGHTS).replace(run / WEIGHTS)
        assert read(run).kind == kind, step
        assert read(run).weights == (old if kind == "run" else new)[WEIGHTS]


def test_a_model_whose_writer_was_killed_is_settled_by_the_next_one(run, estimator):
    new = {path.name: path.read_bytes() for path in estimator.iterdir()}
    moved(run, new[WEIGHTS], NEW_WEIGHTS)
    moved(run, new[MANIFEST], MANIFEST)
    _settle(run)
    assert not (run / NEW_WEIGHTS).exists()
    assert read(run).weights == new[WEIGHTS]


@pytest.mark.parametrize("name", [WEIGHTS, CARD, REPORT])
def test_files_of_somebody_else_are_not_replaced(estimator, tmp_path, name):
    (tmp_path / "thesis").mkdir()
    mine = tmp_path / "thesis" / name
    mine.write_text("mine")
    fitted = invariance.load(estimator)
    with pytest.raises(BadValue, match=f"holds no model, but a {name} that a model would replace; choose another"):
        save_estimator(fitted, tmp_path / "thesis")
    with pytest.raises(BadValue, match="choose another"):
        claim(tmp_path / "thesis", overwrite=True)
    assert [mine.read_text(), *(tmp_path / "thesis").iterdir()] == ["mine", mine]


@pytest.mark.parametrize("kind", ["run", "estimator"])
def test_weights_that_are_not_finite_are_refused(request, kind):
    folder = request.getfixturevalue(kind)
    weights = load_file(folder / WEIGHTS)
    next(iter(w for w in weights.values() if w.is_floating_point())).fill_(torch.nan)
    content = manifest(folder)
    content["weights"] = hashlib.sha256(packed(weights)).hexdigest()
    (folder / WEIGHTS).write_bytes(packed(weights))
    content.pop("seal")
    rewritten(folder, content | {"seal": seal(content)})
    with pytest.raises(DataError, match="not finite"):
        invariance.load(folder)


def test_weights_of_another_run_are_refused_by_an_old_manifest_without_a_seal(run, tmp_path):
    changes = {"data": {"samples": 60}, "recipe": {"epochs": 1}, "evaluation": {"checkpoints": 1}}
    save_run(execute(Spec.of("two-bit", "irmv1", "short", 1, changes)), tmp_path / "other")
    content = manifest(run)
    rewritten(run, {"run": content["run"]})
    invariance.load(run)
    (run / WEIGHTS).write_bytes((tmp_path / "other" / WEIGHTS).read_bytes())
    with pytest.raises(DataError, match="not those of its run"):
        invariance.load(run)
