r"""Debiasing: environment-specific cues are removed by a logit offset (a product of experts).

A representation is invariant where the environment adds nothing about the label: e ⊥ y | φ(x). So an *environment
classifier* P(e | x, y), asked which environment a sample comes from given its input and its label, learns what is not
invariant and nothing else: the colour of a digit, never its shape, though shape predicts the label too. For every input
it gives a *spurious label* s(x), the label that the environment-specific cue suggests, and with it a biased expert

    P_e(y | s),   o = its logits in environment e.

The model is trained on loss(f + o, y), the log-likelihood of the product of both experts, so f learns what the biased
expert does not know (Hinton 2002; Clark et al. 2019). If cue and rest are independent given the label, their log-odds
add, and the best f is that of the rest alone, the same in every environment. At test time f is used without o.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import ClassVar, final

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor
from torch.nn.functional import one_hot

from invariance.core.batch import Batch
from invariance.core.environment import Environment
from invariance.core.families import Family
from invariance.core.fields import STRICT, NonNegative
from invariance.core.seeding import generator
from invariance.evaluation.homogeneity import homogeneity_p_value
from invariance.evaluation.scores import outputs
from invariance.methods.base import Method, Move
from invariance.models.base import Model, linear
from invariance.recipes.recipe import Recipe
from invariance.recipes.schedules import Clock
from invariance.training.loop import Training, arranged

LEVEL = 0.01
"""How improbable equal error rates must be, on samples not trained on, before an offset is used."""
FOLD = 5
"""One row in so many is not trained on."""
PROBE_ROWS = 4096
"""How many rows go through the classifier together."""
PRIOR = 10.0
"""How many rows of all environments an environment's own error rate is mixed with."""


@final
@dataclass(frozen=True, config=STRICT)
class EnvironmentClassification(Method):
    """min  −mean log P(e | x, y): how the environment classifier is trained; it has an output for each pair (y, e)."""

    title: ClassVar[str] = "environment classification"
    formula: ClassVar[str] = "min −mean log P(e | x, y)"
    citation: ClassVar[str] = ""

    l2: NonNegative = 5e-4

    def moves(self, model: Model, batch: Batch, clock: Clock, generator: torch.Generator) -> Iterator[Move]:
        """One move."""

        def loss() -> Tensor:
            own = log_posterior(model(batch.x), batch.environments)[torch.arange(len(batch.y)), batch.y.long()]
            log_likelihood = own.gather(1, batch.environment.unsqueeze(1))
            if batch.weight is None:
                return -log_likelihood.mean()
            weight = batch.weight.unsqueeze(1)
            return -(weight * log_likelihood).sum() / weight.sum()

        yield Move(loss, self.l2)


def log_posterior(f: Tensor, environments: int) -> Tensor:
    """log P(e | x, y), [n, labels, E]."""
    return f.unflatten(1, (-1, environments)).log_softmax(-1)


def stage(
    model: Model, environments: Sequence[Environment], recipe: Recipe, family: Family, seed: int
) -> Training | None:
    """The training of an environment classifier by this recipe; None where there is nothing to debias.

    That is where the recipe says so, where targets are no labels, and where there is one environment alone.
    """
    if not recipe.debias or not family.labels or len(environments) < 2:
        return None
    environments = arranged(environments, recipe, seed)
    classifier = environment_classifier(model, environments, family, seed)
    how = replace(recipe, epochs=recipe.debias, debias=0, warmup=0.0, average=0.0)
    parts = [training_part(e) for e in environments]
    return Training(classifier, EnvironmentClassification(), parts, how, family, seed)


def environment_classifier(model: Model, environments: Sequence[Environment], family: Family, seed: int) -> Model:
    """A model like this one, fresh as it is, with an output for every label and environment."""
    fresh = deepcopy(model)
    with torch.no_grad():
        z = fresh.eval().represent(environments[0].x[:1])
    head = linear(z.shape[1], family.labels * len(environments), generator(seed, "teller"))
    return Model(fresh.features, head.to(z.device, z.dtype))


def training_part(environment: Environment) -> Environment:
    """What the environment classifier trains on: all rows but one in ``FOLD``."""
    rows = (torch.arange(len(environment)) % FOLD).nonzero().squeeze(1)
    return environment.take(rows)


def logit_offset(classifier: Model, data: Batch) -> Tensor | None:
    """o of every row, [n, K]; None where the spurious label is as often wrong in every environment."""
    spurious = spurious_label(classifier, data)
    wrong = (spurious != data.y).double()
    if homogeneity_p_value(*_not_trained_on(wrong, data)) >= LEVEL:
        return None
    counts = torch.tensor(data.counts, dtype=wrong.dtype)
    rates = (data.mean(wrong) * counts + wrong.mean() * PRIOR) / (counts + PRIOR)
    return expert_logits(spurious, 1 - rates[data.environment], data.family).to(torch.get_default_dtype())


def spurious_label(classifier: Model, data: Batch) -> Tensor:
    """The label that the environment-specific cue of each input suggests, [n].

    Of all labels it alone makes the environments as likely as it does, so it has the highest or the lowest score on
    the contrast between environments that varies most; which of the two, the targets say.
    """
    some = torch.linspace(0, len(data.y) - 1, min(len(data.y), PROBE_ROWS)).long()
    posterior = log_posterior(outputs(classifier, data.x[some]), data.environments)
    contrast = torch.linalg.eigh(posterior.flatten(0, 1).T.cov()).eigenvectors[:, -1]
    ends = []
    for x in data.x.split(PROBE_ROWS):
        score = log_posterior(outputs(classifier, x), data.environments) @ contrast  # [rows, labels]
        ends.append(torch.stack([score.argmax(1), score.argmin(1)]))
    return max(torch.cat(ends, dim=1), key=lambda spurious: int((spurious == data.y).sum()))


def expert_logits(spurious: Tensor, accuracy: Tensor, family: Family) -> Tensor:
    """Logits of an expert that knows the spurious label [n] and its accuracy [n] alone, [n, K]."""
    odds = (accuracy * (family.labels - 1) / (1 - accuracy)).log().unsqueeze(1)
    return (2 * spurious.unsqueeze(1) - 1) * odds if family.outputs == 1 else one_hot(spurious, family.labels) * odds


def _not_trained_on(values: Tensor, data: Batch) -> tuple[Tensor, Batch]:
    fresh = torch.cat([torch.arange(n) % FOLD == 0 for n in data.counts])
    held = Batch(values[fresh], data.y[fresh], tuple(-(-n // FOLD) for n in data.counts), data.family)
    return values[fresh].unsqueeze(1), held
