"""``method="auto"``: ERM, or an invariant method where effects of columns vary between environments.

1. ERM is trained on parts of the rows and tested on the rest, as a linear model and with a hidden layer, which is used
   only if it is clearly better.
2. Effects of columns are compared between environments (`adverse.py`). Where none varies, nothing speaks against ERM.
3. Otherwise every candidate is trained, and scored on the rows as they are and at the adverse site, where the effects
   that vary turn against the model. What counts is the expected cost: the worse of the two if effects vary, that on the
   rows as they are if they do not, each with its probability; or the rows as they are for a mean over environments.
   A candidate that is no better than a constant is out. ERM is kept, and then Subset ERM, the fewer columns it leaves
   out the better, unless another one gains enough (`choice.py`).

Large tables are subsampled, so that the choice does not cost more on a larger table.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from invariance.core.batch import Batch
from invariance.core.environment import Environment, environment_folds, leave_out
from invariance.core.errors import BadValue, Diverged
from invariance.core.seeding import generator
from invariance.estimators import defaults
from invariance.estimators.adverse import AdverseSite, adverse_site
from invariance.estimators.calibration import tempered
from invariance.estimators.choice import Candidate, Choice, decide
from invariance.estimators.learner import Fit, Learner, held, subsample
from invariance.evaluation.metrics import Criterion, relative_risk
from invariance.evaluation.scores import outputs
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.models.base import Model

FOLDS = 5
ROW_FOLDS = 3
"""Parts of the rows, each of which ERM is tested on once."""
MAX_ENVIRONMENTS, MAX_ROWS = 50, 20_000
"""Environments and rows of a large table that the choice is based on."""
MIN_LAYER_GAIN, MIN_STANDARD_ERRORS = 0.01, 2.0
"""A hidden layer must lower the mean loss by this share, and by as many standard errors."""
SUBSETS = (1, 2, 3)
"""How many columns may be left out, beside all whose effects vary."""
NOTHING_VARIES = "a test at the 5 % level finds no effect of a column that varies between environments"
UNTESTED = "for numbers, effects are compared in tables alone"
"""Reasons to keep ERM."""

Fold = tuple[tuple[Environment, ...], tuple[Environment, ...]]
Log = Callable[[str], None]
Watch = Callable[[Candidate, Model], None]


def folds(environments: Sequence[Environment], seed: int) -> list[Fold]:
    """Environments to train on and environments left out; each is left out once."""
    order = torch.randperm(len(environments), generator=generator(seed, "folds")).tolist()
    return [leave_out(environments, {environments[i].name for i in fold}) for fold in environment_folds(order, FOLDS)]


def choose(
    learner: Learner,
    environments: Sequence[Environment],
    criterion: Criterion,
    log: Log,
    layers: Sequence[tuple[int, ...]] = (),
    parts: Sequence[slice] = (),
    *,
    watch: Watch = lambda candidate, model: None,
) -> Choice:
    """The method for these environments; ``layers`` are hidden layers to try beside those of the learner.

    ``parts`` are the inputs of each column, where one may have several; ``watch`` is shown every candidate and its
    model.
    """
    drawn = torch.randperm(len(environments), generator=generator(learner.seed, "choice"))[:MAX_ENVIRONMENTS]
    sample = held(subsample([environments[i] for i in sorted(drawn.tolist())], MAX_ROWS, learner.seed))
    if all(len(e) < 2 for e in sample):
        raise BadValue(
            "every environment has one row, so nothing can be compared between them; an environment is a site or a "
            "year, not the identifier of a row"
        )
    erm = defaults.named("erm", entropy=defaults.relative_entropy(sample, learner.family))
    learner, f = _architecture(learner, erm, sample, layers)
    log(f"hidden layers: {learner.hidden or 'none'}")
    adverse = adverse_site(sample, learner.family, f, parts)
    if adverse is None:
        tested = learner.family.labels or sample[0].x.ndim == 2
        chosen = Choice(erm, NOTHING_VARIES if tested else UNTESTED)
    else:
        methods = defaults.candidates(sample, learner.family, subsets(adverse.columns, sample[0].x.shape[1]))
        candidates = []
        for candidate, model in _scored(learner, methods, sample, adverse, criterion, log):
            watch(candidate, model)
            candidates.append(candidate)
        varying = tuple(i for column in adverse.columns for i in column)
        chosen = decide(candidates, criterion, adverse.probability)
        chosen = replace(chosen, varying=varying, p_value=adverse.p_value, probability=adverse.probability)
    return replace(chosen, hidden=learner.hidden, recipe=learner.recipe(chosen.method, environments))


def subsets(varying: Sequence[tuple[int, ...]], inputs: int) -> list[tuple[int, ...]]:
    """Inputs of columns to leave out together: of the most significant one, of the first few, and of all that vary."""
    sizes = sorted({min(size, len(varying)) for size in (*SUBSETS, len(varying))} - {0})
    found = [tuple(sorted(i for column in varying[:size] for i in column)) for size in sizes]
    return [subset for subset in found if len(subset) < inputs]


def _architecture(
    learner: Learner, erm: Method, sample: Sequence[Environment], layers: Sequence[tuple[int, ...]]
) -> tuple[Learner, list[Tensor]]:
    """The learner with the hidden layers that are best for ERM, and its outputs on rows not trained on."""
    best, f = learner, _cross_fitted(learner, erm, sample)
    batch = Batch.of(sample, learner.family)
    for hidden in layers:
        other = replace(learner, hidden=hidden)
        own = _cross_fitted(other, erm, sample)
        loss = batch.loss(torch.cat(f))
        gain = loss - batch.loss(torch.cat(own))
        if gain.mean() > max(MIN_LAYER_GAIN * loss.mean(), MIN_STANDARD_ERRORS * gain.std() / len(gain) ** 0.5):
            best, f = other, own
    return best, f


def _cross_fitted(learner: Learner, erm: Method, sample: Sequence[Environment]) -> list[Tensor]:
    """ERM's outputs on every row, by a model that was not trained on it, [n, K] for each environment."""
    f = [torch.zeros(len(e), learner.family.outputs) for e in sample]
    parts = [torch.arange(len(e)) % min(ROW_FOLDS, len(e)) for e in sample]
    rests = [
        tuple(e.take((part != k).nonzero().squeeze(1)) for e, part in zip(sample, parts, strict=True) if len(e) > 1)
        for k in range(ROW_FOLDS)
    ]
    for k, trained in enumerate(learner.fit_all([Fit(erm, rest) for rest in rests], checkpoints=1)):
        if isinstance(trained, Diverged):
            raise trained
        for e, part, own in zip(sample, parts, f, strict=True):
            rows = (part == k).nonzero().squeeze(1)
            if len(rows):
                own[rows] = outputs(trained.model, e.x[rows]).float().cpu()
    return f


def _scored(
    learner: Learner,
    methods: Sequence[Method],
    sample: Sequence[Environment],
    adverse: AdverseSite,
    criterion: Criterion,
    log: Log,
) -> Iterator[tuple[Candidate, Model]]:
    """Every candidate that can be trained, and its model."""
    fits = learner.fit_all([Fit(method, tuple(sample)) for method in methods], checkpoints=1)
    for method, trained in zip(methods, fits, strict=True):
        name = METHODS.name(method)
        if isinstance(trained, Diverged):
            if name == "erm":
                raise trained
            log(f"{name} is not a candidate: {trained}")
            continue
        candidate = _candidate(method, trained.model, learner, (sample, adverse.environments), criterion)
        log(f"{name}: {criterion} costs {candidate.cost:.3f}, at the adverse site {candidate.adverse_cost:.3f}")
        yield candidate, trained.model


def _candidate(
    method: Method,
    model: Model,
    learner: Learner,
    sites: tuple[Sequence[Environment], Sequence[Environment]],
    criterion: Criterion,
) -> Candidate:
    costs, risks, temperature = [], [], None
    for environments in sites:
        batch = Batch.of(environments, learner.family)
        predicted, temperature = tempered(outputs(model, batch.x).cpu(), batch.y.cpu(), learner.family, temperature)
        weight = None if batch.weight is None else batch.weight.double().cpu().numpy()
        y = batch.y.cpu().numpy()
        costs.append(criterion.cost(predicted, y, weight))
        risks.append(relative_risk(predicted, y, weight))
    return Candidate(method, costs[0], costs[1], risks[0], risks[1])
