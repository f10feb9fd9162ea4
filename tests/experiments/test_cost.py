"""How long a run will take is said before it is run, and costs next to nothing."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from invariance.core.errors import BadValue
from invariance.experiments import cost
from invariance.experiments.spec import Spec
from invariance.models import MODELS


class Largest(TorchDispatchMode):
    """The most numbers of any tensor that is made in memory."""

    numbers = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        sizes = [t.numel() for t in tree_leaves(made) if isinstance(t, torch.Tensor) and t.device.type != "meta"]
        self.numbers = max(self.numbers, *sizes, 0)
        return made


def test_the_weights_of_a_wide_model_are_not_made_to_guess_its_time():
    # a sweep of 201 widths was stuck for minutes before its first run: each model was built, a gigabyte and seconds
    spec = Spec.of("two-bit", "erm", "short", changes={"model": {"name": "mlp", "width": 16_000}})
    small = replace(spec, model=MODELS.load({"name": "mlp", "width": 8}))
    with Largest() as made:
        assert cost.seconds(spec) > cost.seconds(small)
    assert made.numbers < 1_000_000


@pytest.mark.parametrize(
    ("plain", "shape"),
    [
        ({"name": "mlp", "width": 12, "depth": 3}, (2, 4, 4)),
        ({"name": "linear"}, (5,)),
        ({"name": "resnet", "width": 8}, (3, 32, 32)),
        ({"name": "resnet", "width": 8, "norm": "group", "stem": "small"}, (1, 16, 16)),
    ],
)
def test_shapes_alone_count_the_operations_that_numbers_count(plain, shape):
    model = MODELS.load(plain)
    assert cost._forward(model, shape) == cost._counted(model, shape) > 0
    with torch.device("meta"):
        assert next(model.build(shape, 1).parameters()).is_meta


@pytest.mark.parametrize("change", [{"width": 16_384, "depth": 64}, {"width": 10**9}, {"depth": 10**9}])
def test_a_model_that_no_memory_holds_is_refused_in_one_line(change):
    with pytest.raises(BadValue) as refused:
        Spec.of("two-bit", "erm", "short", changes={"model": {"name": "mlp", **change}})
    assert str(refused.value).isprintable()
