"""Synthetic tables like those that people bring: several sites, a label, and columns of which some may mislead.

Four columns cause the label, or come with it, alike at every site. Misleading columns (cues) name the label, and are
right in a share of the rows that differs from site to site: the *agreement*. At the new site most of them name the
opposite. Where nothing flips, sites differ in other ways, or not at all, and ERM is what one wants. A cue may be a
column of names, dates, missing values or words; such a table is encoded as `invariance fit` does it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from invariance.estimators.inputs import EncodedTable, table_source
from invariance.tabular.frame import encode_table

Array = NDArray[Any]
CAUSES = 4
NEW_ROWS = 4000


class Table(NamedTuple):
    """Rows of the training sites and of a new one; ``oracle`` are the inputs that do not mislead.

    ``parts`` are the inputs that belong together, if there are any.
    """

    x: Array
    y: Array
    site: Array
    new_x: Array
    new_y: Array
    oracle: Array
    parts: tuple[slice, ...] = ()


@dataclass(frozen=True)
class Tables:
    """How tables are drawn.

    ``agreement`` of a cue has a number per training site, ``new`` is its agreement at the new site; there may be
    ``cues`` of the same agreement, or ``second``, a cue with an agreement of its own. ``positives`` is the share of the
    second class, ``site_positives`` shifts its log-odds by site. ``mean`` moves the causes of a site, ``effect`` scales
    their effect there (below 1, labels are noisier), and ``slopes`` is the deviation of each effect between sites.
    ``cells`` makes cells of the class that a cue names.
    """

    about: str
    rows: int | Sequence[int]
    agreement: Sequence[float] = ()
    new: float = 0.1
    sites: int = 4
    cues: int = 1
    second: Sequence[float] = ()
    second_new: float = 0.1
    classes: int = 2
    positives: float = 0.5
    site_positives: Sequence[float] = ()
    mean: Sequence[float] = ()
    effect: Sequence[float] = ()
    slopes: float = 0.0
    nonlinear: bool = False
    noise_columns: int = 2
    class_errors: float = 0.0
    heavy_tails: bool = False
    proxies: bool = False
    regression: bool = False
    cells: Callable[[Array, np.random.Generator], Array] | None = None
    metric: str = "accuracy"

    @property
    def flips(self) -> bool:
        """Whether a column misleads at the new site."""
        return bool(self.agreement) and self.new < min(self.agreement)

    @property
    def count(self) -> int:
        """The number of training sites."""
        return len(self.agreement) or self.sites

    def draw(self, seed: int) -> Table:
        """One table; equal seeds give equal tables."""
        random = np.random.default_rng([17, seed])
        weights = random.uniform(0.6, 1.4, CAUSES) * random.choice([-1, 1], CAUSES)
        rows = [self.rows] * self.count if isinstance(self.rows, int) else list(self.rows)
        drawn = [self._site(random, weights, e, n) for e, n in enumerate(rows)]
        new_x, new_y = self._site(random, weights, None, NEW_ROWS)
        x, y = np.concatenate([own[0] for own in drawn]), np.concatenate([own[1] for own in drawn])
        site = np.repeat([f"site {e + 1:02d}" for e in range(len(rows))], rows)
        parts: tuple[slice, ...] = ()
        if self.cells:
            frames = [self._frame(random, each) for each in (x, new_x)]
            x, encoder, _ = EncodedTable.learned(frames[0])
            new_x = encode_table(table_source(frames[1], None), encoder, np.float32)
            parts = tuple(place for _, place in encoder.parts)
        oracle = np.arange(CAUSES + self.noise_columns if self.flips else x.shape[1])
        return Table(x.astype(np.float32), y, site, new_x.astype(np.float32), new_y, oracle, parts)

    def _frame(self, random: np.random.Generator, x: Array) -> pd.DataFrame:
        """The table with cells in its last column."""
        frame = pd.DataFrame(x[:, :-1], columns=[f"x{i}" for i in range(x.shape[1] - 1)])
        named = np.digitize(x[:, -1], (-2.0, 0.0, 2.0)) if self.regression else x[:, -1].astype(np.int64)
        return frame.assign(cue=self.cells(named, random) if self.cells else named)

    def _site(self, random: np.random.Generator, weights: Array, e: int | None, rows: int) -> tuple[Array, Array]:
        causes = random.normal(size=(rows, CAUSES)) + _at(self.mean, e, -1.0 if self.mean else 0.0)
        effect = weights * _at(self.effect, e, 1.0) + self.slopes * random.normal(size=CAUSES)
        score = causes @ effect
        if self.nonlinear:
            score = 2 * causes[:, 0] * causes[:, 1] + 1.5 * np.abs(causes[:, 2]) * effect[2]
        y = self._labels(random, causes, score, e)
        parts = [causes, random.normal(size=(rows, self.noise_columns))]
        if self.proxies:
            noise = random.normal(size=(rows, CAUSES))
            parts[0] = (2 * y[:, None] - 1) * np.abs(weights) / 2.4 + noise
        for _ in range(self.cues if self.agreement else 0):
            parts.append(self._cue(random, y, _at(self.agreement, e, self.new)))
        if self.second:
            parts.append(self._cue(random, y, _at(self.second, e, self.second_new)))
        x = np.concatenate(parts, 1)
        if self.heavy_tails:
            x = np.sign(x) * (np.exp(np.abs(x)) - 1)
        return x, y

    def _labels(self, random: np.random.Generator, causes: Array, score: Array, e: int | None) -> Array:
        if self.regression:
            return score + random.normal(size=len(score))
        shift = np.log(self.positives / (1 - self.positives)) * 1.35 + _at(self.site_positives, e, 0.0)
        if self.classes == 2:
            centre = np.median(score) if self.nonlinear else 0.0
            return (random.random(len(score)) < 1 / (1 + np.exp(-0.7 * (score - centre) - shift))).astype(np.int64)
        angle = 2 * np.pi * np.arange(self.classes) / self.classes
        logits = 1.6 * causes[:, :2] @ np.stack([np.cos(angle), np.sin(angle)])
        return (logits + random.gumbel(size=logits.shape)).argmax(1)

    def _cue(self, random: np.random.Generator, y: Array, agreement: float) -> Array:
        if self.regression:
            return (agreement * y + random.normal(size=len(y)))[:, None]
        rate = agreement + self.class_errors * np.where(y == 1, 1, -1)
        wrong = random.random(len(y)) > rate
        named = np.where(wrong, (y + random.integers(1, self.classes, len(y))) % self.classes, y)
        if self.cells:
            return named[:, None]
        columns = np.eye(self.classes)[named][:, 1:] * 2 - 1
        return columns + 0.3 * random.normal(size=columns.shape)


def names(many: int) -> Callable[[Array, np.random.Generator], Array]:
    """Of each class, as many."""
    return lambda named, random: np.char.add("v", (named * many + random.integers(0, many, len(named))).astype(str))


def weekdays(named: Array, random: np.random.Generator) -> Array:
    """Dates in the first or the second half of a week."""
    days = 7 * random.integers(0, 100, len(named)) + 3 * named + random.integers(0, 3, len(named))
    return np.datetime64("2020-01-06") + days


def gaps(named: Array, random: np.random.Generator) -> Array:
    """Numbers that mean nothing, and are missing where the second class is named."""
    return np.where(named == 1, np.nan, random.normal(size=len(named)))


def words(named: Array, random: np.random.Generator) -> Array:
    """A few words, one of which names the class."""
    others = random.choice(["pain", "cough", "fever", "rash", "night", "left", "right", "later"], (len(named), 5))
    return np.array([" ".join([*row, ("routine", "urgent")[k]]) for row, k in zip(others, named, strict=True)])


def _at(values: Sequence[float], e: int | None, new: float) -> float:
    """The value of training site ``e``, or ``new`` at the new site; without values, ``new`` everywhere."""
    return float(values[e]) if e is not None and len(values) else new


FADING = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
FIFTY = tuple(np.linspace(0.5, 0.95, 50).tolist())

TABLES: dict[str, Tables] = {
    "hospitals": Tables("six sites, two columns flip", 3300, (0.95, 0.9, 0.85, 0.8, 0.75, 0.7), cues=2),
    "four sites": Tables("one column flips", 3000, (0.95, 0.9, 0.8, 0.7)),
    "four sites, crossing": Tables("one column is right at some sites and wrong at one", 600, (0.95, 0.9, 0.3, 0.8)),
    "fifty sites": Tables("of 60 rows", 60, FIFTY),
    "300 rows": Tables("five sites of 60 rows", 60, (0.95, 0.9, 0.8, 0.7, 0.6)),
    "20 % positives": Tables("", 1000, (0.95, 0.9, 0.8, 0.7, 0.6), positives=0.2, metric="auc"),
    "6.5 % positives": Tables("", 2000, (0.95, 0.9, 0.8, 0.7, 0.6), positives=0.065, metric="auc"),
    "1.8 % positives": Tables("", 4000, (0.95, 0.9, 0.8, 0.7, 0.6), positives=0.018, metric="auc"),
    "two sites": Tables("the paper's case", 2000, (0.9, 0.8)),
    "two sites, far apart": Tables("", 1000, (0.95, 0.6)),
    "three sites": Tables("", 600, (0.9, 0.6, 0.8)),
    "fading": Tables("agreement 1 to 0.5, which never crosses", 600, FADING),
    "back and forth": Tables("agreement on both sides of a half", 600, (0.9, 0.1, 0.8, 0.2), new=0.05),
    "two against one": Tables("agreement at two sites, the opposite at the third", 1000, (0.9, 0.85, 0.1), new=0.05),
    "one odd site": Tables("nine sites agree, one does not", 300, (*[0.9] * 9, 0.2)),
    "trading places": Tables(
        "two columns, each right where the other is not", 1000, (0.95, 0.9, 0.7, 0.6), second=(0.6, 0.7, 0.9, 0.95)
    ),
    "three classes": Tables("", 800, (0.95, 0.9, 0.8, 0.6), classes=3),
    "curved": Tables("the label needs hidden layers", 1500, (0.95, 0.9, 0.8, 0.6), nonlinear=True),
    "fifty noise columns": Tables("", 600, (0.95, 0.9, 0.8, 0.6), noise_columns=50),
    "errs by class": Tables("the column errs more in one class", 800, (0.85, 0.8, 0.7, 0.6), class_errors=0.1),
    "unequal sites": Tables("2,000 to 60 rows", (2000, 1000, 500, 200, 100, 60), (0.95, 0.9, 0.85, 0.8, 0.7, 0.6)),
    "heavy tails": Tables("columns in exponents", 800, (0.95, 0.9, 0.8, 0.6), heavy_tails=True),
    "proxies": Tables("columns follow from the label", 800, (0.95, 0.9, 0.8, 0.6), proxies=True),
    "label shift and a flip": Tables(
        "", 800, (0.95, 0.9, 0.8, 0.6), site_positives=(-0.8, 0.8, -0.4, 0.4), metric="auc"
    ),
    "inputs shift and a flip": Tables("", 800, (0.95, 0.9, 0.8, 0.6), mean=(-0.5, 0.0, 0.5, 1.0)),
    "regression": Tables("", 750, (1.5, 1.0, 0.7, 0.4), new=-1.0, regression=True, metric="r2"),
    "regression, fading": Tables("", 500, (2.0, 1.5, 1.0, 0.5, 0.2, 0.0), new=-1.0, regression=True, metric="r2"),
    "yes or no": Tables("a column of two names", 800, (0.95, 0.9, 0.8, 0.6), cells=names(1)),
    "yes or no, two sites": Tables("", 2000, (0.9, 0.8), cells=names(1)),
    "yes or no, 300 rows": Tables("", 60, (0.95, 0.9, 0.8, 0.7, 0.6), cells=names(1)),
    "yes or no, rare": Tables("", 2000, (0.95, 0.9, 0.8, 0.7, 0.6), positives=0.065, metric="auc", cells=names(1)),
    "names, three classes": Tables("a column of six names", 800, (0.95, 0.9, 0.8, 0.6), classes=3, cells=names(2)),
    "forty names": Tables("", 800, (0.95, 0.9, 0.8, 0.6), cells=names(20)),
    "weekdays": Tables("of a date", 800, (0.95, 0.9, 0.8, 0.6), cells=weekdays),
    "missing values": Tables("that a number is missing", 800, (0.95, 0.9, 0.8, 0.6), cells=gaps),
    "words": Tables("a word of a text", 400, (0.95, 0.9, 0.8, 0.6), cells=words),
    "regression, names": Tables("", 750, (1.5, 1.0, 0.7, 0.4), new=-1.0, regression=True, metric="r2", cells=names(1)),
    "nothing shifts": Tables("", 600),
    "names, nothing shifts": Tables("a column of two names is a law", 600, (0.8,) * 4, new=0.8, cells=names(1)),
    "forty names, nothing shifts": Tables("", 600, (0.8,) * 4, new=0.8, cells=names(20)),
    "nothing shifts, 300 rows": Tables("", 60, sites=5),
    "nothing shifts, two sites": Tables("", 600, sites=2),
    "inputs shift": Tables("", 600, mean=(-0.8, 0.0, 0.8, 1.2)),
    "labels shift": Tables("", 600, site_positives=(-1.5, -0.5, 0.5, 1.5), metric="auc"),
    "noise differs": Tables("labels are noisier at some sites", 600, effect=(0.4, 0.8, 1.2, 1.6)),
    "effects differ": Tables("the causes' effects vary between sites", 600, slopes=0.15, sites=6),
    "curved, nothing shifts": Tables("", 1500, nonlinear=True),
    "regression, nothing shifts": Tables("", 500, regression=True, metric="r2"),
    "rare, nothing shifts": Tables("", 2000, positives=0.065, metric="auc"),
}
"""By name; the first thirty-six have a column that misleads at the new site."""
