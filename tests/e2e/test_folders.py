"""Folders of images from a practitioner's desk: the commands as they are used, on a few real images."""

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import save_file

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")

from invariance.core.inputs import Pixels
from invariance.core.model_folder import load
from invariance.data.images.image_files import read
from invariance.models.resnet import ResNet

CLASSES = ("dog", "house", "person")
KNOWN, UNSEEN = ("art_painting", "cartoon", "sketch"), ("photo",)
TINY = ("--image-size", "16", "--width", "8", "--epochs", "2")


def some(root: Path, folder: Path, domains: tuple[str, ...], each: int) -> Path:
    """A copy of the first images of every class in some domains of PACS."""
    for domain in domains:
        for name in CLASSES:
            (folder / domain / name).mkdir(parents=True)
            for file in sorted((root / domain / name).iterdir())[:each]:
                shutil.copy(file, folder / domain / name)
    return folder


def rows(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


class Practice:
    """Two folders of images, and the model that was fitted to one and tested on the other."""

    def __init__(self, pacs: Path, folder: Path, invariance: Callable) -> None:
        self.train, self.test = some(pacs, folder / "photos", KNOWN, 8), some(pacs, folder / "other", UNSEEN, 5)
        self.model = folder / "model"
        self.done = invariance("fit", self.train, "--test", self.test, *TINY, "-o", self.model, "--json")


@pytest.fixture(scope="module")
def practice(tmp_path_factory, invariance, given_folder) -> Practice:
    return Practice(given_folder("PACS"), tmp_path_factory.mktemp("practice"), invariance)


# Fit


def test_a_few_images_get_a_linear_model_of_edges(invariance, practice, tmp_path):
    model = tmp_path / "model"
    done = invariance("fit", practice.train, "--image-size", "32", "-o", model, "--json")
    assert done.code == 0, done.err
    assert any("the model is linear, of edges and a small grey image" in note for note in done.json["notes"])
    assert done.json["assessment"]["unit"] == "images"
    scores = {site["name"]: site["right"] for site in done.json["assessment"]["model"]["known"]}
    again = invariance("evaluate", model, practice.train, "--json").json["by_environment"]
    assert again == pytest.approx({name: 100 * share for name, share in scores.items()})


def test_features_of_published_weights_are_part_of_the_model(invariance, practice, tmp_path):
    network = ResNet().build((3, 32, 32), 2, seed=3)
    tensors = {**network.features.state_dict(), **{f"fc.{k}": v for k, v in network.head.state_dict().items()}}
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, tmp_path / "w.safetensors")
    options = ("--weights", tmp_path / "w.safetensors", "--method", "erm", "--no-report", "-o", tmp_path / "model")
    done = invariance("fit", practice.train, "--image-size", "32", *options)
    assert done.code == 0, done.err
    assert "edges" not in done.out
    (tmp_path / "w.safetensors").unlink()
    saved = load(tmp_path / "model").module_.features.state_dict()
    assert np.array_equal(saved["1.conv1.weight"], network.features.state_dict()["conv1.weight"])
    assert invariance("predict", tmp_path / "model", practice.test, "-o", tmp_path / "p.csv").code == 0


def test_domains_are_the_environments_and_every_one_is_left_out_in_turn(practice):
    plain = practice.done.json
    assessment = plain["assessment"]
    stages = ["leaving out one environment after another", "done"]
    assert [line.split(": ")[-1] for line in practice.done.err.splitlines()][1:] == stages
    assert plain["images"] == 3 * 3 * 8
    assert [site["name"] for site in assessment["model"]["new"]] == list(KNOWN)
    assert [(site["name"], site["rows"]) for site in assessment["model"]["test"]] == [("photo", 15)]
    assert assessment["classes"] == [[name, 24] for name in CLASSES]
    assert "ERM" in (plain["method"], assessment["rival"]["title"])
    assert assessment["model"]["leanings"] == []
    assert "images" in " ".join(plain["verdict"]["advice"])


def test_the_folder_holds_the_model_its_card_and_the_report(practice):
    files = {path.name for path in practice.model.iterdir()}
    assert files == {"manifest.json", "weights.safetensors", "README.md", "report.html"}
    assert "72 images of 16 × 16 pixels, 3 environments" in (practice.model / "README.md").read_text()
    text = (practice.model / "report.html").read_text()
    assert "Predicting the class of an image at new sites" in text
    assert "A single pixel means nothing by itself" in text
    assert 'id="importance"' not in text


def test_the_terminal_shows_what_there_is_and_what_was_learned(invariance, practice, tmp_path):
    shown = invariance("fit", practice.train, *TINY, "-o", tmp_path / "m", "--method", "rex", "--no-report")
    assert shown.code == 0, shown.err
    assert "photos: 72 images, 3 environments" in shown.out
    assert "dog 8, house 8, person 8" in shown.out
    assert "Method: REx." in shown.out


# Predict and evaluate


def test_every_image_however_deep_is_predicted_in_the_order_of_its_name(invariance, practice, tmp_path):
    new = tmp_path / "new"
    shutil.copytree(practice.test, new / "b" / "deep")
    shutil.copy(next((practice.test / "photo" / "dog").iterdir()), new / "a.jpg")
    (new / ".hidden").write_text("not an image")
    done = invariance("predict", practice.model, new, "-o", tmp_path / "p.csv")
    assert done.out == f"Predictions for 16 images: {tmp_path / 'p.csv'}\n"
    predictions = rows(tmp_path / "p.csv")
    assert list(predictions[0]) == ["file", "prediction", *(f"probability_{name}" for name in CLASSES)]
    names = [row["file"] for row in predictions]
    assert names == sorted(path.relative_to(new).as_posix() for path in new.rglob("*.jpg"))
    own = load(practice.model).predict_proba(Pixels.of(np.stack([read(new / name, 16) for name in names])))
    given = [[float(row[f"probability_{name}"]) for name in CLASSES] for row in predictions]
    assert given == [pytest.approx(p, abs=1e-5) for p in own.tolist()]
    assert [row["prediction"] for row in predictions] == [CLASSES[best] for best in own.argmax(1)]
    invariance("predict", practice.model, new / "a.jpg", "-o", tmp_path / "q.csv")
    (alone,) = rows(tmp_path / "q.csv")
    assert (alone["file"], alone["prediction"]) == ("a.jpg", predictions[0]["prediction"])


def test_predictions_agree_with_the_scores_of_evaluate_and_of_the_report(invariance, practice, tmp_path):
    invariance("predict", practice.model, practice.test, "-o", tmp_path / "p.csv")
    right = np.mean([row["prediction"] == row["file"].split("/")[1] for row in rows(tmp_path / "p.csv")])
    scores = invariance("evaluate", practice.model, practice.test, "--json").json
    assert scores["by_environment"] == {"photo": pytest.approx(100 * right)}
    assert (scores["unseen"], scores["images"]) == (["photo"], {"photo": 15})
    (site,) = practice.done.json["assessment"]["model"]["test"]
    assert site["right"] == pytest.approx(right)
    assert "not in training" in invariance("evaluate", practice.model, practice.test).out


# Files that hold no image


def test_broken_files_are_named_and_refused_or_left_out(invariance, practice, tmp_path):
    folder = tmp_path / "photos"
    shutil.copytree(practice.train, folder)
    (folder / "sketch" / "dog" / "torn.png").write_bytes(b"\x89PNG\r\n\x1a\n and no more")
    refused = invariance("fit", folder, *TINY, "-o", tmp_path / "m").error
    assert refused.startswith(f"{folder / 'sketch/dog/torn.png'} holds no readable image")
    assert refused.endswith("--broken skip")
    assert not (tmp_path / "m").exists()
    done = invariance(
        "fit", folder, *TINY, "-o", tmp_path / "m", "--broken", "skip", "--method", "erm", "--no-report", "--json"
    )
    assert done.json["images"] == 72
    assert done.json["notes"] == ["left out as not readable: sketch/dog/torn.png"]
    assert invariance("predict", practice.model, folder, "-o", tmp_path / "p.csv").error == refused
    assert not (tmp_path / "p.csv").exists()
    assert invariance("predict", tmp_path / "m", folder, "-o", tmp_path / "p.csv").code == 0  # as it was trained
    done = invariance("predict", practice.model, folder, "-o", tmp_path / "p.csv", "--broken", "skip", "--json")
    assert done.json["images"] == len(rows(tmp_path / "p.csv")) == 72
    assert "torn.png" in done.json["notes"][0]
    assert invariance("evaluate", practice.model, folder, "--broken", "skip", "--json").json["images"] == dict.fromkeys(
        KNOWN, 24
    )


# Runs in a store


def test_a_run_is_shown_and_removed_after_its_images_have_changed(invariance, practice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(practice.train, "photos")
    fields = ("data.path=photos", "data.image_size=8", "model.width=8", "recipe.epochs=1")
    ways = [part for field in fields for part in ("--set", field)]
    invariance("compare", "--data", "folder", "--methods", "irmv1", "--seeds", "1", "--workers", "1", *ways)
    next(Path("photos/sketch/dog").iterdir()).unlink()
    (summary,) = invariance("runs", "list", "--json").json
    assert invariance("runs", "show", summary["key"][:8], "--json").json["key"] == summary["key"]
    shown = invariance("runs", "show", summary["key"]).out
    assert "sketch" in shown
    assert "method.gamma = " in shown
    assert invariance("runs", "remove", summary["key"], "--yes").out == "removed 1 run from runs.db\n"


# Mistakes


@pytest.fixture(scope="module")
def desk(invariance, practice, tmp_path_factory) -> Path:
    """A folder with images, a table, and a model of each."""
    place = tmp_path_factory.mktemp("desk")
    (place / "photos").symlink_to(practice.train)
    (place / "saved").symlink_to(practice.model)
    (place / "flat" / "dog").mkdir(parents=True)
    shutil.copy(next((practice.train / "sketch" / "dog").iterdir()), place / "flat" / "dog" / "1.jpg")
    (place / "none").mkdir()
    lines = [f"{i % 7},{'ab'[i % 2]},{'yes' if i % 7 > 3 else 'no'}" for i in range(60)]
    (place / "table.csv").write_text("\n".join(["crp,site,sick", *lines]))
    fitted = invariance(
        "fit", place / "table.csv", "--label", "sick", "--method", "erm", "--no-report", "-o", place / "rows"
    )
    assert fitted.code == 0, fitted.err
    return place


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("fit photos --label dog", "photos is a folder of images, to which --label does not apply"),
        ("fit photos --environment site", "photos is a folder of images, to which --environment does not apply"),
        ("fit table.csv --width 8", "table.csv is a table, to which --width does not apply"),
        ("fit table.csv --weights w.pth", "table.csv is a table, to which --weights does not apply"),
        ("fit photos --weights w.pth", "there is no file w.pth to read weights from"),
        ("fit photos --weights w.pth --epochs 2", "features with --weights are not trained, to which --epochs does"),
        ("fit photos --test table.csv", "table.csv is not a folder"),
        ("fit photos --method irm1", "no method is called 'irm1'"),
        ("fit photos -o saved", "saved already holds a"),
        ("fit flat", "flat holds no images; expected folders domain/class/"),
        ("fit none", "none holds no images"),
        ("predict saved table.csv", "table.csv is not an image, and the model was fitted to images"),
        ("predict saved gone", "there is no file or folder gone"),
        ("predict saved none", "none and the folders below it hold no images"),
        ("predict rows photos", "photos is not a table, and the model was fitted to one"),
        ("predict rows flat/dog/1.jpg", "flat/dog/1.jpg is not a table"),
        (
            "predict rows table.csv --broken skip",
            "the model in rows was fitted to a table, to which --broken does not apply",
        ),
        ("evaluate saved table.csv", "table.csv is not a folder, and the model was fitted to images"),
        ("evaluate saved photos --environment site", "the environments of photos are its folders"),
        ("evaluate rows photos", "photos is not a table"),
        ("evaluate saved", "saved holds a model of your own data"),
    ],
)
def test_a_mistake_is_answered_in_one_line(invariance, desk, monkeypatch, arguments, message):
    monkeypatch.chdir(desk)
    assert invariance(*arguments.split()).error.startswith(message)


def test_one_domain_is_erm_and_another_method_is_refused(invariance, practice, tmp_path):
    done = invariance("fit", practice.test, *TINY, "-o", tmp_path / "m", "--no-report")
    assert done.code == 0, done.err
    assert "Method: ERM." in done.out
    refused = invariance("fit", practice.test, *TINY, "-o", tmp_path / "n", "--method", "rex").error
    assert refused.startswith("rex needs images of several environments")


@pytest.mark.parametrize("name", ["manifest.json", "weights.safetensors"])
def test_a_folder_that_was_changed_is_refused(invariance, practice, tmp_path, name):
    shutil.copytree(practice.model, tmp_path / "model")
    content = bytearray((tmp_path / "model" / name).read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "model" / name).write_bytes(content)
    assert invariance("predict", tmp_path / "model", practice.test, "-o", tmp_path / "p.csv").error.startswith(
        str(tmp_path / "model")
    )
