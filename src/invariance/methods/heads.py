r"""The head as a function of its parameter vector w, and its gradients in each environment.

For a linear head f = Wz + b and residuals r, ∇_W R^e = mean_e(r ⊗ z) and ∇_b R^e = mean_e(r): no second
backward pass. Any other head goes through autograd behind the same calls.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from invariance.core.batch import Batch
from invariance.core.outer_sums import Power


def vector(head: nn.Module) -> Tensor:
    """w, [P], connected to the head's parameters."""
    return parameters_to_vector(head.parameters())


@torch.no_grad()
def store(head: nn.Module, w: Tensor) -> None:
    """Put ``w`` into the head."""
    vector_to_parameters(w.clone(), head.parameters())


def outputs(head: nn.Module, w: Tensor, z: Tensor) -> Tensor:
    """f of the head with parameters ``w``, [n, K]."""
    parts = _named(head, w)
    if isinstance(head, nn.Linear):
        return functional.linear(z, parts["weight"], parts.get("bias"))
    return functional_call(head, parts, (z,))


def outputs_each(head: nn.Module, w: Tensor, z: Tensor, batch: Batch) -> Tensor:
    """f where environment e has its own head ``w[e]``, [E, P] → [n, K]."""
    if isinstance(head, nn.Linear) and batch.rows_each:
        size = head.weight.numel()
        weight = w[:, :size].view(-1, *head.weight.shape)  # [E, K, d]
        f = z.view(batch.environments, batch.rows_each, -1) @ weight.mT
        return (f + w[:, None, size:] if head.bias is not None else f).flatten(0, 1)
    return torch.cat([outputs(head, w_e, z[batch.rows(e)]) for e, w_e in enumerate(w)])


def gradients(batch: Batch, head: nn.Module, z: Tensor, f: Tensor, w: Tensor | None = None) -> Tensor:
    """∇_w R^e, [E, P].

    ``f`` are the outputs at ``w``, shared [P] or one per environment [E, P]; without ``w``, at the head's own.
    """
    if isinstance(head, nn.Linear):
        return _flat(batch, head, batch.residual(f), z)
    if w is None:
        w = vector(head)
        f = outputs(head, w, z)
    return batch.gradients(batch.risks(f), w)


def gradient_variances(batch: Batch, head: nn.Module, z: Tensor, f: Tensor, w: Tensor | None = None) -> Tensor:
    """Variance over samples of each coordinate of ∇_w loss, [E, P] (biased, centred)."""
    if isinstance(head, nn.Linear):
        r = batch.residual(f)
        return _flat(batch, head, r.square(), z, power=2) - _flat(batch, head, r, z).square()
    w = vector(head) if w is None else w

    def loss(w: Tensor, z: Tensor, y: Tensor, offset: Tensor) -> Tensor:
        f = outputs(head, w, z.unsqueeze(0))
        return batch.family.loss(f, y.unsqueeze(0), offset.unsqueeze(0)).squeeze(0)

    offset = f.new_zeros(len(f), batch.family.parameters) if batch.offset is None else batch.offset
    h = vmap(grad(loss), in_dims=(None, 0, 0, 0))(w, z, batch.y, offset)  # [n, P]
    return batch.mean(h.square()) - batch.mean(h).square()


def hessians_at(batch: Batch, head: nn.Module, z: Tensor, w: Tensor) -> Callable[[Tensor], Tensor]:
    """v ↦ H_e v_e, [E, P] → [E, P], where H_e is the Hessian of R^e by the head's parameters at ``w`` [P]."""
    if isinstance(head, nn.Linear):
        f = outputs(head, w, z).detach().requires_grad_()
        r = batch.residual(f)

        def times(v: Tensor) -> Tensor:
            (change,) = torch.autograd.grad(r, f, outputs_each(head, v, z, batch).detach(), retain_graph=True)
            return _flat(batch, head, change, z)

        return times

    def slowly(v: Tensor) -> Tensor:
        each = w.detach().expand_as(v).clone().requires_grad_()
        g = batch.gradients(batch.risks(outputs_each(head, each, z, batch)), each)
        return batch.gradients((g * v).sum(1), each).detach()

    return slowly


def preconditioned(batch: Batch, head: nn.Linear, z: Tensor, g: Tensor, damping: float) -> Tensor:
    r"""(B + λI)⁻¹ g for a gradient ``g`` [P] of a linear head, where B bounds the curvature of the mean risk; [P].

    B = c mean(z₁ ⊗ z₁), z₁ = [z, 1], for every output, since the loss has at most the curvature c along the outputs
    (Böhning and Lindsay 1988); λ is ``damping`` times B's mean diagonal.
    """
    z1 = z if head.bias is None else torch.cat([z, torch.ones_like(z[:, :1])], dim=1)
    bound = batch.family.curvature * batch.outer_mean(z1, z1).mean(0)
    bound = bound + damping * bound.diagonal().mean() * torch.eye(len(bound), dtype=z.dtype, device=z.device)
    size = head.weight.numel()
    g = torch.cat([g[:size].view_as(head.weight), g[size:].view(head.out_features, -1)], dim=1)  # [K, d + 1]
    step = torch.linalg.solve(bound, g.T).T
    return torch.cat([step[:, : head.in_features].flatten(), step[:, head.in_features :].flatten()])


def _flat(batch: Batch, head: nn.Linear, r: Tensor, z: Tensor, power: Power = 1) -> Tensor:
    weight = batch.outer_mean(r, z, power).flatten(1)
    return weight if head.bias is None else torch.cat([weight, batch.mean(r)], dim=1)


def _named(head: nn.Module, w: Tensor) -> dict[str, Tensor]:
    named = dict(head.named_parameters())
    parts = w.split([p.numel() for p in named.values()])
    return {name: part.view_as(p) for (name, p), part in zip(named.items(), parts, strict=True)}
