"""What ``method="auto"`` takes, and what it is worth where nobody trained."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from invariance.core import Environment
from invariance.estimators import auto
from invariance.estimators.auto import folds
from invariance.estimators.classifier import InvariantClassifier

TRAIN, UNSEEN = ("a", "b", "c", "d"), ("e", "f")


@pytest.fixture(scope="module")
def flips(sites):
    """Six sites, and a column that says the label in most rows, except where it says the opposite."""
    return sites({"a": 0.98, "b": 0.95, "c": 0.3, "d": 0.9, "e": 0.1, "f": 0.05})


@pytest.fixture(scope="module")
def chosen(flips):
    known = flips.only(*TRAIN)
    return InvariantClassifier().fit(known.X, known.y, environments=known.site)


def test_at_unseen_sites_it_beats_what_leans_on_the_column_that_flips(flips, chosen):
    known, new = flips.only(*TRAIN), flips.only(*UNSEEN)
    rivals = {
        "logistic regression": LogisticRegression().fit(known.X, known.y),
        "boosted trees": HistGradientBoostingClassifier(max_iter=30).fit(known.X, known.y),
        "our ERM": InvariantClassifier("erm").fit(known.X, known.y, environments=known.site),
    }
    own = chosen.score(new.X, new.y)
    assert chosen.choice_.method != "erm"
    assert own > 0.7
    for name, rival in rivals.items():
        assert own > rival.score(new.X, new.y) + 0.1, name


def test_it_says_what_it_chose_and_why(flips, chosen):
    choice = chosen.choice_
    erm, *others = choice.candidates
    best = min(others, key=lambda candidate: candidate.risk)
    assert erm.method == "erm"
    assert choice.method == best.method
    assert choice.objective == chosen.objective_
    assert choice.reason == (f"in environments left out of training its risk is {best.risk:.4f}, ERM's {erm.risk:.4f}")
    assert best.gain == pytest.approx(erm.risk - best.risk)
    assert best.gain > 2 * best.error > 0
    assert sorted(choice.scores) == list(TRAIN)
    assert choice.scores == best.scores


def test_where_nothing_shifts_it_takes_erm_and_says_so(sites, capsys):
    table = sites(dict.fromkeys((*TRAIN, *UNSEEN)))
    known, new = table.only(*TRAIN), table.only(*UNSEEN)
    model = InvariantClassifier(verbose=True).fit(known.X, known.y, environments=known.site)
    assert model.choice_.method == "erm"
    assert "chose erm: nothing is gained over ERM" in capsys.readouterr().out
    erm = InvariantClassifier("erm").fit(known.X, known.y, environments=known.site)
    assert model.score(new.X, new.y) == pytest.approx(erm.score(new.X, new.y), abs=0.005)


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
    monkeypatch.setattr(auto, "MOST_ENVIRONMENTS", 6)
    monkeypatch.setattr(auto, "MOST_ROWS", 60)
    rng = np.random.default_rng(0)
    X, site = rng.normal(size=(800, 2)), np.repeat(np.arange(40), 20)
    model = InvariantClassifier(recipe=quick).fit(X, X[:, 0] > 0, environments=site)
    assert len(model.environments_) == 40
    assert len(model.choice_.candidates[0].risks) == 6
