r"""Debiasing: environment-specific cues are removed by a logit offset (a product of experts).

A representation is invariant where the environment adds nothing about the label: e ⊥ y | φ(x). So an *environment
classifier* P(e | x, y), asked which environment a sample comes from given its input and its label, learns what is not
invariant: the colour of a digit, never its shape, though shape predicts the label too. Its posterior gives a biased
expert, with logits o in environment e, that knows environment-specific cues alone (`training/biased_expert.py`).

The model is trained on loss(f + o, y), the log-likelihood of the product of both experts, so f learns what the biased
expert does not know (Hinton 2002; Clark et al. 2019). If cues and rest are independent given the label, their log-odds
add, and the best f is that of the rest alone, the same in every environment. At test time f is used without o.
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
from invariance.training.biased_expert import FOLD, log_posterior
from invariance.training.loop import Training, arranged

DROPOUT = 0.8
"""The share of the inputs' entries that an update of the classifier does not see, where the recipe has dropout."""
NUMBERS = "targets are numbers, and the logit offset is for classes"
ONE_ENVIRONMENT = "there is one environment alone"
NO_CUE = "no cue was found whose relation to the label differs between environments"


@final
@dataclass(frozen=True, config=STRICT)
class EnvironmentClassification(Method):
    """min  −mean log P(e | x, y): how the environment classifier is trained; it has an output for each pair (y, e)."""

    title: ClassVar[str] = "environment classification"
    formula: ClassVar[str] = "min −mean log P(e | x, y)"
    citation: ClassVar[str] = ""

    l2: NonNegative = 1e-3

    def decided_by(self, clock: Clock, *, sliced: bool) -> str:
        return repr(self)

    def moves(self, model: Model, batch: Batch, clock: Clock, generator: torch.Generator) -> Iterator[Move]:
        """One move."""

        def loss() -> Tensor:
            rows = torch.arange(len(batch.y), device=batch.y.device)
            own = log_posterior(model(batch.x), batch.environments)[rows, batch.y.long()]
            return -batch.pooled_mean(own.gather(1, batch.environment.unsqueeze(1)).squeeze(1))

        yield Move(loss, self.l2)


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
    """What the environment classifier trains on: all rows but one in ``FOLD``; a single row is for training."""
    rows = (torch.arange(len(environment)) % FOLD).nonzero().squeeze(1)
    return environment.take(rows) if len(rows) else environment


def no_offset(environments: int, family: Family) -> str:
    """Why a run that was to be debiased has no logit offset."""
    if not family.labels:
        return f"trained without a logit offset: {NUMBERS}"
    return f"trained without a logit offset: {ONE_ENVIRONMENT if environments < 2 else NO_CUE}"
