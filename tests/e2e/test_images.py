"""Every data set of images in the paper × every method, from the real files to scores, at the size of a smoke test."""

import json
import os
from pathlib import Path

import pytest
from PIL import Image

from invariance.core.errors import BadValue
from invariance.data import DATA
from invariance.experiments.run import execute, load_benchmark
from invariance.experiments.spec import Spec
from invariance.methods import METHODS
from invariance.studies import STUDIES
from invariance.studies.support.base import arm

FOLDERS = {
    "celeba": ["celeba"],
    "cifar-mnist": ["cifar-10-batches-bin", "mnist"],
    "colored-object": ["coco"],
    "pacs": ["PACS"],
    "vlcs": ["VLCS"],
}
"""Those of the paper, and the folders that they need."""
SHORT = {"recipe": {"epochs": 1}, "evaluation": {"checkpoints": 1, "train_rows": 40}}
every_set = pytest.mark.parametrize("data", FOLDERS)


def complaint(data: str) -> str:
    """Why a data set cannot be used here, if it cannot."""
    place = Path(os.environ.get("INVARIANCE_DATA") or "/nowhere")
    missing = [name for name in FOLDERS[data] if not (place / name).is_dir()]
    return f"needs the data {' and '.join(missing)}: 'invariance data check' says where to get them" if missing else ""


def spec(data: str, method: str) -> Spec:
    return Spec.of(data, method, "small-batch", 0, {**DATA[data].smaller["tiny"], **SHORT})


@every_set
@pytest.mark.parametrize("method", METHODS.classes)
def test_every_method_trains_and_is_evaluated_on_every_data_set(data, method):
    if complaint(data):
        pytest.skip(complaint(data))
    if METHODS[method].oracle and data in ("celeba", "pacs", "vlcs"):
        with pytest.raises(BadValue, match="there is no oracle"):
            execute(spec(data, method))
        return
    run = execute(spec(data, method)).run
    assert run.status in ("finished", "collapsed"), run.reason
    (only,) = run.history
    tested = {"pacs": 4, "vlcs": 3}.get(data, 19)
    assert len(only.test.by_environment) == tested
    values = [value for scores in (only.train, only.validation, only.test) for value in scores.by_environment.values()]
    assert all(0 <= value <= 1 for value in values)
    assert (only.test.agree is None) == (data in ("pacs", "vlcs"))
    assert only.diagnostics.feature_norm > 0


@every_set
def test_a_study_makes_a_data_set_small_enough_or_waits_for_it(data, tmp_path, monkeypatch):
    title = DATA[data].title
    if not complaint(data):
        found = arm("smoke", "ERM", title, "small batch", "small-batch")
        assert found.spec is not None
        assert found.spec.data == DATA.create(data, DATA[data].smaller["tiny"]["data"])
        assert arm("full", "ERM", title, "small batch", "small-batch").spec.data == DATA.create(data)
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path))
    if not DATA[data].files:  # which are fetched
        waiting = arm("full", "ERM", title, "small batch", "small-batch")
        assert waiting.waits.startswith(f"waits for {title}: there is no folder")


def test_tables_of_the_paper_ask_for_all_of_them():
    for study in ("table-5", "table-a1"):
        asked = {a.data.lower() for a in STUDIES[study]().arms("smoke")}
        assert set(FOLDERS) <= asked


@every_set
def test_the_paper_trains_a_resnet_by_its_own_protocol(data):
    how = Spec.of(data, "irmv1", "small-batch").recipe
    assert (how.batch_size, how.epochs, how.lr, how.warmup) == (256, 200, 0.1, 0.25)
    assert (how.step.kind, how.schedule.kind, how.schedule.at) == ("sgd", "steps", (0.5, 0.75))
    assert type(DATA[data].architecture).__name__ == "ResNet"


@every_set
def test_a_picture_shows_every_environment(data, tmp_path, monkeypatch, invariance):
    if complaint(data):
        pytest.skip(complaint(data))
    monkeypatch.chdir(tmp_path)
    fields = [f"--set=data.{name}={json.dumps(value)}" for name, value in DATA[data].smaller["tiny"]["data"].items()]
    code, out, _ = invariance("data", "show", data, "--json", *fields)
    assert code == 0
    shown = json.loads(out)
    names = {e.name for e in load_benchmark(spec(data, "erm")).train}
    assert names < set(shown["environments"])
    with Image.open(tmp_path / shown["picture"]) as sheet:
        assert len(set(sheet.convert("L").tobytes())) > 50


@every_set
def test_licence_citation_and_source_are_listed(data, invariance):
    _, out, _ = invariance("data", "list", "--json")
    (entry,) = (entry for entry in json.loads(out) if entry["name"] == data)
    assert entry["licence"]
    assert entry["source"].startswith("http")
    assert any(year in entry["citation"] for year in ("2009", "2013", "2014", "2015", "2017"))


def test_a_folder_of_ones_own_is_trained_on_and_its_broken_file_is_named(tmp_path, monkeypatch, invariance):
    monkeypatch.chdir(tmp_path)
    for place in ("day/cat", "day/dog", "night/cat", "night/dog"):
        (tmp_path / "own" / place).mkdir(parents=True)
        for i in range(8):
            Image.effect_noise((16, 16), 20 + 10 * i).save(tmp_path / "own" / place / f"{i}.jpg")
    broken = Path("own/day/cat/broken.jpg")
    broken.write_bytes(b"no image")
    small = ["--set=data.path=own", "--set=data.image_size=8", "--set=model.width=8", "--set=recipe.epochs=1"]
    code, _, err = invariance("train", "folder", "irmv1", *small)
    assert code == 1
    assert "error: 1 of 33 images of Folder cannot be read, the first is own/day/cat/broken.jpg" in err
    assert "Traceback" not in err
    code, out, _ = invariance("train", "folder", "irmv1", *small, "--set=data.broken=skip", "--json")
    assert code in (0, 3)
    assert json.loads(out)["spec"]["data"]["path"] == "own"


def test_what_is_here_is_said(invariance):
    _, out, _ = invariance("data", "check", "--json")
    states = {entry["data"]: entry["state"] for entry in json.loads(out)}
    for data in ("celeba", "pacs", "vlcs"):
        assert states[data] in ("complete", "partial", "missing")
        assert states[data] != "missing" or complaint(data)
    assert states["folder"] == "missing"
