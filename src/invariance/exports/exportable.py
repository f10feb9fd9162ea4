"""What is exported of a trained model: one module from numbers to predictions, and how columns become these numbers."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from invariance.core.errors import BadValue
from invariance.core.families import Family
from invariance.estimators.base import Invariant
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.regressor import InvariantRegressor
from invariance.experiments.saved import TrainedRun
from invariance.models.base import Model
from invariance.tabular.encoder import Encoder


class Answers(nn.Module):
    """Rows of numbers to probabilities [n, K], or to numbers [n, 1], in double precision, as ``predict`` gives them."""

    def __init__(self, model: Model, *, classes: bool, mean: float = 0.0, scale: float = 1.0) -> None:
        super().__init__()
        self.features, self.head = model.features, model.head
        self.classes, self.mean, self.scale = classes, mean, scale

    def forward(self, x: Tensor) -> Tensor:
        """Predictions of some rows."""
        f = self.head(self.features(x)).double()
        if not self.classes:
            return self.mean + self.scale * f
        return torch.sigmoid(torch.cat([-f, f], dim=1)) if f.shape[1] == 1 else torch.softmax(f, 1)


@dataclass(frozen=True, eq=False)
class Exportable:
    """A model on the CPU in evaluation mode, the shape and type of a row, and what its outputs are called.

    ``encoder`` says how the columns of a table become a row; ``classes`` are None for numbers, and ``scale`` is then
    the standard deviation of the training targets.
    """

    answers: Answers
    shape: tuple[int, ...]
    dtype: torch.dtype
    classes: NDArray[Any] | None
    encoder: Encoder | None = None
    scale: float = 1.0

    def probe(self, rows: int) -> Tensor:
        """Rows of drawn numbers, within a unit or so of zero."""
        return torch.randn(rows, *self.shape, dtype=self.dtype, generator=torch.Generator().manual_seed(0))

    def predicted(self, x: Tensor) -> Tensor:
        """The model's own predictions."""
        with torch.no_grad():
            return self.answers(x.to(self.dtype))


def exportable(model: Any) -> Exportable:
    """What can be exported of an estimator or a run."""
    if isinstance(model, TrainedRun):
        return _of_run(model)
    if isinstance(model, Invariant) and hasattr(model, "module_"):
        return _of_estimator(model)
    raise BadValue(f"cannot export a {type(model).__name__}; give a fitted estimator, a run or the folder of one")


def _of_run(trained: TrainedRun) -> Exportable:
    family: Family = trained.benchmark.family
    module = _copy(trained.model)
    classes = torch.arange(family.labels).numpy() if family.labels else None
    answers = Answers(module, classes=classes is not None).eval()
    return Exportable(answers, trained.benchmark.input_shape, _dtype(module), classes)


def _of_estimator(estimator: Invariant) -> Exportable:
    module = _copy(estimator.module_)
    mean, scale, classes = 0.0, 1.0, None
    if isinstance(estimator, InvariantClassifier):
        classes = estimator.classes_
    elif isinstance(estimator, InvariantRegressor):
        mean, scale = estimator.target_mean_, estimator.target_scale_
    answers = Answers(module, classes=classes is not None, mean=mean, scale=scale).eval()
    return Exportable(answers, estimator.input_shape_, _dtype(module), classes, estimator.encoder_, scale)


def _copy(model: Model) -> Model:
    """The model on the CPU, ready to predict and not to train; the user's own stays as it is."""
    return deepcopy(model).cpu().eval().requires_grad_(False)


def _dtype(module: Model) -> torch.dtype:
    return next(module.parameters()).dtype
