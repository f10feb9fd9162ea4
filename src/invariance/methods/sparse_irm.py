"""SparseIRM: an invariance penalty on a network whose weights are gated and mostly kept."""

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, cast, final

import torch
from pydantic import Field
from pydantic.dataclasses import dataclass
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.func import functional_call

from invariance.core.batch import Batch
from invariance.core.fields import STRICT, NonNegative, Positive, Share
from invariance.methods.base import Divisor, Estimator, PenalisedMethod, Player, risk_alone, squared_norm
from invariance.methods.irmv1 import scale_gradient
from invariance.models.base import Model
from invariance.models.scratch import borrowed
from invariance.recipes.presets import Preferences
from invariance.recipes.schedules import Clock
from invariance.recipes.search import LogRange, Range, SearchSpace

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input

TINY = 1e-20
HALVINGS = 20
"""Of the interval in which a projection looks for its shift."""
SECANTS = 4
"""Steps towards it before that, at most."""


class Masked(nn.Module):
    """A module whose weights (not biases) are multiplied by masks in [0, 1].

    In training the mask is a relaxed Bernoulli, m = σ((logit s + noise)/T); in evaluation it is 1[s > ½]. Scores that
    do not learn yet are 1, and so are their masks.
    """

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.names = [name for name, p in inner.named_parameters() if p.ndim > 1]
        weights = dict(inner.named_parameters())
        self.scores = nn.ParameterList([torch.ones_like(weights[name]) for name in self.names])
        for i, score in enumerate(self.scores):
            self.register_buffer(f"noise{i}", torch.zeros_like(score), persistent=False)
        self.temperature = 1.0

    @property
    def learns(self) -> bool:
        """Whether masks matter: scores are learned."""
        return any(score.requires_grad for score in self.scores)

    @torch.no_grad()
    def draw(self, temperature: float, generator: torch.Generator) -> None:
        """New logistic noise for the next forward passes."""
        self.temperature = temperature
        for noise in self.buffers(recurse=False) if self.learns else ():
            drawn = noise if noise.device.type == "cpu" else torch.empty_like(noise, device="cpu")
            noise.copy_(drawn.uniform_(generator=generator)).logit_(eps=1e-7)

    def masked(self, weight: Tensor, score: Tensor, noise: Tensor) -> Tensor:
        """A weight tensor times its mask."""
        if not self.training:
            return weight * (score > 0.5).to(score.dtype)
        return _Masked.apply(weight, score, noise, self.temperature)  # type: ignore[no-untyped-call]

    def forward(self, x: Tensor) -> Tensor:
        """The inner module with masked weights."""
        if self.training and not self.learns:
            return cast("Tensor", self.inner(x))
        weights = dict(self.inner.named_parameters())
        masked = {
            name: self.masked(weights[name], score, noise)
            for name, score, noise in zip(self.names, self.scores, self.buffers(recurse=False), strict=True)
        }
        return functional_call(self.inner, masked, (x,))


class _Masked(torch.autograd.Function):
    """w ⊙ m, m = σ((log a − log b + noise)/T) with a = s + tiny, b = 1 − s + tiny, in few passes over the weights."""

    @staticmethod
    def forward(ctx: Any, w: Tensor, s: Tensor, noise: Tensor, temperature: float) -> Tensor:
        ctx.memory, ctx.temperature = borrowed(), temperature
        a, b, m, ctx.spare = (ctx.memory.take(s.shape, s) for _ in range(4))
        least, most = (float(each) for each in torch.aminmax(s))
        ctx.inside = least >= 0 and most <= 1  # a recipe may look around the scores
        clamped = s if ctx.inside else torch.clamp(s, 0, 1, out=a)
        torch.sub(1, clamped, out=b).add_(TINY)
        torch.add(clamped, TINY, out=a)
        torch.log(a, out=m).sub_(torch.log(b, out=ctx.spare)).add_(noise).div_(temperature).sigmoid_()
        ctx.save_for_backward(w, s, a, b, m)
        return w * m

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d: Tensor) -> tuple[Tensor | None, ...]:
        w, s, a, b, m = ctx.saved_tensors
        if not ctx.needs_input_grad[1]:
            return d * m, None, None, None
        slope = torch.mul(d, w, out=ctx.spare)
        slope = sigmoid_backward(slope, m, grad_input=slope).div_(ctx.temperature)
        by_score = (slope / a).add_(slope.div_(b))
        if not ctx.inside:
            by_score.masked_fill_((s < 0).logical_or_(s > 1), 0)
        return d * m, by_score, None, None


@torch.no_grad()
def project(scores: list[Tensor], budget: float) -> None:
    """Move scores to clip(s − v, 0, 1) with the least v ≥ 0 such that their sum is within ``budget``."""
    memory = borrowed()
    moved = [memory.take(s.shape, s) for s in scores]

    def excess(v: float) -> float:
        parts = zip(scores, moved, strict=True)
        return sum(float(torch.sub(s, v, out=m).clamp_(0, 1).sum()) for s, m in parts) - budget

    at_zero = excess(0.0)
    v = _root(excess, at_zero, max(float(s.max()) for s in scores), sum(map(torch.numel, scores))) if at_zero > 0 else 0
    for s in scores:
        s.sub_(v).clamp_(0, 1)


def _root(excess: Callable[[float], float], at_zero: float, high: float, scores: int) -> float:
    """Where an excess that falls, by ``scores`` per unit at most, ends in (0, ``high``]: from above, by bisection.

    Rounded sums fall, too, so what the bisection asks beyond a known place needs no sum. A few steps of the secant
    method make places known on both sides of the root.
    """
    above, below, cell = 0.0, high, high / 2**HALVINGS

    def measured(v: float) -> float:
        nonlocal above, below
        found = excess(v)
        above, below = (max(v, above), below) if found > 0 else (above, min(v, below))
        return found

    before, v, more = 0.0, at_zero / scores, at_zero
    for _ in range(SECANTS):
        less = measured(v)
        if abs(v - before) < cell or more == less:
            break
        before, v, more = v, v + less * (v - before) / (more - less), less
    for near in (v - cell, v + cell):
        measured(near)
    low = 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        exceeds = middle <= above or (middle < below and measured(middle) > 0)
        low, high = (middle, high) if exceeds else (low, middle)
    return high


@final
@dataclass(frozen=True, config=STRICT)
class SparseIRM(PenalisedMethod):
    r"""min_{w,θ,s}  E_{m~s}[ mean_e R^e + γ P ](m ⊙ (w, θ))   subject to   Σ s ≤ ρ_t · (number of weights)

    Every weight has a keep-probability s, which learns through a relaxed Bernoulli mask whose temperature
    falls from 1 to 0.03. The budget ρ_t falls from 1 to ``keep`` between the shares ``start`` and ``end`` of
    the run, as a cubic; s stays 1 until ``start``.
    """

    title: ClassVar[str] = "SparseIRM"
    formula: ClassVar[str] = "min_{w,θ,s} E_{m~Bernoulli(s)} mean_e [ R^e + γ P^e ](m ⊙ (w,θ)),  Σs ≤ ρ·dim"
    reads_features: ClassVar[bool] = False
    standalone: ClassVar[bool] = False
    citation: ClassVar[str] = "Zhou et al., Sparse invariant risk minimization, ICML 2022"
    differs: ClassVar[tuple[str, ...]] = (
        "The penalty is IRMv1's; the authors' Colored-MNIST command uses REx's (penalty_of='rex'), as two-phase does.",
        "Evaluation uses the mask 1[s > ½] in place of a random one.",
        "γ is 10⁶ as in the ICLR 2023 paper; the authors' code has 10⁴. With the recipe two-phase it is 500.",
    )
    preferences: ClassVar[Preferences] = {"full-batch": {"lr": 6e-4}, "small-batch": {"lr": 6e-4}}
    search: ClassVar[SearchSpace] = {
        **PenalisedMethod.search,
        "method.keep": Range(0.5, 1.0),
        "method.score_rate": LogRange(1.0, 100.0),
    }
    profiles: ClassVar[Preferences] = {
        "debiased": {"gamma": 1.0, "gamma_alone": 500.0},
        "two-phase": {"gamma": 500.0, "penalty_of": "rex", "start": 0.61, "end": 0.75},
    }

    gamma_before: NonNegative = 0.0
    """The weight of the penalty during the warm-up."""
    divide_by: Divisor = "1+gamma"
    """What the whole sum is divided by, so that gradients keep their size."""
    l2: NonNegative = 1e-3
    """The weight of ‖parameters‖². As in the authors' Colored-MNIST command."""
    penalty_of: Literal["irmv1", "rex"] = "irmv1"
    """Whose penalty P is."""
    estimator: Estimator = "squared"
    """As in IRMv1: ``squared``, or ``split``, which is unbiased and noisier."""
    keep: Annotated[float, Field(gt=0, le=1)] = 0.95
    """The share ρ of the weights that is kept in the end. As in the authors' Colored-MNIST command."""
    start: Share = 0.28
    """The share of the run after which weights are dropped. As in the authors' Colored-MNIST command."""
    end: Share = 0.6
    """The share of the run after which no more are dropped."""
    score_rate: Positive = 10.0
    """The learning rate of the scores over that of the weights. As in the authors' Colored-MNIST command."""

    def prepare(self, model: Model, environments: int, generator: torch.Generator) -> Model:
        model.features, model.head = Masked(model.features), Masked(model.head)
        return model

    def players(self, model: Model) -> tuple[Player, ...]:
        parts = _masked(model)
        weights = tuple(p for part in parts for p in part.inner.parameters())
        scores = tuple(p for part in parts for p in part.scores)
        return (Player("weights", weights), Player("scores", scores, rate=self.score_rate, l2=False))

    def decided_by(self, clock: Clock, *, sliced: bool) -> str | None:
        """Before scores learn, an update without a penalty is ERM's."""
        if sliced or clock.share >= self.start or self.gamma_at(clock):
            return None
        return risk_alone(self.l2, self.reduction)

    def plain_name(self, name: str) -> str | None:
        """Without scores, and the inner module in place of the masked one."""
        before, inner, rest = name.partition(".inner.")
        return f"{before}.{rest}" if inner else None if ".scores." in name else name

    def before(self, model: Model, clock: Clock, generator: torch.Generator) -> None:
        temperature = 0.97 * (1 - clock.share) + 0.03
        for part in _masked(model):
            part.scores.requires_grad_(clock.share >= self.start)
            part.draw(temperature, generator)

    def penalty(self, batch: Batch, model: Model, z: Tensor, f: Tensor) -> Tensor:
        if self.penalty_of == "rex":
            return batch.risks(f).var(correction=0)
        return self.reduce(squared_norm(self.estimator, batch, scale_gradient, z, f))

    def after(self, model: Model, clock: Clock) -> None:
        scores = [s for part in _masked(model) for s in part.scores if part.learns]
        if scores:
            project(scores, self.budget(clock) * sum(s.numel() for s in scores))

    def budget(self, clock: Clock) -> float:
        """ρ_t, the share of the weights that may be kept."""
        left = 1 - (clock.share - self.start) / max(self.end - self.start, TINY)
        return self.keep + (1 - self.keep) * min(1.0, max(0.0, left)) ** 3


def _masked(model: Model) -> tuple[Masked, Masked]:
    features, head = model.features, model.head
    assert isinstance(features, Masked)  # noqa: S101
    assert isinstance(head, Masked)  # noqa: S101
    return features, head
