"""Accuracy over environments, as a picture and as a line of text."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

BARS = "▁▂▃▄▅▆▇█"
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#ee7733", "#009988", "#cc3311")


def sparkline(values: Sequence[float], low: float = 0.0, high: float = 100.0) -> str:
    """One bar a value, between ``low`` and ``high``."""
    shares = np.clip((np.asarray(values) - low) / (high - low), 0, 1)
    return "".join(BARS[round(share * (len(BARS) - 1))] for share in shares)


def draw(curves: Mapping[str, Mapping[str, Sequence[float]]], title: str, path: Path) -> None:
    """Mean accuracy over seeds in each environment with a band of one standard deviation, one line a method.

    ERM is drawn black and the oracle grey and dashed, since the others are read against these two.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    colours = iter(COLOURS * len(curves))
    for name, curve in curves.items():
        at = [float(e.removeprefix("β=")) if e.startswith("β=") else i for i, e in enumerate(curve)]
        values = np.array(list(curve.values()))  # [environments, seeds]
        mean, std = values.mean(1), values.std(1)
        fixed = {"ERM": ("black", "-"), "GrayScale": ("grey", "--")}
        colour, style = fixed[name] if name in fixed else (next(colours), "-")
        axes.plot(at, mean, style, color=colour, label=name, lw=2.2 if name in fixed else 1.6)
        axes.fill_between(at, mean - std, mean + std, color=colour, alpha=0.15, lw=0)
    axes.set(title=title, ylabel="accuracy, %", ylim=(0, 100))
    axes.set_xlabel("test environment: how often the spurious cue contradicts the label (β)")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if curves:
        figure.legend(loc="outside right center", frameon=False)
    figure.savefig(path)
