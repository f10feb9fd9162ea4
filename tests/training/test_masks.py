"""Masks that are drawn once are those that dropout draws every time."""

import pytest
import torch
from torch.nn import functional

from invariance.core.inputs import Dropped, floats
from invariance.training.masks import Masks, kept_entries


@pytest.mark.parametrize("share", [0.2, 0.3, 0.8])
@pytest.mark.parametrize("shape", [(5, 3), (4, 2, 3, 3)])
def test_inputs_and_everything_drawn_afterwards_are_as_by_dropout(share, shape):
    x, masks = torch.randn(shape), Masks()
    for update in [(0, 1), (0, 2), (7, 1), (0, 1), (0, 2)]:
        seed = 100 * update[0] + update[1]
        torch.manual_seed(seed)
        expected, later = functional.dropout(x, share), torch.rand(3)
        torch.manual_seed(seed)
        kept = masks.entries(update, shape, share, x.dtype)
        assert torch.equal(Dropped((x.numpy(),), range(len(x)), kept, share).tensor(), expected)
        assert torch.equal(torch.rand(3), later)
    assert len(masks.kept) == 3


def test_masks_stay_within_their_bound_and_the_least_used_goes_first():
    masks = Masks(max_bytes=0)
    masks.entries((0, 0), (8, 8), 0.5, torch.float32)
    assert not masks.kept
    torch.manual_seed(0)
    whole = Masks()
    whole.entries((0, 0), (8, 8), 0.5, torch.float32)
    masks = Masks(max_bytes=2 * whole.bytes)
    for step in (0, 1, 0, 2):
        masks.entries((0, step), (8, 8), 0.5, torch.float32)
    assert [key[0] for key in masks.kept] == [(0, 0), (0, 2)]
    assert masks.bytes == sum(mask.bytes for mask in masks.kept.values()) <= masks.max_bytes


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.float64])
def test_slices_of_dropped_inputs_are_those_of_torchs_dropout_on_all_rows(dtype):
    x = (255 * torch.rand(700, 3, 20)).to(dtype)
    torch.manual_seed(5)
    expected, later = functional.dropout(floats(x), 0.2), torch.rand(3)
    torch.manual_seed(5)
    kept = kept_entries(x.shape, 0.2, expected.dtype)
    assert torch.equal(torch.rand(3), later)
    dropped = Dropped((x.numpy(),), range(len(x)), kept, 0.2)
    assert torch.equal(torch.cat([part.tensor() for part in dropped.split(256)]), expected)
    assert torch.equal(dropped[torch.tensor([3, 1])].tensor(), expected[[3, 1]])
