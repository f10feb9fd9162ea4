"""Two things changed, one number measured: which of the two did it."""

from math import hypot, isnan, nan, sqrt
from statistics import stdev
from typing import NamedTuple

from invariance.core.artefacts import Quantity


def error(quantity: Quantity) -> float:
    """The standard error of a mean over seeds; not a number for fewer than two."""
    return stdev(quantity.ours) / sqrt(len(quantity.ours)) if len(quantity.ours) > 1 else nan


def signed(value: float) -> str:
    """With two decimals and its sign."""
    return f"{value:+.2f}".replace("-", "−")


class Difference(NamedTuple):
    """Of two means, with its standard error."""

    value: float
    error: float

    @property
    def significant(self) -> bool:
        """Whether it is more than twice its standard error; never without one."""
        return abs(self.value) > 2 * self.error

    def __str__(self) -> str:
        return signed(self.value) + ("" if isnan(self.error) else f" ± {self.error:.2f}")


def difference(new: Quantity, old: Quantity) -> Difference:
    """New less old."""
    return Difference(new.mean - old.mean, hypot(error(new), error(old)))


class Effects(NamedTuple):
    """A change in two steps, split into the parts of both, which add up to it.

    Each part is the effect of one step, averaged over both states of the other.
    """

    total: Difference
    first: float
    second: float
    lead: Difference
    """The second part less the first: the mean with only the second step made, less that with only the first."""

    @property
    def larger(self) -> int | None:
        """1 or 2, or None where the seeds cannot decide.

        The parts differ in size by the lesser of |second − first| and |second + first|, so both must be
        significant.
        """
        if not (self.total.significant and self.lead.significant):
            return None
        return 1 if abs(self.first) > abs(self.second) else 2


def effects(neither: Quantity, first: Quantity, second: Quantity, both: Quantity) -> Effects:
    """From the means with neither step made, with one of them, and with both."""
    total, lead = difference(both, neither), difference(second, first)
    return Effects(total, (total.value - lead.value) / 2, (total.value + lead.value) / 2, lead)
