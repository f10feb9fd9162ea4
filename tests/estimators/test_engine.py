"""Models that only serve a choice, trained on a real Ray cluster."""

import numpy as np
import pytest

from invariance import InvariantClassifier, UnknownName


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A stable column, and one whose relation to the label changes between four environments."""
    random = np.random.default_rng(seed)
    environments = np.repeat(np.arange(4), 300)
    y = random.integers(0, 2, len(environments))
    stable = y + random.normal(0, 1, len(y))
    flipped = random.random(len(y)) < np.array([0.05, 0.1, 0.2, 0.8])[environments]
    return np.c_[stable, y ^ flipped], y, environments


def test_an_unknown_engine_is_refused_by_name():
    X, y, environments = rows()
    with pytest.raises(UnknownName, match="no engine is called 'rya'"):
        InvariantClassifier(engine="rya").fit(X, y, environments=environments)


@pytest.mark.slow
def test_a_choice_on_a_cluster_is_the_choice_here(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_worker_niceness", "0")  # else a busy machine gives its workers nothing
    X, y, environments = rows()
    here, there = (
        InvariantClassifier(selection="leave-one-environment-out", engine=engine).fit(X, y, environments=environments)
        for engine in ("local", "ray")
    )
    import ray

    ray.shutdown()
    assert there.choice_ == here.choice_
    assert np.array_equal(there.predict_proba(X), here.predict_proba(X))
