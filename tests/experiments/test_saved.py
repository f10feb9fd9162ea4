import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from invariance.core.errors import BadValue, DataError, InvarianceError
from invariance.core.model_folder import MANIFEST, WEIGHTS, claim, seal
from invariance.evaluation.scores import evaluate, outputs
from invariance.experiments.run import Executed, execute
from invariance.experiments.saved import load, save
from invariance.experiments.spec import Spec
from invariance.methods import METHODS
from invariance.models.mlp import MLP
from invariance.models.resnet import ResNet

VARIANTS = {name: {} for name in METHODS.classes} | {
    "fishr with a moving average": {"ema": 0.9},
    "bloc-irm with Adam": {"inner_optimiser": "adam"},
    "irm-game that stops": {"stop_below": 0.99},
}


def train(method: str = "erm", average: float = 0.0, **objective) -> Executed:
    changes = {"data": {"samples": 200, "betas": [0.1, 0.2, 0.3]}, "method": objective}
    changes["recipe"] = {"epochs": 4, "batch_size": 150, "average": average}
    return execute(Spec.of("two-bit", method, "short", 2, changes))


@pytest.fixture
def folder(tmp_path) -> Path:
    """A saved run."""
    claim(tmp_path / "run")
    save(train(), tmp_path / "run")
    return tmp_path / "run"


def one_line(caught: pytest.ExceptionInfo[InvarianceError]) -> str:
    assert "\n" not in str(caught.value)
    return str(caught.value)


# There and back


@pytest.mark.parametrize("average", [0.0, 0.5])
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_loaded_model_gives_the_same_bits(tmp_path, variant, average):
    executed = train(variant.split()[0], average, **VARIANTS[variant])
    save(executed, tmp_path)
    run, model, benchmark = load(tmp_path)
    assert run == executed.run
    assert not model.training
    for x in benchmark.mechanism.inputs:
        f = outputs(executed.model, x)
        assert f.unique().numel() > 1
        assert torch.equal(outputs(model, x), f)
    assert evaluate(model, benchmark) == run.history[-1].test


def test_a_model_that_started_from_a_file_opens_without_it(tmp_path):
    fresh = ResNet(width=8).build((2, 8, 8), 1)
    weights = fresh.features.state_dict() | {"fc.weight": fresh.head.weight, "fc.bias": fresh.head.bias}
    torch.save(weights, file := tmp_path / "weights.pth")
    changes = {"data": {"draws": 20}, "model": {"name": "resnet", "width": 8, "weights": str(file)}}
    changes |= {"recipe": {"epochs": 1}, "evaluation": {"checkpoints": 1}}
    executed = execute(Spec.of("colored-digits", "erm", "short", changes=changes))
    save(executed, tmp_path / "run")
    file.unlink()
    run, model, benchmark = load(tmp_path / "run")
    assert run == executed.run
    assert run.spec.key == executed.run.spec.key
    assert evaluate(model, benchmark) == run.history[-1].test


def test_a_run_that_diverged_can_be_saved_and_loaded(tmp_path):
    changes = {"data": {"samples": 50}, "recipe": {"lr": 1e30, "step": "sgd", "epochs": 20}}
    executed = execute(Spec.of("two-bit", "erm", "short", changes=changes))
    save(executed, tmp_path)
    assert load(tmp_path)[0] == executed.run
    assert executed.run.status == "diverged"


def test_the_manifest_says_what_decided_the_run(folder):
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    assert manifest["run"]["spec"]["objective"]["name"] == "erm"
    assert manifest["environments"] == [{"name": f"β={beta}", "samples": 200} for beta in (0.1, 0.2, 0.3)]
    assert set(manifest["versions"]) == {"python", "invariance", "torch", "numpy", "scikit-learn"}
    assert set(load_file(folder / WEIGHTS)) == set(train().model.state_dict())


def test_nothing_but_weights_and_manifest_is_left(folder):
    assert {path.name for path in folder.iterdir()} == {WEIGHTS, MANIFEST}


# Where to


def test_a_folder_that_holds_a_run_is_not_claimed_unless_asked(folder):
    with pytest.raises(BadValue) as caught:
        claim(folder)
    message = one_line(caught)
    assert message.startswith(f"{folder} already holds a model")
    assert "--overwrite" in message
    claim(folder, overwrite=True)
    save(train("rex"), folder)
    assert load(folder)[0].spec.method_name == "rex"


@pytest.mark.parametrize("place", ["file", "file/below", "file/far/below"])
def test_a_folder_that_cannot_be_made_is_refused_before_training(tmp_path, place):
    (tmp_path / "file").touch()
    with pytest.raises(BadValue) as caught:
        claim(tmp_path / place)
    message = one_line(caught)
    assert message.startswith(f"cannot write to {tmp_path / place}: ")
    assert "-o" in message


def test_a_folder_is_made_with_those_above_it_when_there_is_something_to_save(tmp_path):
    folder = tmp_path / "a" / "b" / "c"
    claim(folder)
    assert not (tmp_path / "a").exists()
    save(train(), folder)
    assert load(folder)[0].status


def test_a_full_disk_is_one_line_and_the_run_that_was_there_stays(small_disk):
    folder = small_disk / "run"
    first = train()
    save(first, folder)
    wide = execute(replace(first.run.spec, model=MLP(width=300)))
    with pytest.raises(InvarianceError) as caught:
        save(wide, folder)
    assert "No space left" in one_line(caught)
    assert str(folder) in one_line(caught)
    assert load(folder)[0] == first.run
    assert {path.name for path in folder.iterdir()} == {WEIGHTS, MANIFEST}


# Damage


def test_a_folder_without_a_run_says_what_to_give(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DataError) as caught:
            load(place)
        message = one_line(caught)
        assert message.startswith(f"{place} holds no manifest.json")
        assert "invariance train" in message


def edit(*path: str | int, value: object) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        plain = json.loads(content)
        place = plain
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        return json.dumps(plain).encode()

    return change


DAMAGED = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "not text": lambda content: b"\xff\xfe" + content,
    "a list": lambda content: b"[]",
    "a number": lambda content: b"3",
    "nothing in it": lambda content: b"{}",
    "run is a list": edit("run", value=[]),
    "run is null": edit("run", value=None),
    "spec is a string": edit("run", "spec", value="erm"),
    "recipe is a list": edit("run", "spec", "recipe", value=[]),
    "name is a number": edit("run", "spec", "data", "name", value=3),
    "method is unknown": edit("run", "spec", "objective", "name", value="irmv7"),
    "field is unknown": edit("run", "spec", "objective", "gama", value=1),
    "value is wrong": edit("run", "spec", "recipe", "lr", value=-1),
    "seed is text": edit("run", "spec", "seed", value="first"),
    "history is wrong": edit("run", "history", value=[{"step": "x"}]),
    "evaluation is a number": edit("run", "spec", "evaluation", value=3),
    "evaluation is unknown": edit("run", "spec", "evaluation", value={"checkpoint": 3}),
    "landscape is a number": edit("run", "landscape", value=3),
    "another width": edit("run", "spec", "model", "width", value=3),
    "another model": edit("run", "spec", "model", value={"name": "linear"}),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_manifest_is_one_line(folder, damage):
    path = folder / MANIFEST
    path.write_bytes(DAMAGED[damage](path.read_bytes()))
    with pytest.raises(InvarianceError) as caught:
        load(folder)
    assert one_line(caught)
    assert str(folder) in one_line(caught)


@pytest.mark.parametrize("damage", [name for name in DAMAGED if name not in ("empty", "truncated", "not text")])
def test_a_sealed_manifest_that_makes_no_sense_is_one_line(folder, damage):
    path = folder / MANIFEST
    content = json.loads(DAMAGED[damage](path.read_bytes()))
    if isinstance(content, dict):
        content.pop("seal", None)
        content |= {"seal": seal(content)}
    path.write_text(json.dumps(content))
    with pytest.raises(InvarianceError) as caught:
        load(folder)
    assert one_line(caught)


@pytest.mark.parametrize("damage", ["empty", "truncated", "not text"])
def test_damaged_weights_are_one_line_that_names_the_folder(folder, damage):
    path = folder / WEIGHTS
    path.write_bytes(DAMAGED[damage](path.read_bytes()))
    with pytest.raises(DataError) as caught:
        load(folder)
    assert one_line(caught).startswith(f"{folder / WEIGHTS} is not as it was written")


def test_missing_weights_are_one_line(folder):
    (folder / WEIGHTS).unlink()
    with pytest.raises(DataError) as caught:
        load(folder)
    assert one_line(caught).startswith(f"{folder} holds no readable model")
