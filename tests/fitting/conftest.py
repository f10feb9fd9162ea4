"""Assessments by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from invariance.fitting.assess import AssessedModel, Assessment
from invariance.fitting.by_environment import EnvironmentScore
from invariance.fitting.importance import PermutationImportance


def environment_score(name: str, accuracy: float, confidence: float = 0.8, half: float = 0.04) -> EnvironmentScore:
    values = {"accuracy": accuracy, "auc": accuracy, "confidence": confidence, "calibration-error": 0.1}
    return EnvironmentScore(name, 400, accuracy, accuracy - half, accuracy + half, 0.5, values)


def assessed_model(title: str, new: dict[str, float], *, tint: float, adverse: float | None = None) -> AssessedModel:
    known = tuple(environment_score(name, 0.9) for name in new)
    left_out = tuple(environment_score(name, accuracy) for name, accuracy in new.items())
    drops = {n: tint * (accuracy - 0.7) for n, accuracy in new.items()}
    importances = (
        PermutationImportance("crp", 0.3, dict.fromkeys(new, 0.3), dict.fromkeys(new, 0.2)),
        PermutationImportance("tint", tint, dict.fromkeys(new, tint), drops),
    )
    points = ((0.55, 0.5, 100), (0.75, 0.7, 200), (0.95, 0.8, 300))
    return AssessedModel(title, known, left_out, (), points, importances, adverse)


@pytest.fixture
def assessment() -> Callable[..., Assessment]:
    """IRMv1 beside ERM, or the other way round, at these sites when they were left out."""

    def make(
        own: dict[str, float],
        other: dict[str, float],
        method: str = "IRMv1",
        adverse: tuple[float, float] | None = None,
        **changes,
    ) -> Assessment:
        names = (method, "IRMv1" if method == "ERM" else "ERM")
        turned = adverse or (None, None)
        model, baseline = (
            assessed_model(title, new, tint=0.4 if title == "ERM" else 0.02, adverse=at)
            for title, new, at in zip(names, (own, other), turned, strict=True)
        )
        classes = (("no", 1200), ("yes", 1200))
        varying = ("tint",) if adverse else None
        made = Assessment(model, baseline, "its risk is lower", classes, 2400, len(own), varying=varying)
        return replace(made, **changes)

    return make
