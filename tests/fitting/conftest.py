"""Assessments by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from invariance.fitting.assess import AssessedModel, Assessment
from invariance.fitting.by_environment import EnvironmentScore
from invariance.fitting.importance import PermutationImportance


def assessed_model(title: str, new: dict[str, float], *, tint: float, confidence: float = 0.8) -> AssessedModel:
    known = tuple(EnvironmentScore(n, 400, 0.9, 0.87, 0.93, confidence, 0.04, 0.5) for n in new)
    left_out = tuple(EnvironmentScore(n, 400, a, a - 0.04, a + 0.04, confidence, 0.1, 0.5) for n, a in new.items())
    drops = {n: tint * (accuracy - 0.7) for n, accuracy in new.items()}
    importances = (
        PermutationImportance("crp", 0.3, dict.fromkeys(new, 0.3), dict.fromkeys(new, 0.2)),
        PermutationImportance("tint", tint, dict.fromkeys(new, tint), drops),
    )
    points = ((0.55, 0.5, 100), (0.75, 0.7, 200), (0.95, 0.8, 300))
    return AssessedModel(title, known, left_out, (), points, importances)


@pytest.fixture
def assessment() -> Callable[..., Assessment]:
    """IRMv1 beside ERM, or the other way round, at these sites when they were left out."""

    def make(own: dict[str, float], erm: dict[str, float], method: str = "IRMv1", **changes) -> Assessment:
        model, baseline = assessed_model(method, own, tint=0.02), assessed_model("ERM", erm, tint=0.4)
        if method == "ERM":
            model, baseline = assessed_model("ERM", own, tint=0.4), assessed_model("IRMv1", erm, tint=0.02)
        classes = (("no", 1200), ("yes", 1200))
        return replace(Assessment(model, baseline, "its risk is lower", classes, len(own)), **changes)

    return make
