"""Numbers as a line of text."""

from collections.abc import Sequence

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], low: float = 0.0, high: float = 100.0) -> str:
    """One bar per value, between ``low`` and ``high``."""
    shares = (min(1.0, max(0.0, (value - low) / (high - low))) for value in values)
    return "".join(BARS[round(share * (len(BARS) - 1))] for share in shares)
