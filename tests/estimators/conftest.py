"""Tables with sites, and estimators that train in a blink."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from invariance.recipes.presets import recipe
from invariance.recipes.recipe import Recipe


class Table(NamedTuple):
    X: NDArray[np.float64]
    y: NDArray[np.str_]
    site: NDArray[np.str_]

    def only(self, *sites: str) -> "Table":
        rows = np.isin(self.site, sites)
        return Table(self.X[rows], self.y[rows], self.site[rows])


@pytest.fixture(scope="session")
def sites() -> Callable[..., Table]:
    """A table whose last column agrees with the label in a share of each site's rows; None: it is noise."""

    def make(shares: dict[str, float | None], rows: int = 400, seed: int = 0) -> Table:
        rng = np.random.default_rng(seed)
        tables = []
        for site, share in shares.items():
            x = rng.normal(size=(rows, 6))
            y = rng.random(rows) < 1 / (1 + np.exp(-1.2 * (x[:, 0] - x[:, 1] + 0.7 * x[:, 2])))
            if share is not None:
                agrees = rng.random(rows) < share
                x[:, -1] = 2 * np.where(y == agrees, 1, -1) + 0.5 * x[:, -1]
            tables.append(Table(x, np.where(y, "sick", "well"), np.full(rows, site)))
        return Table(*map(np.concatenate, zip(*tables, strict=True)))

    return make


@pytest.fixture(scope="session")
def small(sites) -> Table:
    """Three sites of 30 rows."""
    return sites({"Lyon": 0.9, "Bern": 0.8, "Graz": 0.3}, rows=30)


@pytest.fixture(scope="session")
def quick() -> Recipe:
    """A few updates."""
    return recipe("full-batch", changes={"epochs": 20, "lr": 0.02, "warmup": 0.5})
