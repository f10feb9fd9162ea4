import json
import shutil
from itertools import combinations
from pathlib import Path

import pytest
import torch
from torch import Tensor

from invariance.core.environment import Benchmark, Environment
from invariance.core.errors import BadValue, DataError
from invariance.core.inputs import Pixels, loaded
from invariance.data import DATA
from invariance.data.colored_object import ColoredObject
from invariance.data.images.coco import objects
from invariance.experiments.run import execute
from invariance.experiments.spec import Spec

BETAS = (0.001, 0.3)
GREY, GREEN = (96, 96, 96), (0, 96, 0)
SMALL = {
    "folder": "eth80-coco",
    "super_classes": (("dog",), ("cow",)),
    "colours": ((255, 0, 0), (0, 0, 255)),
    "image_size": 8,
    "repeats": 1,
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(cache, monkeypatch) -> None:
    monkeypatch.setenv("INVARIANCE_CACHE", str(cache))


class Case:
    """ETH-80, loaded, beside what its annotations say of every picture."""

    def __init__(self, folder: Path, data: ColoredObject) -> None:
        self.data = data
        whole = json.loads((folder / "annotations/instances.json").read_text())
        names = {entry["id"]: entry["name"] for entry in whole["categories"]}
        self.entries = [(names[entry["category_id"]], entry["object"]) for entry in whole["annotations"]]
        files = [image["file_name"] for image in whole["images"]]
        assert files == sorted(files)
        assert [entry["image_id"] for entry in whole["annotations"]] == [image["id"] for image in whole["images"]]
        self.benchmark = data.load(seed=1)

    def objects(self, x: Pixels) -> set[str]:
        return {self.entries[place][1] for place in places(x)}

    def clean(self, x: Pixels) -> Tensor:
        return torch.tensor([self.entries[place][0] != "car" for place in places(x)])

    def each(self) -> list[tuple[Environment, float]]:
        parts = (self.benchmark.train, self.benchmark.validation)
        return [pair for part in parts for pair in zip(part, BETAS, strict=True)]


@pytest.fixture(scope="module")
def case(given_folder, cache) -> Case:
    folder = given_folder("eth80-coco")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INVARIANCE_CACHE", str(cache))
        return Case(folder, ColoredObject(folder="eth80-coco"))


def places(x: Pixels) -> list[int]:
    """Which images they are, whatever their look: their places in the file they are kept in."""
    return (x.rows % len(x.arrays[0])).tolist()


def parts(benchmark: Benchmark) -> list[set[int]]:
    """Which images train, validate and test."""
    train, validation = (
        {place for e in made for place in places(e.x)} for made in (benchmark.train, benchmark.validation)
    )
    return [train, validation, set(places(benchmark.mechanism.inputs[0]))]


def green(x: Pixels) -> Tensor:
    """Whether the background is green; it must be grey otherwise. Corners of these images are never covered."""
    corner = loaded(x)[:, :, 0, 0]
    is_green, is_grey = ((corner == torch.tensor(colour)).all(1) for colour in (GREEN, GREY))
    assert (is_green ^ is_grey).all()
    return is_green


def test_environments_are_balanced_and_have_the_sizes_asked_for(case):
    assert [len(e) for e in case.benchmark.train] == [4 * 738, 4 * 738]
    assert case.data.size() == (8 * 738, case.benchmark.input_shape)
    for environment in case.benchmark.train:
        assert case.clean(environment.x).sum() == 4 * 369
    for environment in case.benchmark.validation:
        assert (len(environment), case.clean(environment.x).sum()) == (246, 123)
    assert (len(case.benchmark.mechanism), case.benchmark.mechanism.t.sum()) == (738, 369)


def test_labels_are_wrong_as_often_as_alpha_says(case, assert_share):
    for environment, _ in case.each():
        assert_share(environment.y.bool() != case.clean(environment.x), 0.05)


def test_the_background_contradicts_the_noisy_label_as_often_as_beta_says(case, assert_share):
    for environment, beta in case.each():
        assert environment.name == f"β={beta}"
        assert_share(green(environment.x) != environment.y.bool(), beta)


def test_other_noise_and_bias_are_drawn(case, assert_share):
    benchmark = ColoredObject(folder="eth80-coco", alpha=0.25, betas=(0.1, 0.5, 0.9)).load(seed=0)
    for environment, beta in zip(benchmark.train, (0.1, 0.5, 0.9), strict=True):
        y, t = environment.y.bool(), case.clean(environment.x)
        assert_share(y != t, 0.25)
        assert_share(green(environment.x) != y, beta)
        assert_share((green(environment.x) != y)[y != t], beta)


def test_no_image_and_no_physical_object_has_two_purposes(case):
    benchmark = case.benchmark
    things = [
        set.union(*(case.objects(e.x) for e in benchmark.train)),
        set.union(*(case.objects(e.x) for e in benchmark.validation)),
        case.objects(benchmark.mechanism.inputs[0]),
    ]
    assert [len(part) for part in things] == [24, 4, 12]
    assert not any(a & b for a, b in combinations(things, 2))
    assert [len(part) for part in parts(benchmark)] == [24 * 41, 4 * 41, 12 * 41]
    assert not any(a & b for a, b in combinations(parts(benchmark), 2))


def test_the_two_looks_of_a_test_image_differ_in_the_background_alone(case):
    off, on = (loaded(x) for x in case.benchmark.mechanism.inputs)
    assert not green(off).any()
    assert green(on).all()
    blank = loaded(case.data.load(seed=1, oracle=True).mechanism.inputs[0])
    same = (off == on).all(1)  # where the object covers a pixel whole
    seen, bare = (x.permute(0, 2, 3, 1)[same].int() for x in (off, blank))
    assert (seen - bare).abs().max() <= 1
    assert 0.05 < same.double().mean() < 0.5


def test_an_oracle_sees_the_same_images_on_black(case):
    blind = case.data.load(seed=1, oracle=True)
    assert torch.equal(*(loaded(x) for x in blind.mechanism.inputs))
    for plain, (seen, _) in zip((*blind.train, *blind.validation), case.each(), strict=True):
        assert places(plain.x) == places(seen.x)
        assert torch.equal(plain.y, seen.y)
        assert not loaded(plain.x)[:, :, 0, 0].any()


def test_an_image_trains_as_often_as_asked_with_other_noise_each_time(case, assert_share):
    wrong: dict[int, list[bool]] = {}
    for environment in case.benchmark.train:
        odd = environment.y.bool() != case.clean(environment.x)
        for place, flag in zip(places(environment.x), odd.tolist(), strict=True):
            wrong.setdefault(place, []).append(flag)
    cars, animals = (
        [flags for place, flags in wrong.items() if (case.entries[place][0] == "car") == is_car]
        for is_car in (True, False)
    )
    assert {len(flags) for flags in cars} == {12}
    assert {len(flags) for flags in animals} == {4}
    mixed = torch.tensor([len(set(flags)) == 2 for flags in animals])
    assert_share(mixed, 1 - 0.95**4 - 0.05**4)


def test_a_seed_decides_everything(case):
    again, other = (case.data.load(seed) for seed in (1, 2))
    for a, b, c in zip(again.train, case.benchmark.train, other.train, strict=True):
        assert torch.equal(loaded(a.x), loaded(b.x))
        assert torch.equal(a.y, b.y)
        assert case.objects(a.x) != case.objects(c.x)


def test_super_classes_colours_and_size_may_be_others(given_folder):
    given_folder("eth80-coco")
    agree, oppose = ColoredObject(**SMALL, alpha=0.0, betas=(0.0, 1.0)).load(seed=0).train
    assert agree.x.shape[1:] == (3, 8, 8)
    assert len(agree) == 246  # six objects of either class, in two environments
    assert torch.equal(loaded(agree.x)[:, 0, 0, 0] == 255, agree.y == 0)
    assert torch.equal(loaded(oppose.x)[:, 0, 0, 0] == 255, oppose.y == 1)


def test_a_least_area_leaves_small_objects_out(given_folder):
    given_folder("eth80-coco")
    assert 0 < len(ColoredObject(**SMALL, min_area=2000).load(seed=0).train[0]) < 246
    with pytest.raises(DataError, match="too few images of dog"):
        ColoredObject(**SMALL, min_area=1e6).load(seed=0)


def test_the_sliver_of_coco_has_the_literatures_classes(given_folder):
    given_folder("coco")
    benchmark: Benchmark = ColoredObject(image_size=16).load(seed=0)
    assert benchmark.input_shape == (3, 16, 16)
    assert abs(len(benchmark.train[0]) - len(benchmark.train[1])) <= 2
    assert benchmark.mechanism.t.double().mean() == 0.5
    assert not any(a & b for a, b in combinations(parts(benchmark), 2))
    assert len(set.union(*parts(benchmark))) == len(benchmark.train[0].x.arrays[0])  # fewer than the literature's most


def test_the_source_says_how_much_of_it_is_here(given_folder, tmp_path, monkeypatch):
    given_folder("coco")
    given_folder("eth80-coco")
    assert ColoredObject(folder="eth80-coco").availability().here == "complete"
    partial = ColoredObject().availability()
    assert partial.here == "partial"
    assert "59 of 118287 images" in partial.about
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path))
    assert ColoredObject().availability().here == "missing"
    assert ColoredObject().fingerprint() == "missing"
    with pytest.raises(DataError, match="no folder coco"):
        ColoredObject().load(seed=0)


def test_a_broken_image_is_named_or_left_out(given_folder, tmp_path, monkeypatch):
    shutil.copytree(given_folder("coco"), copy := tmp_path / "coco")
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path))
    whole = ColoredObject(image_size=16).load(seed=0)
    first = copy / "train2017" / objects(copy / "annotations/instances_train2017.json", ("bus",), 10_000)[0].file
    first.chmod(0o644)
    content = first.read_bytes()
    first.write_bytes(content[:500])
    with pytest.raises(DataError, match=first.name):
        ColoredObject(image_size=16).load(seed=0)
    fewer = ColoredObject(image_size=16, broken="skip").load(seed=0)
    first.write_bytes(content)
    ColoredObject(image_size=16).load(seed=0)
    first.write_bytes(bytes(len(content)))  # as large as before
    with pytest.raises(DataError, match=first.name):
        ColoredObject(image_size=16).load(seed=0)
    assert len(set.union(*parts(whole))) - len(set.union(*parts(fewer))) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"folder": "imagenet"},
        {"colours": [[0, 0, 0]]},
        {"colours": [[0, 0, 300], [0, 0, 0]]},
        {"min_area": -1},
        {"super_classes": [["dog"], ["cow", "dog"]]},
    ],
)
def test_what_is_no_construction_is_refused(fields):
    with pytest.raises(BadValue, match=next(iter(fields))):
        DATA.create("colored-object", fields)


def test_a_model_trains(given_folder):
    given_folder("eth80-coco")
    changes = {
        "data": SMALL,
        "model": {"width": 8},
        "recipe": {"epochs": 1},
        "evaluation": {"checkpoints": 1},
    }
    run = execute(Spec.of("colored-object", "rex", "short", changes=changes)).run
    scores = run.history[-1].test
    assert run.status in ("finished", "collapsed")
    assert scores.gap == pytest.approx(0.9 * abs(scores.agree - scores.oppose))
