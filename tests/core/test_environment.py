import pytest
import torch

from invariance.core.environment import Environment, environment_folds, leave_out
from invariance.core.inputs import Pixels


@pytest.mark.parametrize("rows", [torch.tensor([2, 0]), slice(2), torch.tensor([True, False, True])], ids=str)
@pytest.mark.parametrize("x", [torch.arange(6.0).view(3, 2), Pixels.of(torch.arange(6).byte().view(3, 2))], ids=type)
def test_taking_rows_keeps_name_inputs_targets_and_weights_together(x, rows):
    whole = Environment("Lyon", x, torch.tensor([0.0, 1, 2]), torch.tensor([1.0, 2, 3]))
    part = whole.take(rows)
    assert part.name == "Lyon"
    numbers = part.x.tensor() if isinstance(part.x, Pixels) else part.x
    assert torch.equal(numbers[:, 0] / 2, part.y)
    assert torch.equal(part.weight, part.y + 1)
    assert torch.equal(part.y, whole.y[rows])
    assert Environment("Lyon", x, whole.y).take(rows).weight is None


def test_environments_are_left_out_by_name_and_keep_their_order(environments):
    made = environments(3, 4, 5, 6)
    rest, held = leave_out(made, {"d", "b"})
    assert [e.name for e in rest] == ["a", "c"]
    assert [e.name for e in held] == ["b", "d"]


@pytest.mark.parametrize(("many", "folds"), [(3, 5), (5, 5), (12, 5), (1, 10)])
def test_every_environment_is_in_one_fold(many, folds):
    found = environment_folds(list(reversed(range(many))), folds)
    assert len(found) == min(many, folds)
    assert sorted(i for fold in found for i in fold) == list(range(many))
    assert max(map(len, found)) - min(map(len, found)) <= 1
