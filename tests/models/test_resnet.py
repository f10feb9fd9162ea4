"""ResNet-18: its names, its weights from files."""

import pickle
import subprocess
import sys
from random import Random

import pytest
import torch
from safetensors.torch import save_file

from invariance.core.errors import BadValue, DataError
from invariance.models.resnet import ResNet, read

SMALL = ResNet(width=8)


def published(width: int = 8, outputs: int = 5, channels: int = 3) -> dict[str, torch.Tensor]:
    """Random weights under torchvision's names, written down from its documentation of the architecture."""
    random = torch.Generator().manual_seed(0)
    shapes = {"conv1.weight": (width, channels, 7, 7), "fc.weight": (outputs, 8 * width), "fc.bias": (outputs,)}
    norms = {"bn1": width}
    inputs = width
    for layer in range(1, 5):
        size = width * 2 ** (layer - 1)
        for block in range(2):
            here = f"layer{layer}.{block}"
            shapes |= {f"{here}.conv1.weight": (size, inputs, 3, 3), f"{here}.conv2.weight": (size, size, 3, 3)}
            norms |= {f"{here}.bn1": size, f"{here}.bn2": size}
            if inputs != size:
                shapes[f"{here}.downsample.0.weight"] = (size, inputs, 1, 1)
                norms[f"{here}.downsample.1"] = size
            inputs = size
    for name, size in norms.items():
        shapes |= {f"{name}.{part}": (size,) for part in ("weight", "bias", "running_mean", "running_var")}
    tensors = {name: torch.rand(shape, generator=random) for name, shape in shapes.items()}
    return tensors | {f"{name}.num_batches_tracked": torch.tensor(7) for name in norms}


def names(model) -> set[str]:
    return {name.removeprefix("features.").replace("head.", "fc.") for name in model.state_dict()}


def test_parts_are_called_as_torchvision_calls_them_and_there_are_as_many_weights():
    model = ResNet().build((3, 32, 32), 1000)
    assert names(model) == published().keys()
    assert sum(p.numel() for p in model.parameters()) == 11_689_512
    shapes = {k.removeprefix("features.").replace("head.", "fc."): v.shape for k, v in model.state_dict().items()}
    assert shapes == {name: tensor.shape for name, tensor in published(64, 1000).items()}


@pytest.mark.parametrize("ending", [".safetensors", ".pth"])
def test_published_weights_load_from_a_file(tmp_path, ending):
    path, weights = tmp_path / f"resnet18{ending}", published()
    (save_file if ending == ".safetensors" else torch.save)(weights, path)
    model = ResNet(width=8, weights=str(path)).build((3, 16, 16), 5)
    loaded = {k.removeprefix("features.").replace("head.", "fc."): v for k, v in model.state_dict().items()}
    assert all(torch.equal(loaded[name], weights[name]) for name in weights)


def test_a_last_layer_for_other_classes_starts_afresh_and_the_rest_is_loaded(tmp_path):
    save_file(published(outputs=1000), path := tmp_path / "weights.safetensors")
    model = ResNet(width=8, weights=str(path)).build((3, 16, 16), 7, seed=3)
    assert torch.equal(model.head.weight, SMALL.build((3, 16, 16), 7, seed=3).head.weight)
    assert torch.equal(model.features.get_parameter("conv1.weight"), published()["conv1.weight"])


def test_weights_that_count_no_batches_load_too(tmp_path):
    weights = {name: tensor for name, tensor in published().items() if not name.endswith("num_batches_tracked")}
    save_file(weights, path := tmp_path / "weights.safetensors")
    model = ResNet(width=8, weights=str(path)).build((3, 16, 16), 5)
    assert torch.equal(model.features.get_buffer("bn1.running_var"), weights["bn1.running_var"])
    assert model.features.get_buffer("bn1.num_batches_tracked") == 0


@pytest.mark.parametrize(
    ("architecture", "shape", "message"),
    [
        ({"stem": "small"}, (3, 16, 16), r"conv1.weight has shape \(8, 3, 7, 7\), expected \(8, 3, 3, 3\)"),
        ({"norm": "group"}, (1, 16, 16), r"conv1.weight has shape .* three channels"),
        ({"width": 16}, (3, 16, 16), "conv1.weight has shape"),
    ],
)
def test_weights_of_another_architecture_are_refused_in_one_line(tmp_path, architecture, shape, message):
    save_file(published(), path := tmp_path / "weights.safetensors")
    with pytest.raises(DataError, match=message):
        ResNet(**{"width": 8, "weights": str(path), **architecture}).build(shape, 5)


@pytest.mark.parametrize(
    ("norm", "more", "message"),
    [
        ("batch", {"layer1.2.conv1.weight": torch.ones(8, 8, 3, 3)}, r"layer1\.2\.conv1\.weight; give .* a ResNet-18$"),
        ("group", {}, r"running_\w+; set model\.norm=batch$"),
        ("batch", {"bn1.weight": torch.full((8,), torch.nan)}, r"bn1\.weight holds numbers that are not finite"),
        ("batch", {"bn1.weight": torch.full((8,), 1e300, dtype=torch.double)}, r"bn1\.weight .* not finite"),
    ],
    ids=["a ResNet-34", "batch statistics", "NaN", "infinite in single precision"],
)
def test_weights_that_would_load_in_part_or_spoil_a_run_are_refused(tmp_path, norm, more, message):
    save_file(published() | more, path := tmp_path / "weights.safetensors")
    with pytest.raises(DataError, match=message):
        ResNet(width=8, norm=norm, weights=str(path)).build((3, 16, 16), 5)


def test_a_last_layer_of_another_make_is_no_reason_to_refuse_the_rest(tmp_path):
    save_file(published() | {"fc.1.weight": torch.ones(2)}, path := tmp_path / "weights.safetensors")
    assert ResNet(width=8, weights=str(path)).build((3, 16, 16), 5)


def test_a_tilde_is_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    torch.save(published(), tmp_path / "x.pth")
    model = ResNet(width=8, weights="~/x.pth").build((3, 16, 16), 5)
    assert torch.equal(model.head.weight, published()["fc.weight"])
    with pytest.raises(DataError, match="there is no file ~nobody-here"):
        ResNet(width=8, weights="~nobody-here/x.pth").build((3, 16, 16), 5)


class Evil:
    def __reduce__(self):
        return (exec, ("raise SystemExit('a weights file was executed')",))


def test_a_file_that_is_not_weights_is_refused_and_nothing_in_it_is_run(tmp_path):
    (tmp_path / "evil.pth").write_bytes(pickle.dumps(Evil(), protocol=2))
    (tmp_path / "text.safetensors").write_text("weights")
    torch.save([1, 2, 3], tmp_path / "list.pth")
    torch.save({1: torch.ones(2)}, tmp_path / "numbers.pth")
    (tmp_path / "empty.pth").touch()
    (tmp_path / "text.pth").write_text("hello world, this is text")
    for name, message in (
        ("evil.pth", "holds more than tensors and is not opened; save the state dict alone"),
        ("empty.pth", "holds no weights that can be read"),
        ("text.pth", "holds no weights that can be read"),
        ("text.safetensors", "holds no weights that can be read"),
        ("list.pth", "holds no named tensors"),
        ("numbers.pth", "holds no named tensors"),
        ("none.pth", "there is no file"),
    ):
        with pytest.raises(DataError, match=message) as error:
            ResNet(width=8, weights=str(tmp_path / name)).build((3, 16, 16), 5)
        assert "\n" not in str(error.value)
        assert "weights_only" not in str(error.value)


def test_any_bytes_that_are_no_weights_are_refused(tmp_path):
    random = Random(0)
    for _ in range(150):
        (path := tmp_path / "bytes.pth").write_bytes(random.randbytes(random.randrange(300)))
        with pytest.raises(DataError, match=" holds "):
            read(path)


def test_the_seed_decides_the_weights_and_the_global_generator_nothing():
    first, again, other = (SMALL.build((3, 16, 16), 2, seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["features.conv1.weight"], other["features.conv1.weight"])


@pytest.mark.parametrize(("stem", "rows"), [("imagenet", 4), ("small", 8)])
def test_a_small_stem_keeps_twice_the_resolution(stem, rows):
    model = ResNet(width=8, stem=stem).build((3, 16, 16), 2).eval()
    seen = []
    model.features.get_submodule("layer1").register_forward_hook(lambda *call: seen.append(call[-1].shape))
    assert model(torch.zeros(2, 3, 16, 16)).shape == (2, 2)
    assert seen == [(2, 8, rows, rows)]


def test_images_are_normalised_as_imagenets_in_the_model():
    features = SMALL.build((3, 16, 16), 2).features
    grey = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1).expand(1, 3, 16, 16)
    seen = []
    features.get_submodule("conv1").register_forward_hook(lambda *call: seen.append(call[1][0]))
    features(torch.cat([grey, grey + 0.229]))
    assert seen[0][0].abs().max() < 1e-6
    assert seen[0][1, 0].mean().item() == pytest.approx(1, abs=1e-5)


def test_group_normalisation_treats_every_image_by_itself_and_batch_normalisation_does_not():
    x = torch.rand(6, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    for norm, alone in (("group", True), ("batch", False)):
        model = ResNet(width=8, norm=norm).build((3, 16, 16), 2).train()
        assert torch.allclose(model(x)[:3], model(x[:3]), atol=1e-5) == alone


def test_a_resnet_takes_images():
    with pytest.raises(BadValue, match=r"takes images .* got inputs of shape \(7,\)"):
        ResNet().build((7,), 2)


NARROW = """
import torch
from invariance import Bernoulli, Environment, IRMv1, ResNet, recipe, train

torch.set_num_threads(1)
random = torch.Generator().manual_seed(0)
images = [torch.rand(32, 3, 32, 32, generator=random) for _ in range(2)]
environments = [Environment(name, x, torch.arange(32) % 2) for name, x in zip("ab", images)]
how = recipe("short", changes={"epochs": 5, "batch_size": 64})
for width in range(1, 9):
    model = ResNet(stem="small", width=width).build((3, 32, 32), 1)
    *_, last = train(model, IRMv1(gamma=1), environments, how, family=Bernoulli())
    print(width, last.step, all(p.isfinite().all() for p in model.parameters()), flush=True)
"""


def test_the_narrowest_networks_train_without_harm_to_the_process():
    """A process of its own: in the channels-last layout these widths corrupt memory on processors without AVX-512."""
    done = subprocess.run([sys.executable, "-c", NARROW], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [f"{width} 5 True" for width in range(1, 9)]


@pytest.mark.parametrize(("width", "last"), [(7, False), (8, True), (64, True)])
def test_images_are_laid_out_channels_last_from_eight_channels_on(width, last):
    features = ResNet(width=width).build((3, 16, 16), 2).features
    seen = []
    features.get_submodule("conv1").register_forward_hook(lambda *call: seen.append(call[1][0]))
    features(torch.rand(2, 3, 16, 16))
    assert seen[0].is_contiguous(memory_format=torch.channels_last) == last
