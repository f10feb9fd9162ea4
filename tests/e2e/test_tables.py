"""Tables from a practitioner's desk: the commands as they are used, from the file to the report in a browser."""

import csv
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")

import pyarrow as pa
from pyarrow import parquet

from invariance.tabular import source as sources

COMMAND = Path(sys.executable).with_name("invariance")
KNOWN = {"Lyon": 0.98, "Bern": 0.95, "Graz": 0.03, "Gent": 0.9}
UNSEEN = {"Oslo": 0.1, "Porto": 0.05}
"""Six sites, and how often the scanner's tint agrees with the label there: in training, and where nobody has been."""


def write(path: Path, sites: dict[str, float | None], rows: int, seed: int) -> Path:
    """Patients of some sites. None: the tint means nothing."""
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["crp", "age", "pressure", "sex", "tint", "hospital", "sick"])
        for site, share in sites.items():
            for _ in range(rows):
                crp, age, pressure, noise = rng.normal(size=4)
                sick = rng.random() < 1 / (1 + np.exp(1.2 * (pressure - crp - 0.7 * age)))
                agrees = rng.random() < (0.5 if share is None else share)
                tint = (2 if sick == agrees else -2) + 0.5 * noise
                cells = [
                    f"{120 + 9 * pressure:.2f}",
                    rng.choice(["f", "m"]),
                    f"{tint:.3f}",
                    site,
                    "yes" if sick else "no",
                ]
                out.writerow([f"{crp:.3f}" if rng.random() < 0.98 else "", f"{50 + 9 * age:.1f}", *cells])
    return path


class Practice:
    """A folder with tables, and the model that was fitted to them."""

    def __init__(self, folder: Path, invariance: Callable) -> None:
        self.train = write(folder / "train.csv", KNOWN, 400, 0)
        self.test = write(folder / "test.csv", UNSEEN, 400, 1)
        self.model = folder / "model"
        self.done = invariance(
            *("fit", self.train, "--label", "sick", "--environment", "hospital", "--test", self.test),
            *("-o", self.model, "--licence", "CC0-1.0", "--json"),
        )

    @property
    def plain(self):
        return self.done.json


@pytest.fixture(scope="module")
def practice(tmp_path_factory, invariance) -> Practice:
    return Practice(tmp_path_factory.mktemp("practice"), invariance)


def table(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What others make of the same file: numbers, labels, sites."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    x = [
        [float(r["crp"] or 0), float(r["age"]), float(r["pressure"]), float(r["sex"] == "m"), float(r["tint"])]
        for r in rows
    ]
    return np.array(x), np.array([r["sick"] for r in rows]), np.array([r["hospital"] for r in rows])


# Where a column means something else at every site


def test_an_invariant_method_is_chosen_and_beats_everybody_at_sites_nobody_has_seen(practice):
    plain = practice.plain
    assert plain["method"] != "ERM"
    x, y, _ = table(practice.train)
    new, labels, sites = table(practice.test)
    (own, erm) = ({s["name"]: s["right"] for s in plain["assessment"][m]["test"]} for m in ("model", "rival"))
    assert plain["assessment"]["rival"]["title"] == "ERM"
    for others in (LogisticRegression(), HistGradientBoostingClassifier(random_state=0)):
        right = others.fit(x, y).predict(new) == labels
        for site in UNSEEN:
            assert own[site] > right[sites == site].mean() + 0.08
    for site in UNSEEN:
        assert own[site] > erm[site] + 0.08


def test_the_report_says_what_misleads_and_where(practice):
    plain = practice.plain
    text = " ".join([plain["verdict"]["headline"], *plain["verdict"]["advice"]])
    assert "ERM relies on tint" in text
    assert "at a new site" in text
    importances = {m: {one["column"]: one for one in plain["assessment"][m]["leanings"]} for m in ("model", "rival")}
    tint = importances["rival"]["tint"]
    assert tint["changed"] > 2 * importances["model"]["tint"]["changed"]
    assert tint["drop_by_site"]["Lyon"] > 0 > tint["drop_by_site"]["Graz"]


def test_the_folder_holds_the_model_its_card_and_the_report(practice):
    stages = ["leaving out one environment after another", "done"]
    assert [line.split(": ")[-1] for line in practice.done.err.splitlines()][1:] == stages
    assert {path.name for path in practice.model.iterdir()} == {
        *("manifest.json", "weights.safetensors", "README.md", "report.html")
    }
    card = (practice.model / "README.md").read_text()
    assert "CC0-1.0" in card
    assert "train.csv" in card


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_report_opens_in_a_browser(practice, visit, width, scheme):
    seen = visit(practice.model / "report.html", width, scheme)
    for article in ("#new-sites", "#test-sites", "#reliability", "#importance-by-site"):
        seen.see(article)
    text = seen.page.inner_text("main")
    assert "Predicting sick at new sites" in text
    assert "What to do" in text
    assert "Collapsed" not in text
    assert seen.overflow() <= 0
    assert seen.wrong == []


# Where there is nothing to gain


def test_without_a_shift_the_model_is_erm_and_says_that_no_effect_varies(invariance, tmp_path):
    train = write(tmp_path / "train.csv", dict.fromkeys(KNOWN), 400, 2)
    test = write(tmp_path / "test.csv", dict.fromkeys(UNSEEN), 1000, 3)
    done = invariance("fit", train, "--label", "sick", "-o", tmp_path / "auto", "--no-report")
    assert done.code == 0, done.err
    assert "finds no effect of a column that varies between environments" in " ".join(done.out.split())
    invariance("fit", train, "--label", "sick", "-o", tmp_path / "erm", "--method", "erm", "--no-report")
    own, erm = (invariance("evaluate", tmp_path / name, test, "--json").json["average"] for name in ("auto", "erm"))
    assert abs(own - erm) <= 0.5


# Predict and evaluate


def test_predictions_come_in_the_order_of_the_rows_whatever_the_file(practice, invariance, tmp_path, monkeypatch):
    done = invariance("predict", practice.model, practice.test, "-o", tmp_path / "p.csv")
    assert done.code == 0
    assert done.out == f"Predictions for 800 rows: {tmp_path / 'p.csv'}\n"
    whole = (tmp_path / "p.csv").read_text()
    assert whole.splitlines()[0].replace('"', "") == "prediction,probability_no,probability_yes"
    with practice.test.open() as file:
        rows = list(csv.DictReader(file))
    columns = {name: [row[name] or None for row in rows] for name in rows[0]}
    columns |= {name: [float(v) if v else None for v in columns[name]] for name in ("crp", "age", "pressure", "tint")}
    columns["hospital"] = columns.pop("hospital")  # another order of columns, and the label is not needed
    parquet.write_table(pa.table({k: v for k, v in columns.items() if k != "sick"}), tmp_path / "new.parquet")
    monkeypatch.setattr(sources, "BATCH_ROWS", 100)
    invariance("predict", practice.model, tmp_path / "new.parquet", "-o", tmp_path / "q.csv")
    assert (tmp_path / "q.csv").read_text() == whole


def test_predictions_agree_with_the_scores_of_evaluate(practice, invariance, tmp_path):
    invariance("predict", practice.model, practice.test, "-o", tmp_path / "p.csv")
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows[:50]:
        p = {name: float(row[f"probability_{name}"]) for name in ("no", "yes")}
        assert sum(p.values()) == pytest.approx(1, abs=1e-5)
        assert row["prediction"] == max(p, key=p.__getitem__)
    _, labels, sites = table(practice.test)
    right = np.array([row["prediction"] for row in rows]) == labels
    scores = invariance("evaluate", practice.model, practice.test, "--json").json
    assert scores["by_environment"] == {site: pytest.approx(100 * right[sites == site].mean()) for site in UNSEEN}
    assert scores["unseen"] == sorted(UNSEEN)
    for site, (low, high) in scores["intervals"].items():
        assert low < scores["by_environment"][site] < high
    shown = invariance("evaluate", practice.model, practice.test, "--environment", "sex").out
    assert "average" in shown
    assert all(name in shown for name in (" f ", " m "))


def test_whole_numbers_are_classes_from_the_file_to_the_predictions(invariance, tmp_path):
    lines = [f"{i % 7},{'ab'[i % 2]},{int(i % 7 > 3)}" for i in range(60)]
    (tmp_path / "train.csv").write_text("\n".join(["crp,site,sick", *lines]))
    done = invariance("fit", tmp_path / "train.csv", "--label", "sick", "--no-report", "-o", tmp_path / "m", "--json")
    assert done.json["label"] == "sick"
    invariance("predict", tmp_path / "m", tmp_path / "train.csv", "-o", tmp_path / "p.csv")
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["prediction", "probability_0", "probability_1"]
    assert [row["prediction"] for row in rows] == [line.split(",")[2] for line in lines]


def test_what_was_never_seen_is_predicted_too_and_said(practice, invariance, tmp_path):
    (tmp_path / "new.csv").write_text("crp,age,pressure,sex,tint\n1.2,50,high,x,0.5\n,,,,\n")
    done = invariance("predict", practice.model, tmp_path / "new.csv", "-o", tmp_path / "p.parquet")
    assert done.code == 0
    assert "'pressure': 1 cell with no finite number" in done.err
    assert "'sex': 1 cell with a category that is not in the training data" in done.err
    assert parquet.read_table(tmp_path / "p.parquet").num_rows == 2


def test_a_column_that_the_model_leaves_out_need_not_be_there(practice, invariance, tmp_path):
    command = ("fit", practice.train, "--label", "sick", "--environment", "hospital", "--method", "subset-erm")
    left_out = ("--set", 'method.without=["tint"]')
    invariance(*command, *left_out, "--hidden", "none", "--no-report", "-o", tmp_path / "m")
    with practice.test.open() as file:
        rows = [[cell for i, cell in enumerate(row) if i != 4] for row in csv.reader(file)]
    (tmp_path / "new.csv").write_text("\n".join(map(",".join, rows)))
    for name, file in (("p", practice.test), ("q", tmp_path / "new.csv")):
        assert invariance("predict", tmp_path / "m", file, "-o", tmp_path / f"{name}.csv").code == 0
    assert (tmp_path / "p.csv").read_text() == (tmp_path / "q.csv").read_text()
    scores = [invariance("evaluate", tmp_path / "m", f, "--json").json for f in (practice.test, tmp_path / "new.csv")]
    assert scores[0]["by_environment"] == scores[1]["by_environment"]
    without_age = "\n".join(",".join(row[:1] + row[2:]) for row in rows)
    (tmp_path / "new.csv").write_text(without_age)
    assert "no column 'age'" in invariance("predict", tmp_path / "m", tmp_path / "new.csv").error


def test_predictions_do_not_replace_the_rows_that_they_are_for(practice, invariance, tmp_path):
    rows = write(tmp_path / "new.csv", UNSEEN, 5, 2)
    before = rows.read_text()
    done = invariance("predict", practice.model, rows, "-o", tmp_path / "." / "new.csv")
    assert "it holds the rows to predict; give another file with -o" in done.error
    assert rows.read_text() == before


def test_an_identifier_is_no_environment(invariance, tmp_path):
    rows = "\n".join(f"{i},{i % 3},{i % 2}" for i in range(40))
    (tmp_path / "t.csv").write_text(f"row,x,y\n{rows}\n")
    done = invariance("fit", tmp_path / "t.csv", "--label", "y", "--environment", "row", "-o", tmp_path / "m")
    assert (done.code, "every environment has one row" in done.err) == (1, True)


def test_what_was_reached_on_test_data_is_said_or_the_test_is_refused(practice, invariance, tmp_path):
    command = ("fit", practice.train, "--label", "sick", "--environment", "hospital", "--test", practice.test)
    assert "--no-report leaves that out" in invariance(*command, "--no-report", "-o", tmp_path / "m").error
    done = invariance(*command, "--method", "erm", "--hidden", "none", "-o", tmp_path / "m")
    assert re.search(
        r"Test data: accuracy \d+ % \(mean over 2 sites\); \d+ % at \w+, the worst\.", " ".join(done.out.split())
    )


def test_subset_erm_that_leaves_nothing_out_says_that_it_is_erm(practice, invariance, tmp_path):
    command = ("fit", practice.train, "--label", "sick", "--environment", "hospital", "--method", "subset-erm")
    done = invariance(*command, "--hidden", "none", "--no-report", "-o", tmp_path / "m")
    assert "no column is left out, so this is ERM" in " ".join(done.out.split())


def test_ctrl_c_while_the_report_is_made_says_that_there_is_a_model(practice, tmp_path):
    code = """
import signal, sys
from invariance.cli import main
from invariance.fitting import baseline
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background of a shell
baseline.assess = lambda *given: signal.raise_signal(signal.SIGINT)
sys.argv = ["invariance", "fit", *sys.argv[1:]]
main()
"""
    arguments = [
        practice.train,
        "--label",
        "sick",
        "--environment",
        "hospital",
        "--method",
        "erm",
        "-o",
        tmp_path / "m",
    ]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 130
    assert f"the model is saved in {tmp_path / 'm'}, without its report" in done.stderr
    assert (tmp_path / "m" / "manifest.json").exists()


def test_memory_does_not_grow_with_the_file(practice, tmp_path):
    """The same rows many times over need no more than once; each piece of the file is a fortieth of it."""
    lines = practice.test.read_text().splitlines(keepends=True)
    (tmp_path / "short.csv").write_text("".join(lines))
    (tmp_path / "long.csv").write_text(lines[0] + "".join(lines[1:]) * 400)
    code = """
import resource, sys
from invariance.cli import main
from invariance.tabular import source
source.BLOCK_BYTES = 1 << 18
sys.argv = ["invariance", "predict", *sys.argv[1:]]
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    peak = {}
    for name in ("short", "long"):
        arguments = [practice.model, tmp_path / f"{name}.csv", "-o", tmp_path / f"{name}-p.csv"]
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        peak[name] = int(done.stdout.splitlines()[-1])
    assert (tmp_path / "long.csv").stat().st_size > 10 << 20
    with (tmp_path / "long-p.csv").open() as file:
        assert sum(1 for _ in file) == 400 * 800 + 1
    assert peak["long"] - peak["short"] < 40 << 10  # kilobytes


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "train.csv"], "which column of train.csv is the label? Name it with --label"),
        (["fit", "train.csv", "--label", "sik"], "no column 'sik' in train.csv"),
        (["fit", "none.csv", "--label", "sick"], "there is no file none.csv"),
        (["fit", ".", "--label", "sick"], ". is a folder"),
        (
            ["fit", "train.csv", "--label", "sick", "--method", "irm1"],
            "no method is called 'irm1'. Did you mean 'irmv1'?",
        ),
        (["fit", "train.csv", "--label", "sick", "--ignore", "ag"], "no column 'ag' in train.csv"),
        (["fit", "train.csv", "--label", "sick", "--ignore", "sick"], "'sick' is the label and cannot be ignored"),
        (
            ["fit", "train.csv", "--label", "sick", "--environment", "hospital", "--id", "hospital"],
            "'hospital' is the environment and cannot be id",
        ),
        (["fit", "train.csv", "--label", "sick", "-o", "saved"], "saved already holds a"),
        (["predict", "saved", "none.csv"], "there is no file none.csv"),
        (["predict", "none", "train.csv"], "none holds no manifest.json"),
        (["predict", "saved", "train.csv", "-o", "p.xls"], "cannot write p.xls"),
        (["predict", "saved", "short.csv"], "no column 'crp' in short.csv"),
        (["evaluate", "saved", "short.csv"], "no column 'sick' in short.csv"),
        (["evaluate", "saved", "train.csv", "--sampled"], "--sampled draws test environments of a benchmark"),
        (["evaluate", "saved", "--environment", "site"], "--environment names a column of a table"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_answered_in_one_line(practice, invariance, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.csv").symlink_to(practice.train)
    (tmp_path / "saved").symlink_to(practice.model)
    (tmp_path / "short.csv").write_text("pressure,sex,tint\n1,f,2\n")
    assert invariance(*arguments).error.startswith(message)


def test_a_model_of_a_table_is_not_taken_for_a_benchmark(practice, invariance):
    assert "invariance evaluate" in invariance("evaluate", practice.model).error


def test_one_site_alone_is_erm_and_says_so(invariance, tmp_path):
    path = write(tmp_path / "train.csv", {"Lyon": None}, 60, 0)
    done = invariance("fit", path, "--label", "sick", "--ignore", "hospital", "-o", tmp_path / "m", "--no-report")
    assert done.code == 0
    assert "no column names the environment of each row" in done.out
    assert "ERM" in done.out
    done = invariance("fit", path, "--label", "sick", "--method", "rex", "-o", tmp_path / "n")
    assert done.error.startswith("rex needs rows of several environments")
