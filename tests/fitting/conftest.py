"""Assessments by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from invariance.fitting.assess import Assessment, Examined
from invariance.fitting.by_environment import EnvironmentScore
from invariance.fitting.importance import PermutationImportance


def examined(title: str, new: dict[str, float], *, tint: float, confidence: float = 0.8) -> Examined:
    known = tuple(EnvironmentScore(n, 400, 0.9, 0.87, 0.93, confidence, 0.04, 0.5) for n in new)
    left = tuple(
        EnvironmentScore(n, 400, right, right - 0.04, right + 0.04, confidence, 0.1, 0.5) for n, right in new.items()
    )
    drops = {n: tint * (right - 0.7) for n, right in new.items()}
    importances = (
        PermutationImportance("crp", 0.3, dict.fromkeys(new, 0.3), dict.fromkeys(new, 0.2)),
        PermutationImportance("tint", tint, dict.fromkeys(new, tint), drops),
    )
    points = ((0.55, 0.5, 100), (0.75, 0.7, 200), (0.95, 0.8, 300))
    return Examined(title, known, left, (), points, importances)


@pytest.fixture
def assessment() -> Callable[..., Assessment]:
    """IRMv1 beside ERM, or the other way round, at these sites when they were left out."""

    def make(own: dict[str, float], erm: dict[str, float], method: str = "IRMv1", **changes) -> Assessment:
        model, baseline = examined(method, own, tint=0.02), examined("ERM", erm, tint=0.4)
        if method == "ERM":
            model, baseline = examined("ERM", own, tint=0.4), examined("IRMv1", erm, tint=0.02)
        classes = (("no", 1200), ("yes", 1200))
        return replace(Assessment(model, baseline, "its risk is lower", classes, len(own)), **changes)

    return make
