"""Training steps as one would first write them: the reference that ours are compared with.

A Python loop over environments, penalties by a second backward pass (``create_graph=True``), per-sample
gradients by ``vmap``, the l2 term summed through autograd, Adam parameter by parameter.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.autograd import grad
from torch.func import functional_call, vmap
from torch.func import grad as gradient_of
from torch.nn.functional import binary_cross_entropy_with_logits as cross_entropy

from invariance.core.environment import Environment
from invariance.core.inputs import floats
from invariance.models.base import Model

Parts = Sequence[tuple[Tensor, Tensor]]
"""Inputs and labels of each environment."""
Terms = tuple[Tensor, Tensor]
"""Risk and penalty, both averaged over environments."""
Evaluate = Callable[[Model, Parts], Terms]


def risk(f: Tensor, y: Tensor) -> Tensor:
    return cross_entropy(f.squeeze(-1), y)


def average(v: list[Tensor]) -> Tensor:
    return torch.stack(v).mean()


def squared(gradients: Sequence[Tensor]) -> Tensor:
    return torch.stack([g.square().sum() for g in gradients]).sum()


def erm(model: Model, parts: Parts) -> Terms:
    risks = [risk(model(x), y) for x, y in parts]
    return average(risks), torch.zeros(())


def irmv1(model: Model, parts: Parts) -> Terms:
    risks, penalties = [], []
    for x, y in parts:
        scale = torch.ones((), requires_grad=True)
        f = model(x)
        risks.append(risk(f, y))
        penalties.append(squared(grad(risk(scale * f, y), [scale], create_graph=True)))
    return average(risks), average(penalties)


def irmv0(model: Model, parts: Parts) -> Terms:
    risks = [risk(model(x), y) for x, y in parts]
    penalties = [squared(grad(r, list(model.head.parameters()), create_graph=True)) for r in risks]
    return average(risks), average(penalties)


def rex(model: Model, parts: Parts) -> Terms:
    risks = [risk(model(x), y) for x, y in parts]
    return average(risks), torch.stack(risks).var(correction=0)


def fishr(model: Model, parts: Parts) -> Terms:
    def loss(w: dict[str, Tensor], z: Tensor, y: Tensor) -> Tensor:
        return risk(functional_call(model.head, w, (z,)), y)

    w: dict[str, Tensor] = dict(model.head.named_parameters())
    risks, variances = [], []
    for x, y in parts:
        z = model.features(x)
        risks.append(risk(model.head(z), y))
        each = vmap(gradient_of(loss), in_dims=(None, 0, 0))(w, z, y)
        variances.append(torch.cat([g.flatten(1).var(0, correction=0) for g in each.values()]))
    middle = torch.stack(variances).mean(0)
    return average(risks), average([(v - middle).square().sum() for v in variances])


def birm(tau: float, draws: int = 10) -> Evaluate:
    def evaluate(model: Model, parts: Parts) -> Terms:
        risks, penalties = [], []
        for x, y in parts:
            f = model(x)
            risks.append(risk(f, y))
            for _ in range(draws):
                scale = (1 + tau * torch.randn(())).requires_grad_()
                halves = zip(f.chunk(2), y.chunk(2), strict=True)
                first, second = (grad(risk(scale * f, y), [scale], create_graph=True)[0] for f, y in halves)
                penalties.append(first * second)
        return average(risks), average(penalties)

    return evaluate


def bloc_irm(model: Model, parts: Parts, inner_lr: float = 2e-3) -> Terms:
    w = {name: p.detach().clone().requires_grad_() for name, p in model.head.named_parameters()}
    features = [model.features(x) for x, _ in parts]
    heads = []
    for z, (_, y) in zip(features, parts, strict=True):
        gradients = grad(risk(functional_call(model.head, w, (z,)), y), list(w.values()), create_graph=True)
        heads.append([p - inner_lr * g for p, g in zip(w.values(), gradients, strict=True)])
    consensus = {name: torch.stack(each).mean(0) for name, each in zip(w, zip(*heads, strict=True), strict=True)}
    model.head.load_state_dict(consensus)
    risks, penalties = [], []
    for z, (_, y) in zip(features, parts, strict=True):
        risks.append(risk(functional_call(model.head, consensus, (z,)), y))
        penalties.append(squared(grad(risks[-1], list(consensus.values()), create_graph=True)))
    return average(risks), average(penalties)


METHODS: dict[str, Evaluate] = {
    "erm": erm,
    "irmv1": irmv1,
    "irmv0": irmv0,
    "rex": rex,
    "fishr": fishr,
    "birm": birm(tau=0.024),
    "bloc-irm": bloc_irm,
}


@dataclass(frozen=True)
class Weights:
    """(risk + ``gamma``·penalty + ``l2``·‖parameters‖²) / ``divisor``."""

    gamma: float
    l2: float
    divisor: float


def total(evaluate: Evaluate, model: Model, parts: Parts, weights: Weights, moving: nn.Module) -> Tensor:
    """The whole objective; the parameters of ``moving`` have the l2 term."""
    value, penalty = evaluate(model, parts)
    norms = torch.stack([p.norm() ** 2 for p in moving.parameters()]).sum()
    return (value + weights.gamma * penalty + weights.l2 * norms) / weights.divisor


class Loop:
    """A run of one method; calling it makes one step."""

    def __init__(
        self,
        evaluate: Evaluate,
        model: Model,
        data: Sequence[Environment],
        weights: Weights,
        rows_each: int,
    ) -> None:
        self.evaluate, self.model, self.data, self.weights, self.rows_each = evaluate, model, data, weights, rows_each
        self.moving: nn.Module = model.features if evaluate is bloc_irm else model
        self.optimiser = torch.optim.Adam(self.moving.parameters(), lr=1e-3, foreach=False, fused=False)
        self.orders = [torch.randperm(len(e)) for e in data]
        self.start = 0

    def __call__(self) -> None:
        if self.start + self.rows_each > min(len(e) for e in self.data):
            self.orders, self.start = [torch.randperm(len(e)) for e in self.data], 0
        rows = [order[self.start : self.start + self.rows_each] for order in self.orders]
        self.start += self.rows_each
        parts = [(floats(e.x[chosen]), e.y[chosen]) for e, chosen in zip(self.data, rows, strict=True)]
        loss = total(self.evaluate, self.model, parts, self.weights, self.moving)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
