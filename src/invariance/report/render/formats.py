"""Numbers and names as text."""

import math
from collections.abc import Sequence

from invariance.core.artefacts import Difference, Printed, Quantity
from invariance.core.text import clean

NOTHING = "–"
MINUS = "−"
PRINTED_DECIMALS = 2
"""As the paper prints its percentages."""


def numbered(sentences: Sequence[str]) -> str:
    """Sentences as one text, "1. … 2. …"."""
    return clean(" ".join(f"{number}. {sentence}" for number, sentence in enumerate(sentences, 1)))


def fixed(value: float, decimals: int = 1, *, signed: bool = False) -> str:
    """A number with so many decimals, and a minus that is as wide as a plus; what is rounded to zero has no sign."""
    if not math.isfinite(value):
        return NOTHING if math.isnan(value) else f"{MINUS if value < 0 else ''}∞"
    zero = round(value, decimals) == 0
    return f"{0.0 if zero else value:{'+' if signed and not zero else ''}.{decimals}f}".replace("-", MINUS)


def plain(value: float) -> str:
    """A number of any size, to four digits; a whole one in full."""
    if not math.isfinite(value):
        return fixed(value)
    if float(value).is_integer() and abs(value) < 1e7:
        return fixed(value, 0)
    return f"{value:.4g}".replace("-", MINUS)


def same_decimals(values: Sequence[float]) -> list[str]:
    """Numbers of one column with the same decimals, three digits for the largest; each by itself if that hides some."""
    finite = [abs(v) for v in values if math.isfinite(v) and v]
    if all(float(v).is_integer() for v in finite):
        return [plain(v) for v in values]
    decimals = max(2 - math.floor(math.log10(max(finite))), 0)
    if min(finite) < 0.5 * 10.0**-decimals:
        return [plain(v) for v in values]
    return [fixed(v, decimals) for v in values]


def mean(quantity: Quantity) -> str:
    """Ours over seeds, "68.3 ± 0.3"; a single seed has no deviation."""
    if not quantity.ours:
        return NOTHING
    decimals = _decimals(quantity.mean)
    spread = f" ± {fixed(quantity.std, decimals)}" if len(quantity.ours) > 1 else ""
    return fixed(quantity.mean, decimals) + spread


def seeds(quantity: Quantity) -> str:
    """How many seeds a mean rests on, "n = 9"; nothing where none was run."""
    return f"n = {len(quantity.ours)}" if quantity.seeds else ""


def collapsed(quantity: Quantity) -> str:
    """How many seeds collapsed, "1 collapsed"; mostly nothing."""
    return f"{quantity.collapsed} collapsed" if quantity.collapsed else ""


def interval(difference: Difference) -> str:
    """A difference with its interval, "+1.2 [0.4, 2.0]"; a single seed has none."""
    if not difference.values:
        return NOTHING
    ends = f" [{fixed(difference.low)}, {fixed(difference.high)}]" if len(difference.values) > 1 else ""
    return fixed(difference.mean, signed=True) + ends


def printed(number: Printed | None) -> str:
    """The printed number, "68.33 ± 0.31"."""
    if number is None:
        return ""
    spread = "" if number.std is None else f" ± {fixed(number.std, PRINTED_DECIMALS)}"
    return fixed(number.mean, PRINTED_DECIMALS) + spread


def difference(quantity: Quantity) -> str:
    """Ours less the printed, "−0.1"; nothing where one of them is missing."""
    return "" if math.isnan(quantity.difference) else fixed(quantity.difference, 1, signed=True)


def _decimals(value: float) -> int:
    """One, as percentages need; more for a number that would vanish."""
    if not value or not math.isfinite(value) or abs(value) >= 0.05:
        return 1
    return min(1 - math.floor(math.log10(abs(value))), 9)
