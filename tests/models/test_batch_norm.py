"""Running statistics of batch normalisation in training."""

import pytest
import torch

from invariance.core.batch import Batch
from invariance.core.environment import Environment
from invariance.core.families import Bernoulli
from invariance.core.seeding import generator
from invariance.methods import METHODS
from invariance.models.base import batch_norms
from invariance.models.resnet import ResNet
from invariance.recipes.gradient import SAM
from invariance.recipes.recipe import Recipe
from invariance.training.loop import CALIBRATION, Training
from invariance.training.train import train

SMALL = ResNet(width=8, stem="small")


def environments(rows: int = 24) -> list[Environment]:
    made = []
    for name, shift in (("a", 0), ("b", 60)):
        random = generator(0, "images", name)
        x = torch.randint(0, 190, (rows, 3, 8, 8), generator=random) + shift
        made.append(Environment(name, x.to(torch.uint8), torch.randint(2, (rows,), generator=random)))
    return made


def states(method: str, recipe: Recipe, *, seed: int = 1, resume=None, snapshots: int = 6):
    model = SMALL.build((3, 8, 8), 1, seed=seed)
    objective, family = METHODS.create(method), Bernoulli()
    made = train(model, objective, environments(), recipe, family=family, snapshots=snapshots, state=resume)
    return [(snapshot.state(), snapshot.model) for snapshot in made]


@pytest.mark.parametrize("gradient", ["plain", "sam"])
@pytest.mark.parametrize("method", METHODS.classes)
def test_statistics_follow_a_batch_once_a_step_whatever_is_done_with_it(method, gradient):
    *_, (state, model) = states(method, Recipe(batch_size=32, epochs=1, gradient=gradient))  # of two batches
    assert {int(value) for name, value in state.items() if "num_batches" in name} == {2}
    assert all(layer.track_running_stats for layer in batch_norms(model))


def test_sam_leaves_the_statistics_of_the_pass_at_the_weights_themselves():
    """A larger radius looks elsewhere, at weights that nobody will use."""
    first = [states("erm", Recipe(batch_size=16, epochs=2, gradient=SAM(radius=r)))[0][0] for r in (0.01, 10.0)]
    running = [name for name in first[0] if "running_" in name]
    assert running
    assert all(torch.equal(first[0][name], first[1][name]) for name in running)
    assert not torch.equal(first[0]["model.features.conv1.weight"], first[1]["model.features.conv1.weight"])


def test_environments_in_one_batch_are_normalised_together():
    """Else a network could tell them apart by what normalisation takes away."""
    model = SMALL.build((3, 8, 8), 1).train()
    batch = Batch.of(environments(), Bernoulli())
    turned = Batch.of(environments()[::-1], Bernoulli())
    f, g = model(batch.x), model(turned.x)
    assert torch.allclose(f, torch.cat([g[24:], g[:24]]), atol=1e-4)
    alone = torch.cat([model(batch.only(e).x) for e in range(2)])
    assert (f - alone).abs().max() > 0.01


@pytest.mark.parametrize("method", ["irmv1", "bloc-irm", "irm-game", "sparse-irm"])
def test_a_restored_run_ends_as_the_run_that_went_through(method):
    recipe = Recipe(batch_size=16, epochs=2, gradient="sam", step="sgd", lr=0.01, average=0.7, augment={"shift": 1})
    through = states(method, recipe)
    resumed = states(method, recipe, seed=5, resume=through[2][0])
    a, b = through[-1][0], resumed[-1][0]
    assert a.keys() == b.keys()
    assert not [name for name in a if not torch.equal(a[name], b[name])]
    assert any(name.startswith("averaged.") and "running_mean" in name for name in a)


def test_augmented_runs_are_other_runs():
    plain, augmented = (
        states("erm", Recipe(batch_size=16, epochs=2, augment=augment))[-1][0] for augment in (None, {"shift": 1})
    )
    assert not torch.equal(plain["model.features.conv1.weight"], augmented["model.features.conv1.weight"])


def test_averaged_weights_get_the_statistics_of_batches_at_those_weights():
    recipe = Recipe(batch_size=16, epochs=4, average=0.5, lr=0.01)
    model = SMALL.build((3, 8, 8), 1)
    *_, last = train(model, METHODS.create("erm"), environments(), recipe, family=Bernoulli())
    first = last.model.eval().features.get_submodule("bn1")
    seen = []
    last.model.features.get_submodule("conv1").register_forward_hook(
        lambda *call: seen.append(call[-1].mean((0, 2, 3)))
    )
    batches = Training(SMALL.build((3, 8, 8), 1), METHODS.create("erm"), environments(), recipe, Bernoulli(), 0)
    for t in range(last.step - CALIBRATION, last.step):
        with torch.no_grad():
            last.model(batches._rows(t).x)
    assert torch.allclose(first.running_mean, torch.stack(seen).mean(0), atol=1e-6)
    assert first.momentum == 0.1
