"""What ``method="auto"`` takes, and what it is worth where nobody trained."""

import ast
import io
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from invariance.core.environment import Environment
from invariance.estimators import auto
from invariance.estimators.auto import folds
from invariance.estimators.choice import Candidate, Choice, decide
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.regressor import InvariantRegressor
from invariance.estimators.table_encoder import TableEncoder
from invariance.evaluation.metrics import criterion
from invariance.methods import METHODS
from invariance.methods.subset_erm import SubsetERM

TRAIN, UNSEEN = ("a", "b", "c", "d"), ("e", "f")
FLIPS = {"a": 0.95, "b": 0.9, "c": 0.7, "d": 0.8, "e": 0.1, "f": 0.2}
"""Six sites, and in which share of its rows a column says the label: in most, and at unseen sites the opposite."""
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
LOG_LOSS = criterion("log-loss", classes=True)


class Chosen(NamedTuple):
    """A table, and the model that was chosen for its first sites."""

    known: Any
    new: Any
    model: InvariantClassifier
    printed: str


@pytest.fixture(scope="module")
def flips(sites) -> Callable[[int, tuple[str, ...]], Chosen]:
    @cache
    def chosen(seed: int, train: tuple[str, ...]) -> Chosen:
        table = sites(FLIPS, seed=seed)
        known, new = table.only(*train), table.only(*UNSEEN)
        with redirect_stdout(io.StringIO()) as printed:
            model = InvariantClassifier(verbose=True).fit(known.X, known.y, environments=known.site)
        return Chosen(known, new, model, printed.getvalue())

    return lambda seed, train=TRAIN: chosen(seed, train)


@pytest.mark.parametrize("train", [TRAIN, ("a", "c")], ids=["four sites", "two sites"])
@pytest.mark.parametrize("seed", SEEDS)
def test_at_unseen_sites_it_beats_what_leans_on_the_column_that_flips(flips, seed, train):
    known, new, model, _ = flips(seed, train)
    rivals = {
        "logistic regression": LogisticRegression().fit(known.X, known.y),
        "boosted trees": HistGradientBoostingClassifier(max_iter=30).fit(known.X, known.y),
        "our ERM": InvariantClassifier("erm").fit(known.X, known.y, environments=known.site),
    }
    own = model.score(new.X, new.y)
    assert model.choice_.method_name != "erm"
    assert model.choice_.varying == (5,)
    assert own > 0.65
    for name, rival in rivals.items():
        assert own > rival.score(new.X, new.y) + 0.1, name


def test_it_says_what_it_chose_and_why(flips):
    model = flips(0).model
    choice = model.choice_
    erm = choice.candidates[0]
    best = next(c for c in choice.candidates if c.method == choice.method)
    assert erm.method_name == "erm"
    assert choice.method == model.method_
    assert choice.reason == (
        "where the effects that vary between environments turn against the model, its risk is "
        f"{best.adverse_risk:.2f} of a constant's, and ERM's is {erm.adverse_risk:.2f}"
    )
    assert choice.p_value < 0.05


def test_the_worst_case_decides_not_the_average(flips):
    """Where the column helps at all the sites that are there, the average speaks for ERM."""
    known, _, model, _ = flips(0)
    choice = model.choice_
    assert choice.candidates[0].risk < min(c.risk for c in choice.candidates if c.method == choice.method)
    mean = InvariantClassifier(metric="mean-accuracy").fit(known.X, known.y, environments=known.site)
    assert mean.choice_.method_name == "erm"


def test_the_same_model_can_be_had_by_name_from_what_is_printed(flips):
    known, new, chosen, printed = flips(0)
    line = next(line for line in printed.splitlines() if line.startswith("chose "))
    call = ast.parse(f"fit({line.removeprefix('chose ').split(': ')[0]})", mode="eval").body
    method, hidden = (argument.value for argument in call.keywords)
    fields = {field.arg: ast.literal_eval(field.value) for field in method.keywords}
    assert method.func.id == "SubsetERM"
    again = InvariantClassifier(SubsetERM(**fields), hidden=ast.literal_eval(hidden))
    again.fit(known.X, known.y, environments=known.site)
    assert np.array_equal(again.predict_proba(new.X), chosen.predict_proba(new.X))
    exact = InvariantClassifier(chosen.choice_.method, recipe=chosen.choice_.recipe, hidden=chosen.choice_.hidden)
    exact.fit(known.X, known.y, environments=known.site)
    assert np.array_equal(exact.predict_proba(new.X), chosen.predict_proba(new.X))


def weekdays(said: Any, rng: np.random.Generator) -> Any:
    days = 7 * rng.integers(0, 100, len(said)) + np.where(said, 0, 3) + rng.integers(0, 3, len(said))
    return np.datetime64("2020-01-06") + days


CELLS = {
    "0 and 1": lambda said, rng: said.astype(float),
    "two names": lambda said, rng: np.where(said, "yes", "no"),
    "six names": lambda said, rng: np.char.add(np.where(said, "a", "b"), rng.integers(0, 3, len(said)).astype(str)),
    "weekday": weekdays,
    "missing": lambda said, rng: np.where(said, np.nan, rng.normal(size=len(said))),
    "text": lambda said, rng: np.char.add(
        np.where(said, "seen at once ", "sent on "), rng.choice(["a.", "b!"], len(said))
    ),
}
"""A column that says the label, as what tables hold."""


@pytest.fixture(scope="module")
def as_frame(sites) -> Callable[[str], tuple[Any, Any, Any, Any, Any]]:
    """The table that flips with its last column as other cells: known rows, labels, sites, and new rows and labels."""

    def made(cells: str) -> tuple[Any, Any, Any, Any, Any]:
        table = sites(FLIPS, rows=500, seed=3)
        frame = pd.DataFrame(table.X[:, :5], columns=list("abcde"))
        frame["cue"] = CELLS[cells](table.X[:, 5] > 0, np.random.default_rng(0))
        known = np.isin(table.site, TRAIN)
        return frame[known], table.y[known], table.site[known], frame[~known], table.y[~known]

    return made


@pytest.fixture(scope="module")
def flipped(as_frame) -> Callable[[str], tuple[InvariantClassifier, float]]:
    @cache
    def fitted(cells: str) -> tuple[InvariantClassifier, float]:
        X, y, site, new_X, new_y = as_frame(cells)
        model = InvariantClassifier().fit(X, y, environments=site)
        return model, model.score(new_X, new_y)

    return fitted


@pytest.mark.parametrize(
    ("cells", "parts"),
    [
        *[("two names", {"cue"}), ("missing", {"cue is missing"})],
        *(
            pytest.param(cells, {part}, marks=pytest.mark.slow)
            for cells, part in (("six names", "cue"), ("weekday", "cue: weekday"), ("text", "cue"))
        ),
    ],
)
def test_a_column_that_flips_is_left_whatever_its_cells_are(flipped, cells, parts):
    (number, expected), (model, score) = flipped("0 and 1"), flipped(cells)
    assert number.choice_.method_name == model.choice_.method_name == "subset-erm"
    assert {name for name, place in model.encoder_.parts if place.start in model.method_.without} == parts
    assert score == pytest.approx(expected, abs=0.01)


def test_a_pipeline_with_the_encoder_leaves_a_category_whole(as_frame):
    X, y, site = as_frame("six names")[:3]
    model = InvariantClassifier().fit(TableEncoder().fit_transform(X), y, environments=site)
    assert model.method_.without == tuple(range(5, 11))


@pytest.mark.parametrize(("share", "seed"), [(None, 0), (0.8, 2)], ids=["noise", "a law"])
def test_where_nothing_shifts_it_takes_erm_and_says_so(sites, capsys, share, seed):
    table = sites(dict.fromkeys((*TRAIN, *UNSEEN), share), seed=seed)
    known, new = table.only(*TRAIN), table.only(*UNSEEN)
    model = InvariantClassifier(verbose=True).fit(known.X, known.y, environments=known.site)
    assert model.choice_.method_name == "erm"
    assert "finds no effect of a column that varies between environments" in capsys.readouterr().out
    erm = InvariantClassifier("erm").fit(known.X, known.y, environments=known.site)
    assert model.score(new.X, new.y) == pytest.approx(erm.score(new.X, new.y), abs=0.005)


def test_a_hidden_layer_is_used_where_it_is_clearly_better(sites):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 2))
    where, noise = np.arange(900) % 3, rng.normal(size=900)
    curved, straight = X[:, 0] * X[:, 1] > 0.2 * noise, X[:, 0] > noise
    assert InvariantClassifier().fit(X, curved, environments=where).hidden_ == (32,)
    assert InvariantClassifier().fit(X, straight, environments=where).hidden_ == ()
    assert InvariantClassifier(hidden=()).fit(X, curved, environments=where).hidden_ == ()


def test_for_numbers_it_leaves_a_column_that_turns():
    rng = np.random.default_rng(0)

    def site(slope: float, rows: int) -> tuple[Any, Any]:
        cause = rng.normal(size=(rows, 2))
        y = cause.sum(1) + rng.normal(size=rows)
        return np.column_stack([cause, slope * y + rng.normal(size=rows)]), y

    parts = [site(slope, 400) for slope in (1.5, 1.0, 0.7, 0.4)]
    X, y = (np.concatenate(each) for each in zip(*parts, strict=True))
    where = np.repeat(np.arange(4), 400)
    new_X, new_y = site(-1.0, 2000)
    chosen = InvariantRegressor().fit(X, y, environments=where)
    assert chosen.choice_.varying == (2,)
    erm = InvariantRegressor("erm").fit(X, y, environments=where)
    assert chosen.score(new_X, new_y) > erm.score(new_X, new_y) + 0.2


def candidate(risk: float, adverse: float, method: str = "rex") -> Candidate:
    return Candidate(METHODS.create(method), risk, adverse, risk, adverse)


@pytest.mark.parametrize(
    ("others", "method"),
    [
        ([candidate(0.8, 0.8), candidate(0.7, 0.85)], "rex"),
        ([candidate(1.0, 0.5)], "erm"),
        ([candidate(0.5, 1.0)], "erm"),
        ([], "erm"),
    ],
    ids=["the least cost", "no better than a constant as it is", "no better than a constant there", "ERM alone"],
)
def test_the_worse_of_two_costs_decides_and_a_constant_is_out(others, method):
    choice = decide([candidate(0.6, 1.5, "erm"), *others], LOG_LOSS)
    assert choice.method_name == method
    assert choice.supported == (method != "erm")


@pytest.mark.parametrize(("adverse", "method"), [(0.67, "rex"), (0.69, "erm")], ids=["enough", "too little"])
def test_a_small_gain_is_no_reason_to_leave_erm(adverse, method):
    choice = decide([candidate(0.6, 0.8, "erm"), candidate(0.65, adverse)], LOG_LOSS)
    assert choice.method_name == method
    assert choice.supported


@pytest.mark.parametrize(("probability", "method"), [(0.4, "erm"), (0.8, "rex")], ids=["unlikely", "likely"])
def test_the_adverse_site_counts_as_far_as_effects_are_likely_to_vary(probability, method):
    choice = decide([candidate(0.6, 1.2, "erm"), candidate(0.8, 0.8)], LOG_LOSS, probability)
    assert choice.method_name == method
    assert ("may vary (with a probability of 40 %)" in choice.reason) == (method == "erm")


def test_erm_is_not_out_for_a_site_that_hardly_exists():
    candidates = [candidate(0.6, 3.0, "erm"), candidate(0.8, 0.8)]
    assert decide(candidates, LOG_LOSS, 0.05).method_name == "erm"
    assert decide(candidates, LOG_LOSS, 0.5).method_name == "rex"


@pytest.mark.parametrize(
    ("cost", "method"), [(0.69, "subset-erm"), (0.67, "rex")], ids=["about as good", "clearly better"]
)
def test_a_column_is_left_out_unless_another_method_gains_more(cost, method):
    candidates = [candidate(0.6, 1.5, "erm"), candidate(cost, cost), candidate(0.8, 0.8, "subset-erm")]
    assert decide(candidates, LOG_LOSS).method_name == method


@pytest.mark.parametrize(("cost", "left_out"), [(0.69, (4,)), (0.67, (2, 4))], ids=["about as good", "clearly better"])
def test_a_second_column_is_left_out_only_where_that_gains_more(cost, left_out):
    one, two = (METHODS.create("subset-erm", {"without": columns}) for columns in ((4,), (2, 4)))
    subsets = [Candidate(two, cost, cost, cost, cost), Candidate(one, 0.8, 0.8, 0.8, 0.8)]
    choice = decide([candidate(0.6, 1.5, "erm"), *subsets], LOG_LOSS)
    assert choice.method.without == left_out


def test_the_most_significant_columns_are_left_out_first_and_never_all():
    assert auto.subsets(((4,), (2,)), inputs=6) == [(4,), (2, 4)]
    assert auto.subsets(((5,), (4,), (3,), (2,), (1,)), inputs=6) == [(5,), (4, 5), (3, 4, 5), (1, 2, 3, 4, 5)]
    assert auto.subsets(((3, 4, 5), (1,)), inputs=6) == [(3, 4, 5), (1, 3, 4, 5)]
    assert auto.subsets(((1,), (0,)), inputs=2) == [(1,)]
    assert auto.subsets((), inputs=3) == []


def test_a_choice_is_the_same_after_a_round_trip(flips):
    choice = flips(0).model.choice_
    assert Choice.from_json(choice.to_json()) == choice


def test_the_same_choice_every_time(small, quick):
    choices = [
        InvariantClassifier(recipe=quick).fit(small.X, small.y, environments=small.site).choice_ for _ in range(2)
    ]
    assert choices[0] == choices[1]


def made(many: int) -> list[Environment]:
    return [Environment(f"{e:03d}", torch.zeros(4, 1), torch.zeros(4)) for e in range(many)]


@pytest.mark.parametrize("many", [3, 5, 6, 200])
def test_many_environments_are_left_out_in_five_parts_and_each_once(many):
    environments = made(many)
    parts = folds(environments, 0)
    assert len(parts) == min(5, many)
    left_out = [e.name for _, held in parts for e in held]
    assert sorted(left_out) == [e.name for e in environments]
    for train, held in parts:
        assert {e.name for e in train} | {e.name for e in held} == {e.name for e in environments}
        assert len(train) + len(held) == many


def test_of_a_large_table_a_sample_takes_part_in_choosing(monkeypatch, quick):
    sizes = []
    monkeypatch.setattr(auto, "MAX_ENVIRONMENTS", 6)
    monkeypatch.setattr(auto, "MAX_ROWS", 60)
    original = auto.adverse_site
    monkeypatch.setattr(
        auto, "adverse_site", lambda *given: sizes.append([len(e) for e in given[0]]) or original(*given)
    )
    rng = np.random.default_rng(0)
    X, site = rng.normal(size=(800, 2)), np.repeat(np.arange(40), 20)
    model = InvariantClassifier(recipe=quick).fit(X, X[:, 0] > 0, environments=site)
    assert len(model.environments_) == 40
    assert sizes == [[10] * 6]
