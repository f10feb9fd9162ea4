import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from invariance.core.errors import BadValue
from invariance.core.inputs import Pixels
from invariance.core.rows import Rows
from invariance.estimators.saved import read, save
from invariance.fitting.frozen_features import embedded, linear_classifier, of_images
from invariance.models.edges import Edges
from invariance.models.resnet import ResNet

QUICK = {"epochs": 20, "l2_scale": 10.0}
SHAPE = (3, 16, 16)


@pytest.fixture(scope="module")
def stripes():
    """Two domains of images with stripes across or down, which are the classes; one domain is darker."""
    random = np.random.default_rng(0)
    bytes_ = random.integers(0, 60, (40, *SHAPE), dtype=np.uint8)
    across = np.arange(40) % 2 == 0
    bytes_[across, :, ::4] += 100
    bytes_[~across, :, :, ::4] += 100
    bytes_[20:] //= 2
    labels = np.where(across, "across", "down").astype(object)
    return Rows(Pixels.of(bytes_), labels, np.repeat([0, 1], 20), np.array(["a", "b"], dtype=object))


def test_edges_know_directions_and_not_brightness():
    features = Edges(cells=1, directions=2).build(SHAPE, 1).features
    across, down = torch.zeros(1, *SHAPE), torch.zeros(1, *SHAPE)
    across[:, :, ::4], down[:, :, :, ::4] = 1.0, 1.0
    z, dark = features(torch.cat([across, down]))[:, 1:], features(0.5 * across)[:, 1:]
    assert z[0].argmax() != z[1].argmax()
    assert dark[0] == pytest.approx(z[0], abs=0.1)
    assert not features(torch.full((1, *SHAPE), 0.7))[:, 1:].any()


def test_features_have_the_width_that_the_head_takes():
    model = Edges(cells=3, directions=5).build(SHAPE, 2)
    assert model(torch.rand(4, *SHAPE)).shape == (4, 2)


@pytest.mark.parametrize("method", ["erm", "irmv0", "fishr"])
def test_the_model_of_images_is_the_model_of_their_features(stripes, method, tmp_path):
    rows = embedded(stripes, Edges())
    assert rows.unit == rows.take(rows.codes == 0).unit == "images"
    linear = linear_classifier(0).set_params(method=method, recipe=QUICK).fit_rows(rows)
    whole = of_images(linear, Edges(), SHAPE)
    assert whole.predict_rows(stripes.x) == pytest.approx(linear.predict_rows(rows.x), abs=1e-5)
    save(whole, tmp_path / "model")
    again = read(tmp_path / "model").estimator
    assert np.array_equal(again.predict_rows(stripes.x), whole.predict_rows(stripes.x))


def test_a_linear_model_of_edges_learns_stripes_in_both_domains(stripes):
    model = linear_classifier(0).set_params(method="erm").fit_rows(embedded(stripes, Edges()))
    assert model.scores_.worst == 1


def test_published_weights_are_saved_with_the_model(stripes, tmp_path):
    network = ResNet(width=8).build(SHAPE, 2, seed=5)
    tensors = {**network.features.state_dict(), **{f"fc.{k}": v for k, v in network.head.state_dict().items()}}
    save_file({k: v.contiguous() for k, v in tensors.items()}, tmp_path / "weights.safetensors")
    published = ResNet(width=8, weights=str(tmp_path / "weights.safetensors"))
    rows = embedded(stripes, published)
    network.eval()
    with torch.no_grad():
        assert torch.allclose(torch.from_numpy(rows.x), network.represent(stripes.x), atol=1e-5)
    linear = linear_classifier(0).set_params(method="erm", recipe=QUICK).fit_rows(rows)
    whole = of_images(linear, published, SHAPE)
    save(whole, tmp_path / "model")
    (tmp_path / "weights.safetensors").unlink()
    again = read(tmp_path / "model").estimator
    assert again.predict_rows(stripes.x) == pytest.approx(linear.predict_rows(rows.x), abs=1e-4)


def test_a_method_that_masks_the_last_layer_is_refused(stripes):
    linear = linear_classifier(0).set_params(method="sparse-irm", recipe=QUICK).fit_rows(embedded(stripes, Edges()))
    with pytest.raises(BadValue, match="SparseIRM changes the last layer"):
        of_images(linear, Edges(), SHAPE)


def test_features_are_not_trained(stripes):
    linear = linear_classifier(0).set_params(method="erm", recipe=QUICK).fit_rows(embedded(stripes, Edges()))
    assert [type(part) for part in linear.module_.features if list(part.parameters())] == []
    assert isinstance(linear.module_.head, nn.Linear)
