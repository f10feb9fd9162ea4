"""A linear model of image features that are not trained, and the same model of the images themselves.

Features are computed once. Everything that is trained is a linear model of them, so a few hundred images take seconds.
In the end it becomes the last layer of the network that computes the features, and is saved as any network is.
"""

from copy import copy
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from invariance.core.errors import BadValue
from invariance.core.inputs import StoredRows
from invariance.core.rows import Rows
from invariance.core.seeding import generator
from invariance.estimators.base import Invariant
from invariance.estimators.classifier import InvariantClassifier
from invariance.estimators.linear import coefficients
from invariance.estimators.network import Standard, around
from invariance.evaluation.scores import outputs
from invariance.models.base import Architecture, Model

RECIPE: dict[str, Any] = {"l2_scale": 1000.0}
"""Changes to the default recipe for tables: there are more features than images of a class."""


def linear_classifier(seed: int) -> InvariantClassifier:
    """A linear model of features, without factors of its own for each of them."""
    return InvariantClassifier(recipe=RECIPE, features=nn.Flatten(), random_state=seed)


def embedded(images: Rows, network: Architecture) -> Rows:
    """The features of every image, [n, d], in place of its pixels."""
    x = images.x if isinstance(images.x, StoredRows) else torch.from_numpy(images.x)
    model = network.build(tuple(x.shape[1:]), 1)
    features = Model(model.features, nn.Identity())
    features.slice = model.slice
    return replace(images, x=outputs(features, x).numpy(), of_images=True)


def of_images(estimator: Invariant, network: Architecture, input_shape: tuple[int, ...]) -> Invariant:
    """The estimator that takes images: ``network``, with the linear model as its last layer."""
    linear = coefficients(estimator.module_)
    colours = torch.zeros(input_shape[0], 1, 1)
    model = around(network, Standard(colours, torch.ones_like(colours)), input_shape, len(linear.weight), seed=0)
    model = estimator.method_.prepare(model, len(estimator.environments_), generator(0, "objective"))
    if not isinstance(model.head, nn.Linear):
        title = estimator.method_.title
        raise BadValue(f"{title} changes the last layer, which is all that is trained here; name another method")
    with torch.no_grad():
        model.head.weight.copy_(torch.from_numpy(linear.weight))
        model.head.bias.copy_(torch.from_numpy(linear.intercept))
    whole = copy(estimator)
    whole.features, whole.module_ = network, model.eval()
    whole.input_shape_, whole.n_features_in_ = input_shape, input_shape[0]
    return whole
