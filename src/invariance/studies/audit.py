"""An audit of the printed numbers."""

from typing import ClassVar, final

from invariance.core.artefacts import Artefact, Column, Line, Table
from invariance.studies.support.base import Arm, Results, Study
from invariance.studies.support.consistency import (
    ROUNDING,
    TRIALS,
    Numbers,
    column_means,
    disagreements,
    meaning,
    pairs,
    repeats,
    text,
)
from invariance.studies.support.printed import everything
from invariance.studies.support.sampling import IMAGES, ends, ends_noise, gap_floor

SYMMETRIC = ("Colored-MNIST", "Colored-FMNIST", "Colored-Object", "CIFAR-MNIST", "CelebA")
"""Data sets with 19 test environments, symmetric about β = ½; VLCS and PACS have domains."""
SIGMAS = 3
"""Standard deviations, or errors, that are put down to chance."""


@final
class Audit(Study):
    """Which printed numbers cannot be right, or cannot all be."""

    title: ClassVar[str] = "Audit: which printed numbers cannot be right"
    caption: ClassVar[str] = "Arithmetic on the printed numbers alone; nothing is run."

    def arms(self, scale: str) -> list[Arm]:
        return []

    def show(self, results: Results) -> tuple[Artefact, ...]:
        """Four tables, one for each question."""
        numbers = everything()
        return impossible(numbers), below_the_floor(numbers), different_values(numbers), repeated_values(numbers)


def impossible(numbers: Numbers) -> Table:
    """Pairs of average and gap that no predictor has."""
    lines = []
    printed_pairs = pairs(numbers, SYMMETRIC)
    for pair in printed_pairs:
        average, gap = pair.average.mean, pair.gap.mean
        oppose, agree = ends(average, gap)
        outside = max(-oppose, agree - 100)
        if outside > 2 * ROUNDING:  # once of the average, less of the gap
            beyond = outside - SIGMAS * ends_noise(average, gap)
            cells = (text(pair.average), text(pair.gap), oppose, agree, beyond, pair.studies)
            lines.append(Line(pair.label, cells))
    caption = (
        "Accuracy of one predictor is a straight line in β, so over 19 environments from β = 0.05 to 0.95 its "
        "average and gap give its accuracy where colour opposes the label, average − gap/1.8, and where it agrees, "
        "average + gap/1.8. Listed is every pair for which one of them is below 0 or above 100 %. The last number "
        f"says by how many points, beyond {SIGMAS} standard deviations of one trial on {IMAGES:,} images per test "
        f"environment, or of {TRIALS} on {IMAGES // TRIALS:,}. Where it is negative, chance may explain the pair."
    )
    names = ("average", "gap", "where colour opposes", "where it agrees", "points beyond chance", "printed in")
    return _table(
        "impossible", "pairs of average and gap that cannot be", caption, names, lines, len(printed_pairs), "pairs"
    )


def below_the_floor(numbers: Numbers) -> Table:
    """Gaps smaller than drawing the test environments makes them."""
    lines, steadiness = [], []
    printed_pairs = pairs(numbers, SYMMETRIC)
    for pair in printed_pairs:
        floor = gap_floor(pair.average.mean)
        error = floor.std / TRIALS**0.5
        below = floor.mean - pair.gap.mean
        steadiness += [] if pair.gap.std is None else [pair.gap.std < floor.std / 3]
        if below > SIGMAS * error:
            cells = (text(pair.average), text(pair.gap), floor.mean, floor.std, below / error, pair.studies)
            lines.append(Line(pair.label, cells))
    caption = (
        "Test environments that are drawn independently differ by chance: even a predictor with one accuracy for all "
        f"of them shows a gap, here with its deviation over trials, on {IMAGES:,} images per environment. Listed is "
        f"every gap that is smaller than that, by more than {SIGMAS} standard errors of a mean of {TRIALS} trials. "
        "Such gaps need more images, or environments that share their draws."
    )
    names = ("average", "gap", "by chance", "its deviation", "standard errors below", "printed in")
    note = (
        f"{sum(steadiness)} of {len(steadiness)} printed deviations of a gap are less than a third of what drawing "
        f"alone gives an invariant predictor; over {TRIALS} trials, one in a thousand should be."
    )
    return _table(
        "floor", "gaps smaller than chance makes them", caption, names, lines, len(printed_pairs), "gaps", note
    )


def different_values(numbers: Numbers) -> Table:
    """Quantities that are printed with several values."""
    lines = [
        Line(
            f"{each.meaning.method} · {each.meaning.data} · {each.meaning.training}",
            (each.meaning.metric, each.values, each.difference, each.errors or "", each.reason),
        )
        for each in disagreements(numbers)
    ]
    means = column_means(numbers)
    wrong = [mean for mean in means if not mean.follows]
    for place, printed, mean in wrong:
        values = f"{printed:.2f} ({place.study}), {mean:.2f} by its lines"
        cells = (place.metric, values, abs(printed - mean), "", "arithmetic")
        lines.append(Line(f"average over methods · {place.data} · {place.setting}", cells))
    caption = (
        "One experiment has one value wherever it is printed. GrayScale cannot see colour, so what changes colours "
        f"alone leaves it as it is up to the noise of trials: listed where values differ by more than {SIGMAS} "
        f"standard errors of means of {TRIALS} trials. Averages over methods must follow from the lines above them."
    )
    names = ("of", "printed values", "largest difference", "standard errors", "must agree because")
    note = f"{len(means) - len(wrong)} of {len(means)} averages over methods follow from their lines."
    quantities = len({meaning(place) for place in numbers})
    title = "quantities with several values"
    return _table("disagreements", title, caption, names, lines, quantities, "quantities", note)


def repeated_values(numbers: Numbers) -> Table:
    """Numbers that agree to the last digit though nothing makes them."""
    lines = [Line(r.method, (r.metric, text(r.number), r.places)) for r in repeats(numbers)]
    caption = (
        "Mean and deviation of one method that are the same in two settings of one table, to the last digit. Nothing "
        "forbids it; a slip in copying is likelier."
    )
    several = sum(number.std is not None for number in numbers.values())
    names = ("of", "printed", "printed at")
    return _table("repeats", "numbers that are printed twice", caption, names, lines, several, "numbers")


def _table(
    name: str, title: str, caption: str, names: tuple[str, ...], lines: list[Line], of: int, what: str, note: str = ""
) -> Table:
    columns = tuple(Column(column) for column in names)
    notes = (f"{len(lines)} of {of} {what}.", *([note] if note else []))
    provenance = "computed from the printed numbers; no run"
    return Table(f"audit-{name}", f"Audit: {title}", caption, "what", columns, tuple(lines), provenance, notes)
