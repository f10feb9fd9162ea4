r"""Debiasing: environment-specific cues are removed by an offset of natural parameters (a product of experts).

A representation is invariant where the environment adds nothing about the label: e ⊥ y | φ(x). So an *environment
classifier* P(e | x, y), asked which environment a sample comes from given its input and its label, learns what is not
invariant: the colour of a digit, never its shape, though shape predicts the label too. Its posterior gives a biased
expert, with natural parameters o in environment e, that knows environment-specific cues alone
(`training/biased_expert.py`). For classes these are logits; for numbers the precision times the mean, and the
precision, and the classifier predicts the number, too (`training/gaussian_expert.py`).

The model is trained on the likelihood of the product of both experts, where natural parameters add, loss(f + o, y) for
classes, so f learns what the biased expert does not know (Hinton 2002; Clark et al. 2019). If cues and rest are
independent given the label, natural parameters do add, and the best f is that of the rest alone, the same in every
environment. At test time f is used without o.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import ClassVar, final

import torch
from pydantic.dataclasses import dataclass
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.environment import Environment
from invariance.core.families import Family
from invariance.core.fields import STRICT, NonNegative
from invariance.core.seeding import generator
from invariance.methods.base import Method, Move
from invariance.models.base import Model, linear
from invariance.recipes.recipe import Recipe
from invariance.recipes.schedules import Clock
from invariance.training.biased_expert import log_posterior
from invariance.training.gaussian_expert import units
from invariance.training.interaction import FOLD, at_target
from invariance.training.loop import Training, arranged

DROPOUT = 0.8
"""The share of the inputs' entries that an update of the classifier does not see, where the recipe has dropout."""
ONE_ENVIRONMENT = "there is one environment alone"
NO_CUE = "no cue was found whose relation to the label differs between environments"


@final
@dataclass(frozen=True, config=STRICT)
class EnvironmentClassification(Method):
    """min  −mean log P(e | x, y): how the environment classifier is trained; it has an output for each pair (y, e).

    For numbers min −mean log P(y, e | x): it has a mean of y and a logit for each e.
    """

    title: ClassVar[str] = "environment classification"
    formula: ClassVar[str] = "min −mean log P(e | x, y)"
    citation: ClassVar[str] = ""

    l2: NonNegative = 1e-3

    def decided_by(self, clock: Clock, *, sliced: bool) -> str:
        return repr(self)

    def moves(self, model: Model, batch: Batch, clock: Clock, generator: torch.Generator) -> Iterator[Move]:
        """One move."""

        def loss() -> Tensor:
            return -batch.pooled_mean(log_likelihood(model(batch.x), batch))

        yield Move(loss, self.l2)


def log_likelihood(f: Tensor, batch: Batch) -> Tensor:
    """log P(e | x, y) of every row; for numbers log P(y, e | x), with a mean of y for each environment; [n]."""
    own = batch.environment.unsqueeze(1)
    if batch.family.labels:
        return at_target(log_posterior(f, batch.environments), batch).gather(1, own).squeeze(1)
    means, logits = f.split(batch.environments, 1)
    return logits.log_softmax(1).gather(1, own).squeeze(1) - batch.family.loss(means.gather(1, own), batch.y)


def stage(
    model: Model, environments: Sequence[Environment], recipe: Recipe, family: Family, seed: int
) -> Training | None:
    """The training of an environment classifier by this recipe; None where there is nothing to debias.

    That is where the recipe says so, and where there is one environment alone.
    """
    if not recipe.debias or len(environments) < 2:
        return None
    environments = arranged(environments, recipe, seed)
    classifier = environment_classifier(model, environments, family, seed)
    dropout = max(DROPOUT, recipe.dropout) if recipe.dropout else 0.0
    how = replace(
        recipe,
        epochs=recipe.debias,
        debias=0,
        warmup=0.0,
        average=0.0,
        l2_scale=1.0,
        dropout=dropout,
        penalty_batch_size=None,
        penalty_dropout=None,
    )
    parts = [training_part(e) for e in (environments if family.labels else standardised(environments, family))]
    return Training(classifier, EnvironmentClassification(), parts, how, family, seed)


def environment_classifier(model: Model, environments: Sequence[Environment], family: Family, seed: int) -> Model:
    """A model like this one, fresh as it is, with an output for every label and environment; for numbers, two each."""
    fresh = deepcopy(model)
    with torch.no_grad():
        z = fresh.eval().represent(environments[0].x[:1])
    head = linear(z.shape[1], (family.labels or 2) * len(environments), generator(seed, "teller"))
    return Model(fresh.features, head.to(z.device, z.dtype))


def standardised(environments: Sequence[Environment], family: Family) -> list[Environment]:
    """With targets of mean 0 and variance 1."""
    mean, deviation = units(Batch.of(environments, family))
    return [replace(e, y=(e.y - mean) / deviation) for e in environments]


def training_part(environment: Environment) -> Environment:
    """What the environment classifier trains on: all rows but one in ``FOLD``; a single row is for training."""
    rows = (torch.arange(len(environment)) % FOLD).nonzero().squeeze(1)
    return environment.take(rows) if len(rows) else environment


def no_offset(environments: int, family: Family) -> str:
    """Why a run that was to be debiased has no biased expert."""
    offset = "a logit offset" if family.labels else "a biased expert"
    return f"trained without {offset}: {ONE_ENVIRONMENT if environments < 2 else NO_CUE}"
