"""Which printed numbers denote one quantity, and which go together."""

from collections.abc import Iterator, Mapping
from math import sqrt
from statistics import fmean
from typing import NamedTuple

from invariance.core.artefacts import Printed
from invariance.studies.support.printed import Place

Numbers = Mapping[Place, Printed]

TRIALS = 10
"""Over which the paper averages."""
ROUNDING = 0.005
"""Of a number with two decimals."""
DERIVED = ("Optimum", "Average")
"""Lines that no predictor stands behind."""
STANDARD = "small batch"


class Meaning(NamedTuple):
    """What a number says something about."""

    data: str
    training: str
    method: str
    metric: str


def meaning(place: Place) -> Meaning:
    """What a place denotes.

    References are trained like everything that has no setting of its own, in small batches. GrayScale cannot see
    colour, so nothing that changes colours alone changes it.
    """
    colours_only = place.setting.startswith("β") or place.setting == "colour imbalance"
    same = place.setting == "reference" or (place.method == "GrayScale" and colours_only)
    return Meaning(place.data, STANDARD if same else place.setting, place.method, place.metric)


def text(number: Printed) -> str:
    """As it is printed."""
    return f"{number.mean:.2f}" if number.std is None else f"{number.mean:.2f} ± {number.std:.2f}"


class Pair(NamedTuple):
    """An average and a gap of one predictor, and the studies that print them."""

    label: str
    average: Printed
    gap: Printed
    studies: str


def pairs(numbers: Numbers, data: tuple[str, ...]) -> list[Pair]:
    """Every printed pair on these data sets; what is printed twice is listed once."""
    studies_of: dict[tuple[str, Printed, Printed], list[str]] = {}
    for place, average in numbers.items():
        gap = numbers.get(place._replace(metric="gap"))
        if place.metric == "average" and gap and place.data in data and place.method not in DERIVED:
            setting = STANDARD if place.setting == "reference" else place.setting
            label = f"{place.method} · {place.data} · {setting}"
            studies_of.setdefault((label, average, gap), []).append(place.study)
    return [Pair(*key, ", ".join(studies)) for key, studies in studies_of.items()]


class Disagreement(NamedTuple):
    """One quantity with several values. ``errors`` is the largest difference in its standard errors, if known."""

    meaning: Meaning
    values: str
    difference: float
    errors: float | None
    reason: str


def disagreements(numbers: Numbers) -> Iterator[Disagreement]:
    """Quantities whose values differ: at all if they are of one experiment, by three standard errors if of one law."""
    groups: dict[Meaning, dict[Place, Printed]] = {}
    for place, number in numbers.items():
        groups.setdefault(meaning(place), {})[place] = number
    for what, places in groups.items():
        low, high = (pick(places.values(), key=lambda n: n.mean) for pick in (min, max))
        difference = high.mean - low.mean
        error = sqrt((low.std**2 + high.std**2) / TRIALS) if low.std and high.std else None
        settings = {STANDARD if p.setting == "reference" else p.setting for p in places}
        allowed = 3 * (error or 0.0) if len(settings) > 1 else ROUNDING
        if difference > allowed:
            values = ", ".join(f"{text(n)} ({_where(p, settings)})" for p, n in places.items())
            reason = "cannot see what differs" if len(settings) > 1 else "one experiment"
            yield Disagreement(what, values, difference, difference / error if error else None, reason)


def _where(place: Place, settings: set[str]) -> str:
    return f"{place.study}, {place.setting}" if len(settings) > 1 else place.study


class Repeat(NamedTuple):
    """Different quantities of one method with the same mean and deviation."""

    method: str
    metric: str
    number: Printed
    places: str


def repeats(numbers: Numbers) -> list[Repeat]:
    """All of them, in one study each."""
    equal: dict[tuple[str, str, str, Printed], dict[Meaning, Place]] = {}
    for place, number in numbers.items():
        if number.std is not None:
            equal.setdefault((place.study, place.method, place.metric, number), {})[meaning(place)] = place
    return [
        Repeat(method, metric, number, f"{study}: " + "; ".join(f"{p.data}, {p.setting}" for p in places.values()))
        for (study, method, metric, number), places in equal.items()
        if len(places) > 1
    ]


class Mean(NamedTuple):
    """A printed average over methods, and that of the numbers above it."""

    place: Place
    printed: float
    recomputed: float

    @property
    def follows(self) -> bool:
        """Whether rounding explains the difference: once in the average, once in each number above."""
        return abs(self.printed - self.recomputed) <= 2 * ROUNDING


def column_means(numbers: Numbers) -> list[Mean]:
    """Every average over methods that is printed."""
    means = []
    for place, number in numbers.items():
        if place.method == "Average":
            above = [n.mean for p, n in numbers.items() if p != place and p._replace(method="Average") == place]
            means.append(Mean(place, number.mean, fmean(above)))
    return means
