import pytest
import torch

from invariance.core.seeding import generator
from invariance.data.constructions.counterfactual_pairs import stratified_parts


@pytest.mark.parametrize("hands", [1, 2, 3, 7])
def test_every_row_is_dealt_once_and_either_label_evenly(hands):
    t = torch.rand(101, generator=generator(0)) < 0.3
    parts = stratified_parts(t, hands, generator(1))
    assert torch.cat(parts).sort().values.tolist() == list(range(101))
    for label in (False, True):
        counts = [int((t[rows] == label).sum()) for rows in parts]
        assert max(counts) - min(counts) <= 1


def test_a_hand_is_in_no_order_of_labels():
    t = torch.arange(2000) < 1000
    for rows in stratified_parts(t, 2, generator(0)):
        assert 400 < t[rows[: len(rows) // 2]].sum() * 2 < 600


def test_the_generator_decides():
    t = torch.arange(50) < 25
    first, again, other = (stratified_parts(t, 2, generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], other[0])
