"""Mirrored and shifted images."""

import numpy as np
import pytest
import torch

from invariance.core.errors import BadValue
from invariance.core.fields import dumped
from invariance.core.seeding import generator
from invariance.recipes.augment import Augment
from invariance.recipes.presets import recipe

IMAGES = torch.randint(1, 256, (64, 3, 6, 5), generator=generator(0, "images"), dtype=torch.uint8)


def test_without_flip_and_shift_images_stay_as_they_are():
    assert torch.equal(Augment(flip=0, shift=0)(IMAGES, generator(0)), IMAGES)


def test_half_of_the_images_are_mirrored_and_the_others_are_not():
    changed = Augment(shift=0)(IMAGES, generator(0))
    mirrored = (changed == IMAGES.flip(3)).flatten(1).all(1)
    assert torch.equal(changed[~mirrored], IMAGES[~mirrored])
    assert 20 < int(mirrored.sum()) < 44


@pytest.mark.parametrize(("edge", "mode"), [("black", "constant"), ("repeat", "edge")])
def test_an_image_is_shifted_as_a_whole_and_its_edge_comes_in_or_black(edge, mode):
    changed = Augment(flip=0, shift=2, edge=edge)(IMAGES, generator(0))
    shifts = set()
    for before, after in zip(IMAGES, changed, strict=True):
        padded = torch.from_numpy(np.pad(before.numpy(), ((0, 0), (2, 2), (2, 2)), mode=mode))
        found = [
            (down, right)
            for down in range(5)
            for right in range(5)
            if torch.equal(padded[:, down : down + 6, right : right + 5], after)
        ]
        assert len(found) == 1
        shifts |= set(found)
    assert len(shifts) > 15


def test_the_generator_decides():
    first, again, other = (Augment()(IMAGES, generator(seed)) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert (first.dtype, first.shape) == (IMAGES.dtype, IMAGES.shape)


def test_only_images_can_be_augmented():
    with pytest.raises(BadValue, match=r"only images .* inputs of shape \(7,\)"):
        Augment()(torch.zeros(2, 7), generator(0))


def test_a_recipe_takes_it_by_its_fields():
    assert recipe("short").augment is None
    assert recipe("short", changes={"augment": {"shift": 2}}).augment == Augment(shift=2)


def test_a_field_that_came_later_is_stored_only_where_it_is_used():
    """So that runs stored before keep their keys."""
    black, repeated = (recipe("short", changes={"augment": {"edge": edge}}) for edge in ("black", "repeat"))
    assert dumped(black)["augment"] == {"flip": 0.5, "shift": 4}
    assert dumped(repeated)["augment"] == {"flip": 0.5, "shift": 4, "edge": "repeat"}
