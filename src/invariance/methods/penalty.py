"""A method's penalty alone, for a training loop that is not ours: plain torch, Lightning, any other."""

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from invariance.core.batch import Batch
from invariance.core.errors import BadValue
from invariance.core.families import Bernoulli, Categorical, Family, Gaussian
from invariance.core.seeding import generator
from invariance.methods import METHODS
from invariance.methods.base import Method, PenalisedMethod
from invariance.methods.fishr import Fishr
from invariance.models.base import Model
from invariance.recipes.schedules import Clock

NOW = Clock(step=0, steps=1, switch=0)


@dataclass(frozen=True, eq=False)
class Penalty:
    """P(outputs, y, environment), a number to add to your loss, with a weight of your choice.

    ``outputs`` are logits, or predicted numbers, [n] or [n, K]; ``y`` [n] are classes as whole numbers, or numbers;
    ``environment`` [n] says where each row comes from, by whole numbers in any order. Penalties that look at the last
    layer take its inputs as ``features`` [n, d]; that layer must be linear, with a bias.
    """

    method: PenalisedMethod
    family: Family | None = None
    random: torch.Generator = field(default_factory=lambda: generator(0, "penalty"), repr=False)

    def __call__(self, outputs: Tensor, y: Tensor, environment: Tensor, *, features: Tensor | None = None) -> Tensor:
        f = outputs.unsqueeze(-1) if outputs.ndim == 1 else outputs
        _check(f, y, environment)
        codes, order = environment.flatten().sort(stable=True)
        counts = torch.unique_consecutive(codes, return_counts=True)[1].tolist()
        if len(counts) < 2:
            raise BadValue("a batch with rows of one environment has no penalty; draw rows of at least two into each")
        f, y = f[order], y[order]
        family = self.family or _family(f, y)
        y = family.check(y, "y")
        z = self._features(features, order)
        batch = Batch(z, y.to(f.dtype) if y.is_floating_point() else y, tuple(counts), family)
        head = nn.utils.skip_init(nn.Linear, max(1, z.shape[1]), f.shape[1], device=f.device, dtype=f.dtype)
        model = self.method.prepare(Model(nn.Identity(), head), len(counts), self.random).to(f.device)
        self.method.before(model, NOW, self.random)
        return self.method.penalty(batch, model, z, f)

    def _features(self, features: Tensor | None, order: Tensor) -> Tensor:
        """Features in the order of the batch; none where the penalty reads none."""
        if not self.method.reads_features:
            return torch.empty(len(order), 0, device=order.device)
        if features is None or features.ndim != 2 or len(features) != len(order):
            got = "none" if features is None else f"shape {tuple(features.shape)}"
            raise BadValue(
                f"{self.method.title} looks at what the last layer takes: give features=z of shape [n, d]; got {got}"
            )
        return features[order]


def penalty(method: str | Method, *, family: Family | None = None) -> Penalty:
    """The penalty of a method, by name or with fields of your own, for another training loop.

    Example:
        >>> import torch
        >>> logits, y = torch.tensor([2.0, -1.0, 0.5, -3.0]), torch.tensor([1, 0, 1, 1])
        >>> bool(penalty("irmv1")(logits, y, torch.tensor([0, 0, 1, 1])) > 0)
        True

    """
    chosen = METHODS.create(method) if isinstance(method, str) else method
    if not isinstance(chosen, PenalisedMethod) or not chosen.standalone:
        usable = [n for n, c in METHODS.classes.items() if issubclass(c, PenalisedMethod) and c.standalone]
        raise BadValue(
            f"{chosen.title} is more than a penalty on outputs, so another loop cannot add it to a loss; "
            f"train it with invariance.train, or use one of {', '.join(usable)}"
        )
    if isinstance(chosen, Fishr) and chosen.ema:
        raise BadValue(f"Fishr's moving average (ema={chosen.ema:g}) needs invariance.train; use ema=0 here")
    return Penalty(chosen, family)


def _check(f: Tensor, y: Tensor, environment: Tensor) -> None:
    if f.ndim != 2 or y.shape != f.shape[:1] or environment.shape != y.shape:
        shapes = ", ".join(str(tuple(each.shape)) for each in (f, y, environment))
        raise BadValue(f"outputs, y and environment have shapes {shapes}; expected [n] or [n, K], [n] and [n]")
    if not f.is_floating_point():
        raise BadValue(f"outputs are {f.dtype}; expected logits or predicted numbers as floating point")
    if environment.is_floating_point():
        raise BadValue(f"environment is {environment.dtype}; expected one whole number per row: use .long()")


def _family(f: Tensor, y: Tensor) -> Family:
    """Classes where y holds whole numbers by type; a mixture of both is refused, not guessed."""
    if not y.is_floating_point():
        return Bernoulli() if f.shape[1] == 1 else Categorical(f.shape[1])
    if bool(((y == 0) | (y == 1)).all()):
        raise BadValue("y holds 0.0 and 1.0 as floating point; give y.long() for classes, or family=Gaussian()")
    return Gaussian()
