r"""The biased expert: what environment-specific cues say about the target, as natural parameters.

The interaction of label and environment (`training/interaction.py`) is how log P(y | x, e) differs between
environments. Inputs that differ for reasons unrelated to the label (covariate shift) are in its common part, and
classes that are more frequent in one environment (label shift) only add a constant. So the interaction varies with x
where a cue's relation to the label differs by environment, and it is a function of such cues alone. Its values are
clustered into *cue states* s. If cues and the rest are independent given the label, the expert to be taken out is

    o_e(s) = log P(s | y, e) + prior shift β[y, e],

one entry per class, a *logit offset*. A likelihood per class covers cues whose error rate differs by class, states
cover several cues at once and any number of classes, and rows count by their weights. For numbers, s and its likelihood
are Gaussian, and the expert has a mean and a precision (`training/gaussian_expert.py`).
"""

import torch
from torch import Tensor

from invariance.core.batch import Batch
from invariance.evaluation.scores import outputs
from invariance.models.base import Model
from invariance.training.cue_states import cue_states, log_likelihood
from invariance.training.environment_heads import inputs_within, label_posterior
from invariance.training.gaussian_expert import gaussian_offset
from invariance.training.interaction import LEVEL, Posterior, centred, environment_known, evidence, fitted

PROBE_ROWS = 4096
"""How many rows go through the classifier together."""


def log_posterior(f: Tensor, environments: int) -> Tensor:
    """log P(e | x, y), [n, labels, E]."""
    return f.unflatten(1, (-1, environments)).log_softmax(-1)


def posterior(classifier: Model, data: Batch) -> Posterior:
    """What the classifier says about every row."""
    slices = [log_posterior(outputs(classifier, x), data.environments).double() for x in data.x.split(PROBE_ROWS)]
    table = torch.cat(slices)
    common = table.mean(1)
    return Posterior(common - common.mean(1, keepdim=True), centred(table))


def biased_expert(classifier: Model, data: Batch) -> Tensor | None:
    """The natural parameters o of every row, on the CPU, [n, P].

    None where no cue's relation to the target differs between environments.
    """
    data = data.to(torch.device("cpu"))
    return logit_offset(classifier, data) if data.family.labels else gaussian_offset(classifier, data)


def logit_offset(classifier: Model, data: Batch) -> Tensor | None:
    """o of every row for classes, [n, K]; None where no cue is found."""
    found = confirmed(classifier, data)
    if not found:
        return None
    states = cue_states(found, data)
    likelihood = log_likelihood(states, data)
    shift = centred(fitted(found._replace(interaction=centred(likelihood)[states]), data).shift)
    own = (likelihood + shift)[states, :, data.environment]  # [n, K]
    own = own[:, 1:] - own[:, :1] if data.family.outputs == 1 else own - own.mean(1, keepdim=True)
    return own.to(torch.get_default_dtype())


def confirmed(classifier: Model, data: Batch) -> Posterior | None:
    """An interaction that held-out rows confirm.

    Where the inputs of a table tell the environment, the label adds nothing to P(e | x, y), and the interaction is
    looked for in P(y | x, e) instead.
    """
    found = posterior(classifier, data)
    if evidence(found, data).p_value < LEVEL:
        return found
    x = inputs_within(data) if environment_known(found.common, data) else None
    if x is None:
        return None
    found = label_posterior(x, data)
    return found if evidence(found, data).p_value < LEVEL else None
