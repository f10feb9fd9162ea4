"""What ``method="auto"`` takes, and what it is worth where nobody trained."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from invariance.core.environment import Environment
from invariance.estimators import auto, defaults
from invariance.estimators.auto import Candidate, folds
from invariance.estimators.classifier import InvariantClassifier

TRAIN, UNSEEN = ("a", "b", "c", "d"), ("e", "f")
FLIPS = {"a": 0.95, "b": 0.9, "c": 0.5, "d": 0.8, "e": 0.1, "f": 0.2}
"""Six sites, and in which share of its rows a column says the label: in most, and at unseen sites the opposite."""
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]


class Chosen(NamedTuple):
    """A table, and the model that was chosen for its first four sites."""

    known: Any
    new: Any
    model: InvariantClassifier


@pytest.fixture(scope="module")
def flips(sites) -> Callable[[int], Chosen]:
    @cache
    def chosen(seed: int) -> Chosen:
        table = sites(FLIPS, seed=seed)
        known, new = table.only(*TRAIN), table.only(*UNSEEN)
        return Chosen(known, new, InvariantClassifier().fit(known.X, known.y, environments=known.site))

    return chosen


@pytest.mark.parametrize("seed", SEEDS)
def test_at_unseen_sites_it_beats_what_leans_on_the_column_that_flips(flips, seed):
    known, new, model = flips(seed)
    rivals = {
        "logistic regression": LogisticRegression().fit(known.X, known.y),
        "boosted trees": HistGradientBoostingClassifier(max_iter=30).fit(known.X, known.y),
        "our ERM": InvariantClassifier("erm").fit(known.X, known.y, environments=known.site),
    }
    own = model.score(new.X, new.y)
    assert model.choice_.method != "erm"
    assert own > 0.65
    for name, rival in rivals.items():
        assert own > rival.score(new.X, new.y) + 0.1, name


def test_it_says_what_it_chose_and_why(flips):
    model = flips(0).model
    choice = model.choice_
    erm, *others = choice.candidates
    best = max(others, key=lambda candidate: candidate.gain)
    assert erm.method == "erm"
    assert choice.method == best.method
    assert choice.objective == model.objective_
    worst, before = (max(candidate.risks.values()) for candidate in (best, erm))
    assert choice.reason == (
        f"its risk (mean loss) is {worst:.4f} at worst and {best.risk:.4f} on average in environments left out of "
        f"training, and ERM's is {before:.4f} at worst and {erm.risk:.4f} on average"
    )
    assert best.gain == pytest.approx((2 * before - erm.risk) - (2 * worst - best.risk))
    assert best.gain > max(0.05, 2 * best.error)
    assert best.error > 0
    assert sorted(choice.scores) == list(TRAIN)
    assert choice.scores == best.scores


def test_what_is_gained_in_extrapolated_worst_case_risk_decides_not_on_average(flips):
    """Where the column helps at most of the sites that are there, the average speaks for ERM."""
    choice = flips(0).model.choice_
    assert choice.candidates[0].risk < _own(choice).risk


def _own(choice: auto.Choice) -> auto.Candidate:
    return next(c for c in choice.candidates if c.objective == choice.objective)


@pytest.mark.parametrize(("share", "seed"), [(None, 0), (0.8, 2)], ids=["noise", "a law"])
def test_where_nothing_shifts_it_takes_erm_and_says_so(sites, capsys, share, seed):
    table = sites(dict.fromkeys((*TRAIN, *UNSEEN), share), seed=seed)
    known, new = table.only(*TRAIN), table.only(*UNSEEN)
    model = InvariantClassifier(verbose=True).fit(known.X, known.y, environments=known.site)
    assert model.choice_.method == "erm"
    assert "chose erm: no method gains enough over ERM" in capsys.readouterr().out
    erm = InvariantClassifier("erm").fit(known.X, known.y, environments=known.site)
    assert model.score(new.X, new.y) == pytest.approx(erm.score(new.X, new.y), abs=0.005)


def compared(*gains: tuple[float, float]) -> list[Candidate]:
    """ERM, and candidates of some gains with their errors."""
    erm = defaults.objective("erm")
    return [Candidate("erm", erm, {"a": 1.0}, {"a": 0.5})] + [
        Candidate(f"number {i}", erm, {"a": 1 - gain}, {"a": 0.5}, gain, error) for i, (gain, error) in enumerate(gains)
    ]


@pytest.mark.parametrize(
    ("gains", "method"),
    [
        ([(0.3, 0.1), (0.2, 0.01)], "number 0"),
        ([(0.3, 0.2), (-0.1, 0.01)], "erm"),
        ([(0.04, 0.001)], "erm"),
        ([], "erm"),
    ],
    ids=["the largest gain", "a gain in doubt", "a gain too small to matter", "nothing but ERM"],
)
def test_a_gain_counts_if_it_is_beyond_doubt_and_matters(gains, method):
    assert auto.decide(compared(*gains)).method == method


def test_the_same_choice_every_time(small, quick):
    choices = [
        InvariantClassifier(recipe=quick).fit(small.X, small.y, environments=small.site).choice_ for _ in range(2)
    ]
    assert choices[0] == choices[1]


def test_two_environments_are_too_few_to_choose_by(small, quick):
    rows = small.site != "Bern"
    model = InvariantClassifier(recipe=quick).fit(small.X[rows], small.y[rows], environments=small.site[rows])
    assert model.choice_.method == "erm"
    assert "two environments" in model.choice_.reason


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
    monkeypatch.setattr(auto, "MAX_ENVIRONMENTS", 6)
    monkeypatch.setattr(auto, "MAX_ROWS", 60)
    rng = np.random.default_rng(0)
    X, site = rng.normal(size=(800, 2)), np.repeat(np.arange(40), 20)
    model = InvariantClassifier(recipe=quick).fit(X, X[:, 0] > 0, environments=site)
    assert len(model.environments_) == 40
    assert len(model.choice_.candidates[0].risks) == 6
