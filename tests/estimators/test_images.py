"""Images for an estimator: an architecture in place of hidden layers, bytes in place of numbers."""

import numpy as np
import pytest
from sklearn.base import clone

from invariance.core.errors import BadValue
from invariance.core.inputs import Pixels, floats
from invariance.core.model_folder import load
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.saved import save
from invariance.models.mlp import MLP
from invariance.models.resnet import ResNet
from invariance.recipes.presets import recipe

QUICK = recipe("short", changes={"epochs": 2, "batch_size": 16})
Y = np.array(["dog", "cat", "cow"])[np.arange(36) % 3]
SITE = np.repeat(["a", "b", "c"], 12)


@pytest.fixture(scope="module")
def images() -> Pixels:
    """Three classes that differ in brightness."""
    rng = np.random.default_rng(0)
    dark = np.array([0, 80, 160])[np.arange(36) % 3, None, None, None]
    return Pixels.of((rng.integers(0, 60, (36, 3, 16, 16)) + dark).astype(np.uint8))


@pytest.fixture(scope="module")
def model(images) -> InvariantClassifier:
    return InvariantClassifier("rex", recipe=QUICK, features=ResNet(width=8)).fit(images, Y, environments=SITE)


def test_an_architecture_comes_back_with_the_model_bit_for_bit(model, images, tmp_path):
    save(model, tmp_path)
    again = load(tmp_path)
    p = model.predict_proba(images)
    assert np.unique(p).size > 36
    assert (again.predict_proba(images) == p).all()
    assert again.get_params() == model.get_params()
    assert again.input_shape_ == (3, 16, 16)
    text = (tmp_path / "README.md").read_text()
    assert "36 images of 16 × 16 pixels" in text
    assert "Pixels.of(X)" in text


def test_a_card_of_images_that_were_numbers_asks_for_numbers(images, tmp_path):
    numbers = floats(images[np.arange(36)]).numpy()
    model = InvariantClassifier("erm", recipe=QUICK, features=MLP(width=8)).fit(numbers, Y, environments=SITE)
    save(model, tmp_path)
    text = (tmp_path / "README.md").read_text()
    assert "model.predict(X)" in text
    assert "X holds numbers" in text


def test_the_same_training_gives_the_same_model_and_another_seed_another(model, images):
    again = clone(model).fit(images, Y, environments=SITE)
    assert again.fingerprint_ == model.fingerprint_
    assert (again.predict_proba(images) == model.predict_proba(images)).all()
    other = clone(model).set_params(random_state=1).fit(images, Y, environments=SITE)
    assert (other.predict_proba(images) != model.predict_proba(images)).any()


def test_bytes_are_numbers_between_0_and_1_that_nobody_shifts(images):
    linear = InvariantClassifier("erm", recipe=QUICK, features=MLP(width=8)).fit(images, Y, environments=SITE)
    standard = linear.module_.features[0]
    assert standard.mean.eq(0).all()
    assert standard.scale.eq(1).all()
    assert standard.mean.shape == (3, 1, 1)


def test_published_weights_are_not_looked_for_when_a_model_is_opened_elsewhere(model, images, tmp_path):
    published = tmp_path / "published.safetensors"
    save(model, tmp_path / "first")
    weights = {k.removeprefix("features.1."): v for k, v in model.module_.state_dict().items() if "features.1." in k}
    from safetensors.torch import save_file

    save_file(weights, published)
    features = ResNet(width=8, weights=str(published))
    tuned = InvariantClassifier("erm", recipe=QUICK, features=features).fit(images, Y, environments=SITE)
    save(tuned, tmp_path / "second")
    published.unlink()
    assert (load(tmp_path / "second").predict_proba(images) == tuned.predict_proba(images)).all()


def test_images_of_another_size_are_refused(model, images):
    with pytest.raises(BadValue, match=r"rows of shape \(3, 8, 8\); the model takes \(3, 16, 16\)"):
        model.predict(Pixels.of(np.zeros((2, 3, 8, 8), np.uint8)))
    with pytest.raises(BadValue, match="one value for each of the 36 rows"):
        clone(model).fit(images, Y[:5])
