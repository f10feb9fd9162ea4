"""Effects of columns that vary between sites, and the site where they turn."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from invariance.core.environment import Environment
from invariance.core.families import Bernoulli, Categorical, Gaussian
from invariance.estimators.adverse import adverse_site, apart, joined

ROWS = 1500


def site(rng: np.random.Generator, name: str, agreement: float, *, classes: int = 2, shift: float = 0.0) -> Environment:
    """A cause of the label, and a column that names the label in a share of the rows."""
    cause = rng.normal(size=ROWS) + shift
    edges = [-0.5, 0.5] if classes == 3 else [0.0]
    y = np.digitize(cause + rng.normal(size=ROWS), edges)
    named = np.where(rng.random(ROWS) < agreement, y, (y + rng.integers(1, classes, ROWS)) % classes)
    x = np.column_stack([cause, rng.normal(size=ROWS), named + 0.1 * rng.normal(size=ROWS)])
    return Environment(name, torch.tensor(x), torch.tensor(y))


def sites(*agreements: float, classes: int = 2, shifts: tuple[float, ...] = ()) -> list[Environment]:
    rng = np.random.default_rng(1)
    moved = shifts or (0.0,) * len(agreements)
    return [
        site(rng, f"s{i}", a, classes=classes, shift=s) for i, (a, s) in enumerate(zip(agreements, moved, strict=True))
    ]


def erm(environments: list[Environment]) -> list[Tensor]:
    x = np.concatenate([np.asarray(e.x) for e in environments])
    y = np.concatenate([e.y.numpy() for e in environments])
    f = LogisticRegression(C=100).fit(x, y).decision_function(x).reshape(len(y), -1)
    return list(torch.tensor(f).split([len(e) for e in environments]))


@pytest.mark.parametrize(
    "agreements",
    [(0.95, 0.9, 0.8, 0.7), (0.9, 0.8), (0.99, 0.8, 0.65, 0.5)],
    ids=["four", "two sites", "never crosses"],
)
def test_a_column_that_varies_turns_at_the_adverse_site(agreements):
    environments = sites(*agreements)
    adverse = adverse_site(environments, Bernoulli(), erm(environments))
    assert adverse.columns == ((2,),)
    assert adverse.p_value < 0.01
    x = torch.cat([e.x for e in adverse.environments]).numpy()
    y = torch.cat([e.y for e in adverse.environments]).numpy()
    weight = torch.cat([e.weight for e in adverse.environments]).numpy()
    before, after = LogisticRegression().fit(x, y).coef_[0], LogisticRegression().fit(x, y, weight).coef_[0]
    assert before[2] > 0.5
    assert after[2] < 0.1 * before[2]
    assert after[0] == pytest.approx(before[0], rel=0.25)


def test_every_class_keeps_its_share():
    environments = sites(0.95, 0.9, 0.7, classes=3)
    adverse = adverse_site(environments, Categorical(3), erm(environments))
    y = torch.cat([e.y for e in environments])
    weight = torch.cat([e.weight for e in adverse.environments])
    assert (weight > 0).all()
    for k in range(3):
        assert float(weight[y == k].sum()) == pytest.approx(int((y == k).sum()))


@pytest.mark.parametrize(
    "given",
    [{"agreements": (0.8,) * 4}, {"agreements": (0.5,) * 4, "shifts": (-1.0, 0.0, 0.5, 1.0)}],
    ids=["a law", "inputs shift"],
)
def test_there_is_none_where_no_effect_varies(given):
    environments = sites(*given["agreements"], shifts=given.get("shifts", ()))
    assert adverse_site(environments, Bernoulli(), erm(environments)) is None


def test_sample_weights_count():
    """A site whose rows of the other opinion have next to no weight agrees with the rest."""
    environments = sites(0.9, 0.9, 0.5)
    odd = environments[2]
    agrees = (odd.x[:, 2] > 0.5) == (odd.y == 1)
    keep = torch.where(agrees, torch.ones(ROWS).double(), torch.full((ROWS,), 1 / 9).double())
    weighted = [*environments[:2], Environment(odd.name, odd.x, odd.y, keep)]
    assert adverse_site(environments, Bernoulli(), erm(environments)) is not None
    assert adverse_site(weighted, Bernoulli(), erm(environments)) is None


def test_for_numbers_columns_move_along_the_target():
    rng = np.random.default_rng(0)
    environments = []
    for i, slope in enumerate((1.5, 1.0, 0.5)):
        cause = rng.normal(size=ROWS)
        y = cause + rng.normal(size=ROWS)
        x = np.column_stack([cause, slope * y + rng.normal(size=ROWS)])
        environments.append(Environment(f"s{i}", torch.tensor(x), torch.tensor(y)))
    adverse = adverse_site(environments, Gaussian(), [torch.zeros(ROWS, 1)] * 3)
    assert adverse.columns == ((1,),)
    for before, after in zip(environments, adverse.environments, strict=True):
        assert torch.equal(before.x[:, 0], after.x[:, 0])
        assert float(torch.corrcoef(torch.stack([after.x[:, 1], after.y]))[0, 1]) < -0.1


def test_with_many_columns_principal_components_take_their_place():
    environments = sites(0.95, 0.9, 0.6)
    rng = np.random.default_rng(2)
    wide = [
        Environment(e.name, torch.cat([e.x, e.x[:, 2:] + torch.tensor(rng.normal(size=(ROWS, 70)))], 1), e.y)
        for e in environments
    ]
    adverse = adverse_site(wide, Bernoulli(), erm(environments))
    assert adverse is not None
    assert adverse.columns == ()


def test_for_numbers_many_columns_move_along_their_principal_components():
    rng = np.random.default_rng(0)
    environments = []
    for i, slope in enumerate((1.5, 1.0, 0.5)):
        cause = rng.normal(size=(ROWS, 1))
        y = cause[:, 0] + rng.normal(size=ROWS)
        x = np.column_stack([cause, slope * y[:, None] + rng.normal(size=(ROWS, 70))])
        environments.append(Environment(f"s{i}", torch.tensor(x), torch.tensor(y)))
    adverse = adverse_site(environments, Gaussian(), [torch.zeros(ROWS, 1)] * 3)
    assert adverse.columns == ()
    for after in adverse.environments:
        assert float(torch.corrcoef(torch.stack([after.x[:, 1:].mean(1), after.y]))[0, 1]) < -0.1


def as_category(environments: list[Environment], levels: int) -> list[Environment]:
    """The column that names the label as the inputs of a category, of which each label has half."""
    rng = np.random.default_rng(3)
    made = []
    for e in environments:
        named = (e.x[:, 2] > 0.5).long() * (levels // 2) + torch.tensor(rng.integers(0, levels // 2, ROWS))
        made.append(Environment(e.name, torch.cat([e.x[:, :2], torch.eye(levels).double()[named]], 1), e.y))
    return made


@pytest.mark.parametrize("levels", [2, 12])
@pytest.mark.parametrize("parts", [(), (slice(0, 1), slice(1, 2), slice(2, None))], ids=["found", "given"])
def test_a_category_is_one_column(levels, parts):
    environments = as_category(sites(0.95, 0.9, 0.8, 0.7), levels)
    parts = [slice(part.start, part.stop or 2 + levels) for part in parts]
    adverse = adverse_site(environments, Bernoulli(), erm(environments), parts)
    assert adverse.columns == (tuple(range(2, 2 + levels)),)


def test_a_category_of_two_levels_has_the_adverse_site_of_zero_and_one():
    numbers = [
        Environment(e.name, torch.cat([e.x[:, :2], (e.x[:, 2:] > 0.5).double()], 1), e.y) for e in sites(0.95, 0.9, 0.7)
    ]
    category = as_category(numbers, 2)
    one, other = (adverse_site(each, Bernoulli(), erm(numbers)) for each in (numbers, category))
    assert other.p_value == pytest.approx(one.p_value, rel=1e-3)
    for a, b in zip(one.environments, other.environments, strict=True):
        assert b.weight.numpy() == pytest.approx(a.weight.numpy(), rel=1e-3)


def test_a_column_that_is_there_twice_is_one():
    environments = [Environment(e.name, torch.cat([e.x, 32 + 1.8 * e.x[:, 2:]], 1), e.y) for e in sites(0.95, 0.9, 0.7)]
    assert adverse_site(environments, Bernoulli(), erm(environments)).columns == ((2, 3),)


def test_for_numbers_a_category_moves_along_the_target_as_a_whole():
    rng = np.random.default_rng(0)
    environments = []
    for i, slope in enumerate((2.0, 1.2, 0.4)):
        cause = rng.normal(size=ROWS)
        y = cause + rng.normal(size=ROWS)
        level = np.digitize(slope * y + rng.normal(size=ROWS), [-1, 0, 1])
        environments.append(
            Environment(f"s{i}", torch.tensor(np.column_stack([cause, np.eye(4)[level]])), torch.tensor(y))
        )
    x, y = torch.cat([e.x for e in environments]), torch.cat([e.y for e in environments])
    b = torch.linalg.lstsq(x, y.unsqueeze(1), driver="gelsd").solution
    adverse = adverse_site(environments, Gaussian(), [e.x @ b for e in environments])
    assert adverse.columns == ((1, 2, 3, 4),)
    for before, after in zip(environments, adverse.environments, strict=True):
        own = b[1:, 0]
        slopes = [float(torch.corrcoef(torch.stack([e.x[:, 1:] @ own, e.y]))[0, 1]) for e in (before, after)]
        assert slopes[0] > 0.1
        assert slopes[1] < 0.05


@pytest.mark.parametrize("seed", [405, 455, 463])
def test_hundreds_of_empty_inputs_beside_a_few_words_are_no_obstacle(seed):
    """Hashed words: torch's own eigenvalues do not converge for these."""
    random = torch.Generator().manual_seed(seed)
    x = torch.zeros(600, 262, dtype=torch.float64)
    words = torch.randperm(262, generator=random)[:12]
    x[torch.arange(600), words[torch.randint(12, (600,), generator=random)]] = 1
    x[:, :4] = torch.randn(600, 4, generator=random, dtype=torch.float64)
    x = (x - x.mean(0)) / x.std(0).clamp(min=1e-9)
    together = set(words.tolist()) - set(range(4))
    found = apart(x, tuple((i,) for i in range(262)))
    assert {frozenset(place) for place in found if len(place) > 1} == (
        {frozenset(together)} if len(together) == 12 else set()
    )


def test_columns_that_say_nearly_the_same_are_one_and_turn_together():
    """Of two near copies, neither has an effect that differs clearly from zero beside the other."""
    rng = np.random.default_rng(2)
    twice = [
        replace(e, x=torch.cat([e.x, e.x[:, 2:] + 0.1 * torch.tensor(rng.normal(size=(ROWS, 1)))], dim=1))
        for e in sites(0.95, 0.9, 0.8, 0.7)
    ]
    x = torch.cat([e.x for e in twice])
    f = erm(twice)
    assert joined((x - x.mean(0)) / x.std(0), ((0,), (1,), (2,), (3,)), [torch.cat(f)[:, 0]]) == ((0,), (1,), (2, 3))
    adverse = adverse_site(twice, Bernoulli(), f)
    assert adverse
    assert adverse.columns == ((2, 3),)
