"""Every kind of outcome and option of ``fit`` and ``predict`` on one small table."""

import csv
from pathlib import Path

import numpy as np
import pytest

import invariance as package


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """A case number, an age, a rare class, an amount and a site."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("kinds") / "cases.csv"
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["case", "age", "ward", "hospital", "sick", "cost"])
        for i in range(300):
            age = rng.normal(50, 10)
            sick = rng.random() < 0.3 / (1 + np.exp((55 - age) / 3))
            cells = [f"c{i:04}", f"{age:.2f}", rng.choice(["A", "B"]), rng.choice(["Lyon", "Bern", "Graz"])]
            out.writerow([*cells, "yes" if sick else "no", f"{100 + 5 * age + rng.normal():.2f}"])
    return path


def column(path: Path, name: str) -> list[str]:
    with path.open() as file:
        return [row[name] for row in csv.DictReader(file)]


QUICK = ("--method", "erm", "--no-report", "--set", "recipe.epochs=200", "--hidden", "none")


def test_numbers_are_predicted_beside_the_columns_that_are_kept(table, tmp_path, invariance):
    model, out = tmp_path / "model", tmp_path / "p.csv"
    plain = invariance("fit", table, "--label", "cost", "--ignore", "sick", *QUICK, "-o", model, "--json").json
    assert plain["columns"]["case"]["role"] == "id"
    assert "regression" in plain["columns"]["cost"]["why"]
    done = invariance("predict", model, table, "--keep", "-o", out)
    assert done.err.splitlines()[-1] == "rows: 300, done"
    assert out.read_text().splitlines()[0].replace('"', "") == "case,age,ward,hospital,sick,cost,prediction"
    assert column(out, "case") == column(table, "case")
    error = np.array(column(out, "prediction"), float) - np.array(column(table, "cost"), float)
    assert np.sqrt((error**2).mean()) < 10
    scores = invariance("evaluate", model, table, "--json").json
    assert scores["by_environment"]["Lyon"]["r2"] > 0.9
    assert scores["worst_rmse"] < 10


def test_class_weights_find_the_rare_class(table, tmp_path, invariance):
    found = {}
    for name, options in {"plain": (), "weighted": ("--class-weight", "balanced")}.items():
        arguments = ("--label", "sick", "--ignore", "cost", *QUICK, *options, "-o", tmp_path / name)
        assert invariance("fit", table, *arguments).code == 0
        assert invariance("predict", tmp_path / name, table, "--id", "case", "-o", tmp_path / "p.csv").code == 0
        assert column(tmp_path / "p.csv", "case") == column(table, "case")
        found[name] = column(tmp_path / "p.csv", "prediction").count("yes")
    assert found["weighted"] > found["plain"] + 20
    refused = invariance("fit", table, "--label", "cost", "--class-weight", "balanced", "-o", tmp_path / "no").error
    assert refused.startswith("--class-weight is for classes, and cost holds numbers")


def test_hidden_layers_and_fields_are_set(table, tmp_path, invariance):
    options = (
        "--hidden",
        "4,3",
        "--method",
        "rex",
        "--set",
        "method.gamma=7",
        "--set",
        "recipe.epochs=5",
        "--no-report",
    )
    assert invariance("fit", table, "--label", "sick", "--ignore", "cost", *options, "-o", tmp_path / "m").code == 0
    model = package.load(tmp_path / "m")
    assert model.hidden_ == (4, 3)
    assert model.method_.gamma == 7
    assert not hasattr(model, "coef_")
    refused = invariance("predict", tmp_path / "m", table, "--contributions", "-o", tmp_path / "p.csv").error
    assert refused.startswith("contributions are those of the columns of a linear model")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--hidden", "4,x"), "--hidden is '4,x'; expected widths"),
        (("--set", "method.gamma=7"), "--set method.… needs a method"),
        (("--set", "data.path=x"), "--set data.… does not apply to data of your own"),
        (("--date", "ward"), "'ward' holds no dates of a known format"),
    ],
)
def test_options_that_make_no_sense_are_one_line(table, tmp_path, invariance, options, says):
    assert invariance("fit", table, "--label", "sick", *options, "-o", tmp_path / "m").error.startswith(says)


def test_a_threshold_and_a_cost_that_means_it_give_the_same_report(table, tmp_path, invariance):
    options = (
        "--label",
        "sick",
        "--ignore",
        "cost",
        "--method",
        "erm",
        "--hidden",
        "none",
        "--set",
        "recipe.epochs=50",
    )

    def shown(name: str, *more: str) -> dict:
        return invariance("fit", table, *options, *more, "-o", tmp_path / name, "--json").json["assessment"]

    plain, low, cost = shown("a"), shown("b", "--threshold", "0.1"), shown("c", "--cost", "9")
    assert (plain["threshold"], low["threshold"], cost["threshold"]) == (0.5, 0.1, 0.1)
    assert low["model"]["new"] == cost["model"]["new"]
    for site, before in zip(low["model"]["new"], plain["model"]["new"], strict=True):
        assert site["metrics"]["sensitivity"] >= before["metrics"]["sensitivity"]
        assert site["metrics"]["specificity"] < before["metrics"]["specificity"]
        assert site["metrics"]["auc"] == before["metrics"]["auc"]
    text = (tmp_path / "b" / "report.html").read_text()
    assert "at a probability of 10.0 %" in text
    assert "at a probability of 50.0 %" not in text


def test_the_positive_class_is_the_one_that_was_named(table, tmp_path, invariance):
    options = ("--label", "sick", "--ignore", "cost", *QUICK[:2], *QUICK[3:])

    def shown(name: str, *more: str) -> dict:
        return invariance("fit", table, *options, *more, "-o", tmp_path / name, "--json").json["assessment"]

    plain, turned = shown("a"), shown("b", "--positive", "No")
    assert (plain["positive"], turned["positive"]) == ("yes", "no")
    for site, before in zip(turned["model"]["new"], plain["model"]["new"], strict=True):
        assert site["metrics"]["sensitivity"] == before["metrics"]["specificity"]
        assert site["metrics"]["specificity"] == before["metrics"]["sensitivity"]
        assert site["metrics"]["average-precision"] > before["metrics"]["average-precision"]
        for same in ("auc", "accuracy", "log-loss"):
            assert site["metrics"][same] == pytest.approx(before["metrics"][same], abs=1e-12)
    assert "Positive is the class no, also for average precision" in (tmp_path / "b" / "report.html").read_text()
    assert "- Classes: no, yes; positive is no\n" in (tmp_path / "b" / "README.md").read_text()
    assert [package.load(tmp_path / name).positive_ for name in "ab"] == ["yes", "no"]


@pytest.mark.parametrize(("metric", "title"), [("auc", "AUC"), ("mean-average-precision", "average precision")])
def test_the_report_is_about_the_metric_that_was_asked_for(table, tmp_path, invariance, metric, title):
    options = ("--label", "sick", "--ignore", "cost", "--hidden", "none", "--set", "recipe.epochs=50")
    plain = invariance("fit", table, *options, "--metric", metric, "-o", tmp_path / "m", "--json").json
    assert plain["assessment"]["metric"] == metric.removeprefix("mean-")
    assert f"Expect an {title} of" in plain["verdict"]["headline"]
    assert package.load(tmp_path / "m").metric == metric


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--threshold", "0.2", "--cost", "4"), "--threshold and --cost say the same; give one of them"),
        (("--label", "cost", "--threshold", "0.2"), "--threshold and --cost are for two classes"),
        (("--metric", "rmse"), "no metric for classes is called 'rmse'"),
        (("--positive", "yess"), "no class of sick is called 'yess'. Did you mean 'yes'?"),
        (("--label", "hospital", "--positive", "Lyon"), "--positive is for two classes, and hospital has 3 classes"),
        (("--label", "cost", "--positive", "1"), "--positive is for two classes, and cost has numbers"),
    ],
)
def test_a_threshold_or_metric_that_makes_no_sense_is_one_line(table, tmp_path, invariance, options, says):
    assert invariance("fit", table, "--label", "sick", *options, "-o", tmp_path / "m").error.startswith(says)
