"""What once went wrong: bad input that ended in a traceback, in a hang, or in a wrong answer without a word."""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")

import pyarrow as pa
from pyarrow import parquet

from invariance.experiments.run import Run
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store

COMMAND = Path(sys.executable).with_name("invariance")
ROWS = 90


@pytest.fixture(scope="module")
def frame() -> dict[str, list[str]]:
    rng = np.random.default_rng(0)
    sick = rng.integers(0, 2, ROWS)
    x = 2 * sick + rng.normal(size=ROWS)
    return {
        "x": [f"{value:.3f}" for value in x],
        "site": [f"s{i % 3}" for i in range(ROWS)],
        "sick": ["Yes" if value else "No" for value in sick],
    }


def csv(path: Path, columns: dict[str, list[str]]) -> Path:
    lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def model(tmp_path_factory, invariance, frame) -> Path:
    folder = tmp_path_factory.mktemp("model")
    table = csv(folder / "train.csv", frame)
    done = invariance("fit", table, "--label", "sick", "--method", "erm", "--no-report", "-o", folder / "m", "--json")
    assert done.code == 0, done.err
    return folder / "m"


SPELLED = {"yes and no": {"Yes": "yes", "No": "no"}, "YES and NO": {"Yes": "YES ", "No": "NO"}}


@pytest.mark.parametrize("spelling", SPELLED.values(), ids=SPELLED)
def test_labels_that_are_spelled_differently_are_the_same_labels(invariance, model, frame, tmp_path, spelling):
    same = invariance("evaluate", model, csv(tmp_path / "same.csv", frame), "--json").json
    other = csv(tmp_path / "other.csv", frame | {"sick": [spelling[value] for value in frame["sick"]]})
    spelled = invariance("evaluate", model, other, "--json").json
    assert spelled["by_environment"] == same["by_environment"]
    assert same["average"] > 70
    assert "spelled differently" in spelled["notes"][0]


def test_a_frame_scores_the_same_from_csv_and_from_parquet(invariance, frame, tmp_path):
    flags = [value == "Yes" for value in frame["sick"]]
    table = csv(tmp_path / "t.csv", frame | {"sick": [str(flag) for flag in flags]})
    columns = {"x": [float(x) for x in frame["x"]], "site": frame["site"], "sick": flags}
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    invariance("fit", table, "--label", "sick", "--method", "erm", "--no-report", "-o", tmp_path / "m")
    scores = [
        invariance("evaluate", tmp_path / "m", tmp_path / f"t.{end}", "--json").json for end in ("csv", "parquet")
    ]
    assert scores[0]["by_environment"] == scores[1]["by_environment"]


def test_a_label_that_is_no_class_is_refused_by_name(invariance, model, frame, tmp_path):
    table = csv(tmp_path / "t.csv", frame | {"sick": ["maybe", *frame["sick"][1:]]})
    said = invariance("evaluate", model, table).error
    assert "'maybe'" in said
    assert "'No', 'Yes'" in said
    train = csv(tmp_path / "train.csv", frame)
    done = invariance("fit", train, "--label", "sick", "--method", "erm", "--test", table, "-o", tmp_path / "m")
    assert "'maybe'" in done.error


def test_classes_that_differ_in_case_alone_are_told_apart(invariance, frame, tmp_path):
    table = csv(tmp_path / "t.csv", frame | {"sick": ["a" if value == "Yes" else "A" for value in frame["sick"]]})
    invariance("fit", table, "--label", "sick", "--method", "erm", "--no-report", "-o", tmp_path / "m")
    assert invariance("evaluate", tmp_path / "m", table, "--json").json["average"] > 70


def test_an_empty_line_of_one_column_is_a_row(invariance, model, tmp_path):
    (tmp_path / "t.csv").write_text("x\n-3\n\n3\n")
    assert invariance("predict", model, tmp_path / "t.csv", "-o", tmp_path / "p.csv").code == 0
    predicted = [line.split(",")[0].strip('"') for line in (tmp_path / "p.csv").read_text().splitlines()[1:]]
    assert len(predicted) == 3
    assert (predicted[0], predicted[2]) == ("No", "Yes")


def test_a_site_with_a_single_row_is_no_obstacle(invariance, frame, tmp_path):
    columns = {name: [*values, values[0]] for name, values in frame.items()}
    columns["site"][-1] = "lonely"
    table = csv(tmp_path / "t.csv", columns)
    done = invariance("fit", table, "--label", "sick", "--no-report", "-o", tmp_path / "m", "--json")
    assert done.json["rows"] == ROWS + 1


def test_no_report_leaves_no_report_of_another_table(invariance, model, frame, tmp_path):
    table = csv(tmp_path / "t.csv", frame)
    how = ("--label", "sick", "--method", "erm", "-o", tmp_path / "m")
    invariance("fit", table, *how)
    assert (tmp_path / "m" / "report.html").exists()
    assert invariance("fit", table, *how, "--overwrite", "--no-report").code == 0
    assert {path.name for path in (tmp_path / "m").iterdir()} == {"manifest.json", "weights.safetensors", "README.md"}


def test_a_collapsed_model_says_so(invariance, frame, tmp_path):
    noise = np.random.default_rng(1).normal(size=ROWS)
    table = csv(tmp_path / "t.csv", frame | {"x": [f"{1000 + 1e-3 * value:.6f}" for value in noise]})
    done = invariance("fit", table, "--label", "sick", "--method", "erm", "--no-report", "-o", tmp_path / "m", "--json")
    assert any("collapsed" in note for note in done.json["notes"])


def image(path: Path, side: int = 24, value: int = 90) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((side, side, 3), value, np.uint8)).save(path)


@pytest.fixture
def folder(tmp_path) -> Path:
    for domain in "ab":
        for value, name in ((60, "cat"), (190, "dog")):
            for i in range(8):
                image(tmp_path / "images" / domain / name / f"{i}.png", value=value + i)
    return tmp_path / "images"


def test_a_file_that_was_replaced_makes_another_run(folder):
    def key() -> str:
        return Spec.of("folder", "erm", "short", changes={"data": {"path": str(folder)}}).key

    before, path = key(), folder / "a" / "cat" / "0.png"
    same = path.stat()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(same.st_atime_ns, same.st_mtime_ns))
    assert key() != before


@pytest.fixture
def pictured(folder, tmp_path, invariance) -> Path:
    how = ("--image-size", "8", "--width", "4", "--epochs", "1", "--method", "erm", "--no-report")
    assert invariance("fit", folder, *how, "-o", tmp_path / "m").code == 0
    return tmp_path / "m"


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_pipes_huge_images_and_names_that_are_no_text_end_in_one_line(folder, pictured, tmp_path, invariance):
    new = tmp_path / "new"
    image(new / "good.png")
    os.mkfifo(new / "pipe.png")
    done = invariance("predict", pictured, new, "-o", tmp_path / "p.csv", "--json")
    assert done.json["images"] == 1
    Image.new("1", (13_000, 13_000)).save(new / "huge.png")
    assert "13000×13000 pixels" in invariance("predict", pictured, new, "-o", tmp_path / "p.csv").error
    (new / "huge.png").rename(new / os.fsdecode(b"\xff.png"))
    assert "not UTF-8" in invariance("predict", pictured, new, "-o", tmp_path / "p.csv").error
    assert "1024" in invariance("fit", folder, "--image-size", "100000", "-o", tmp_path / "m2").err


def test_a_huge_cell_of_parquet_is_refused_unread(invariance, frame, tmp_path):
    columns = {"x": [float(x) for x in frame["x"]], "site": frame["site"], "sick": frame["sick"]}
    text = ["x" * (80 << 20), *["b"] * (ROWS - 1)]
    parquet.write_table(pa.table(columns | {"text": text}), tmp_path / "t.parquet", compression="zstd")
    assert "'text'" in invariance("fit", tmp_path / "t.parquet", "--label", "sick", "-o", tmp_path / "m").error


BAD_SPECS = {
    "list": {"seed": [1]},
    "fraction": {"seed": 1.5},
    "flag": {"seed": True},
    "negative": {"seed": -1},
    "too large": {"seed": 2**63},
    "hold out": {"hold_out": 3},
    "recipe": {"recipe": []},
    "name": {"data": {"name": ["two-bit"]}},
}


@pytest.mark.parametrize("change", BAD_SPECS.values(), ids=BAD_SPECS)
def test_a_line_of_a_sweep_that_is_no_spec_is_named_before_anything_runs(invariance, tmp_path, change):
    good = Spec.of("two-bit", "erm", "short").to_json()
    (tmp_path / "s.jsonl").write_text(f"{json.dumps(good)}\n{json.dumps(good | change)}\n")
    said = invariance("run", tmp_path / "s.jsonl", "--store", tmp_path / "runs.db").error
    assert "s.jsonl, line 2" in said
    assert not (tmp_path / "runs.db").exists()


BAD_COMMANDS = {
    "field of a number": ("train", "two-bit", "erm", "--set", "recipe.lr.x=1"),
    "wide": ("train", "two-bit", "erm", "--set", "model.width=1000000000"),
    "nested": ("train", "two-bit", "erm", "--set", f"recipe.lr={'[' * 100_000}"),
    "digits": ("train", "two-bit", "erm", "--set", f"recipe.lr={'9' * 5000}"),
    "large seed": ("train", "two-bit", "erm", "--seed", str(2**63)),
    "many seeds": ("compare", "--seeds", "99999999999999999999"),
    "pixels": ("compare", "--data", "pacs", "--set", "data.image_size=100000"),
}


@pytest.mark.parametrize("arguments", BAD_COMMANDS.values(), ids=BAD_COMMANDS)
def test_a_value_that_cannot_be_meant_ends_in_one_line(invariance, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    assert len(invariance(*arguments).error) > 20
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_specs_that_is_not_text_ends_in_one_line(invariance, tmp_path):
    (tmp_path / "s.jsonl").write_bytes(b"\xff\xfe{}")
    assert "UTF-8" in invariance("run", tmp_path / "s.jsonl").error
    (tmp_path / "s.jsonl").write_text("[" * 100_000)
    assert "line 1" in invariance("run", tmp_path / "s.jsonl").error
    (tmp_path / "s.jsonl").write_text("\n")
    assert "holds no spec" in invariance("run", tmp_path / "s.jsonl").error


@pytest.fixture
def store(tmp_path) -> Path:
    with Store(tmp_path / "runs.db") as opened:
        opened.add(Run(Spec.of("two-bit", "erm", "short"), "failed", (), 1.0, "=1+1"))
    return tmp_path / "runs.db"


def test_no_is_an_answer(invariance, store, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    done = invariance("runs", "remove", "--status", "failed", "--store", store)
    assert done.code == 1
    assert done.err.endswith("stopped; nothing was changed\n")
    with Store(store) as opened:
        assert len(opened.summaries()) == 1


def test_a_formula_is_text_in_csv_and_stays_as_it_is_for_programs(invariance, store, tmp_path):
    for name in ("a.CSV", "a.jsonl"):
        assert invariance("runs", "export", tmp_path / name, "--store", store).code == 0
    assert ",'=1+1," in (tmp_path / "a.CSV").read_text()
    assert '"reason": "=1+1"' in (tmp_path / "a.jsonl").read_text()


def test_an_empty_file_is_no_store_and_stays_empty(invariance, tmp_path):
    (tmp_path / "runs.db").touch()
    assert "empty" in invariance("runs", "list", "--store", tmp_path / "runs.db").error
    assert (tmp_path / "runs.db").read_bytes() == b""


def test_a_terminal_without_unicode_gets_what_it_can_show(store):
    environment = os.environ | {"PYTHONIOENCODING": "cp1252"}
    shown, plain = (
        subprocess.run([COMMAND, *arguments], capture_output=True, check=False, env=environment)
        for arguments in (("runs", "list", "--store", store), ("list", "methods", "--json"))
    )
    assert shown.returncode == plain.returncode == 0, shown.stderr + plain.stderr
    assert any("γ" in method["formula"] for method in json.loads(plain.stdout))


def test_escape_codes_of_names_do_not_reach_the_terminal(invariance, model, tmp_path):
    said = invariance("predict", model, tmp_path / "a\x1b]0;title\x07.csv", "-o", tmp_path / "p.csv").error
    assert said.isprintable()


def test_names_are_text_in_the_card_of_a_model(invariance, frame, tmp_path):
    sites = [f"<img src=x>|{site}" for site in frame["site"]]
    table = csv(tmp_path / "t.csv", frame | {"site": sites})
    invariance("fit", table, "--label", "sick", "--method", "erm", "--no-report", "-o", tmp_path / "m")
    card = (tmp_path / "m" / "README.md").read_text()
    assert re.search(r"(?<!\\)<img", card) is None
    assert r"\<img src=x\>\|s0" in card
