import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from torch import nn

from invariance.core.errors import BadValue, DataError, InvarianceError, StoreError
from invariance.core.model_folder import MANIFEST, WEIGHTS, load, seal
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.regressor import InvariantRegressor
from invariance.estimators.saved import read, save
from invariance.methods import METHODS
from invariance.methods.rex import REx
from invariance.recipes.presets import recipe

VARIANTS = {name: {"method": name} for name in METHODS.classes if name != "grayscale"} | {
    "chosen": {"method": "auto"},
    "a value": {"method": REx(gamma=3.0)},
    "linear": {"hidden": ()},
    "deep": {"hidden": (5, 4)},
    "averaged": {"recipe": recipe("full-batch", changes={"epochs": 10, "average": 0.5})},
    "kept aside": {"selection": "training-domain"},
}


@pytest.fixture
def model(small, quick) -> InvariantClassifier:
    return InvariantClassifier("rex", recipe=quick).fit(small.X, small.y, environments=small.site)


@pytest.fixture
def folder(tmp_path, model) -> Path:
    save(model, tmp_path / "model", licence="CC-BY-4.0", about={"Source": "three hospitals"}, extra={"columns": ["é"]})
    return tmp_path / "model"


def test_a_pipeline_is_refused_in_a_word(tmp_path, model):
    with pytest.raises(BadValue, match=r"a Pipeline cannot be saved; give .* the last step of a pipeline"):
        save(make_pipeline(model), tmp_path / "pipeline")


# There and back


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_loaded_classifier_is_the_same_bit_for_bit(tmp_path, small, quick, variant):
    model = InvariantClassifier(**{"method": "rex", "recipe": quick, **VARIANTS[variant]})
    model.fit(small.X, small.y, environments=small.site)
    save(model, tmp_path)
    again = load(tmp_path)
    X = small.X + 0.1
    assert np.unique(model.decision_function(X)).size > 1
    assert (again.decision_function(X) == model.decision_function(X)).all()
    assert (again.predict(X) == model.predict(X)).all()
    assert again.get_params() == model.get_params()
    for name in ("method_", "choice_", "history_", "scores_", "counts_", "fingerprint_", "n_features_in_"):
        assert getattr(again, name) == getattr(model, name), name
    assert (again.classes_ == model.classes_).all()
    assert (again.environments_ == model.environments_).all()


def test_a_loaded_regressor_is_the_same_bit_for_bit(tmp_path, small, quick):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(small.X.astype(np.float32), columns=list("abcdef"))
    model = InvariantRegressor("irmv1", recipe=quick).fit(X, 9 + 7 * X["a"], environments=small.site)
    save(model, tmp_path)
    again = load(tmp_path)
    assert (again.predict(X) == model.predict(X)).all()
    assert again.feature_names_in_.tolist() == list("abcdef")
    with pytest.raises(ValueError, match="feature names"):
        again.predict(X[["b", "a", "c", "d", "e", "f"]])


@pytest.mark.parametrize("classes", [[3, 7], [0.0, 2.0], [False, True], np.array(["a", "b"], dtype=object)])
def test_classes_keep_their_kind(tmp_path, small, quick, classes):
    y = np.asarray(classes)[(small.y == "sick").astype(int)]
    save(InvariantClassifier("erm", recipe=quick).fit(small.X, y, environments=small.site), tmp_path)
    named = load(tmp_path).predict(small.X)
    assert named.dtype == y.dtype
    assert set(named) == set(classes)


def test_what_was_put_beside_a_model_comes_back(folder):
    saved = read(folder)
    assert saved.extra == {"columns": ["é"]}
    assert saved.card["licence"] == "CC-BY-4.0"


def test_a_loaded_model_can_be_trained_again(folder, small):
    again, first = load(folder), load(folder)
    again.fit(small.X, small.y, environments=small.site)
    assert (again.decision_function(small.X) == first.decision_function(small.X)).all()


def test_features_of_ones_own_are_asked_for(tmp_path, small, quick):
    model = InvariantClassifier("rex", recipe=quick, features=nn.Sequential(nn.Linear(6, 4), nn.Tanh()))
    save(model.fit(small.X, small.y, environments=small.site), tmp_path)
    with pytest.raises(BadValue, match="pass a Sequential to load as features="):
        load(tmp_path)
    with pytest.raises(DataError, match="holds no readable model"):
        load(tmp_path, features=nn.Linear(6, 4))
    assert "features=Sequential(...)" in (tmp_path / "README.md").read_text(encoding="utf-8")
    again = load(tmp_path, features=nn.Sequential(nn.Linear(6, 4), nn.Tanh()))
    assert (again.predict_proba(small.X) == model.predict_proba(small.X)).all()


def reseal(folder: Path, **changes: object) -> None:
    """Write a manifest as another version would have."""
    content = json.loads((folder / MANIFEST).read_text())
    del content["seal"]
    content |= changes
    (folder / MANIFEST).write_text(json.dumps(content | {"seal": seal(content)}))


def test_versions_of_other_packages_do_not_matter(folder, model, small):
    reseal(folder, versions={"invariance": "0.0.7", "torch": "2.4.0", "numpy": "1.26.0"})
    assert (load(folder).predict_proba(small.X) == model.predict_proba(small.X)).all()


def test_a_later_format_is_refused_with_advice(folder):
    reseal(folder, revision=99, versions={"invariance": "7.0"})
    with pytest.raises(DataError, match=r"written by invariance 7\.0, which is newer"):
        load(folder)


# What is not as it was written


def changed(path: Path) -> None:
    """One bit in the middle of the file is another."""
    content = bytearray(path.read_bytes())
    content[len(content) * 3 // 4] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "changed": changed,
    "a pickle": lambda path: path.write_bytes(pickle.dumps({"a": 1})),
    "a list": lambda path: path.write_text("[1, 2]"),
    "another's": lambda path: path.write_text('{"format": "onnx"}'),
}


@pytest.mark.parametrize("name", [MANIFEST, WEIGHTS])
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_refused_in_one_line(folder, name, damage):
    DAMAGE[damage](folder / name)
    with pytest.raises(DataError) as caught:
        load(folder)
    assert str(caught.value).startswith(str(folder))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [{"kind": "transformer"}, {"classes": 3}, {"network": {}}, {"parameters": {}}, {"objective": {"name": "irmv7"}}],
    ids=str,
)
def test_a_manifest_that_makes_no_sense_is_refused_in_one_line(folder, change):
    reseal(folder, **change)
    with pytest.raises(InvarianceError) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_weights_of_another_model_are_refused(folder, tmp_path, small, quick):
    other = InvariantClassifier("rex", recipe=quick, random_state=1).fit(small.X, small.y, environments=small.site)
    save(other, tmp_path / "other")
    (folder / WEIGHTS).write_bytes((tmp_path / "other" / WEIGHTS).read_bytes())
    with pytest.raises(DataError, match="is not as it was written"):
        load(folder)


def test_no_folder_no_estimator(tmp_path):
    with pytest.raises(DataError, match=r"holds no manifest\.json; give a folder that"):
        load(tmp_path / "nowhere")


# What cannot be saved


def test_an_estimator_is_fitted_before_it_is_saved(tmp_path):
    with pytest.raises(NotFittedError):
        save(InvariantClassifier(), tmp_path)


def test_a_place_that_cannot_be_written_is_one_line(tmp_path, model):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot save to"):
        save(model, tmp_path / "file")
    with pytest.raises(BadValue, match="takes plain data only"):
        save(model, tmp_path, extra={"a": object()})


# The card


def test_the_card_says_what_the_model_is(folder, model):
    text = (folder / "README.md").read_text(encoding="utf-8")
    for line in ("Licence: CC-BY-4.0", "Method: rex", "90 rows, 6 columns, 3 environments", "Source: three hospitals"):
        assert line in text
    assert model.fingerprint_ in text
    assert f"| Bern | {model.scores_.by_environment['Bern']:.4f} |" in text
    assert "invariance.load(" in text


def test_the_fingerprint_follows_the_data(small, quick, model):
    def fingerprint(X: np.ndarray, y: np.ndarray, site: np.ndarray) -> str:
        return InvariantClassifier("erm", recipe=quick).fit(X, y, environments=site).fingerprint_

    assert fingerprint(small.X, small.y, small.site) == model.fingerprint_
    other = small.X.copy()
    other[3, 4] += 1e-9
    assert fingerprint(other, small.y, small.site) != model.fingerprint_
    assert fingerprint(small.X, small.y, small.site[::-1]) != model.fingerprint_
