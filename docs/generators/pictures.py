"""Pictures that are drawn when the site is built, each for a light and a dark page."""

from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from invariance.data.colored_digits import ColoredDigits
from invariance.studies.audit import SYMMETRIC
from invariance.studies.support.base import Results
from invariance.studies.support.consistency import pairs
from invariance.studies.support.printed import everything

INK = {"": "#1f2933", "-dark": "#d6dde6"}
"""Colours of lines and words, by what a file's name ends in."""
STYLES = {
    "ERM": ("#d1495b", "-", "ERM, the ordinary model"),
    "REx": ("#2a78b8", "-", "REx, an invariant method"),
    "BLOC-IRM": ("#2e8b57", "-", "BLOC-IRM, an invariant method"),
    "GrayScale": ("#8a8f98", ":", "a model that cannot see colour"),
}


def draw(folder: Path, published: dict[str, dict[str, Results]]) -> None:
    """Every picture, into a folder."""
    table = next(iter(published["table-4"].values()))
    pictures: dict[str, Callable[[], Figure]] = {
        "samples": samples,
        "accuracies": lambda: accuracies(table),
        "audit": audit,
    }
    for ending, ink in INK.items():
        edges = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), ink)
        fonts = {"font.size": 12, "font.family": "sans-serif", "axes.spines.top": False, "axes.spines.right": False}
        with mpl.rc_context({**edges, **fonts, "svg.hashsalt": "invariance", "savefig.transparent": True}):
            for name, make in pictures.items():
                figure = make()
                figure.savefig(folder / f"{name}{ending}.svg", metadata={"Date": None})
                plt.close(figure)


def samples() -> Figure:
    """Coloured digits as they are seen in training, and at a new place."""
    figure, axes = plt.subplots(3, 1, figsize=(5, 4), layout="constrained")
    for axis, (image, title) in zip(axes, _samples(), strict=True):
        axis.imshow(image, interpolation="nearest")
        axis.set_title(title, fontsize=12.5, loc="left")
        axis.set_axis_off()
    return figure


def accuracies(table: Results) -> Figure:
    """What that does to the accuracy of an ordinary model and of invariant ones."""
    figure, plot = plt.subplots(figsize=(5.6, 4), layout="constrained")
    for name, (colour, dash, label) in STYLES.items():
        for beta, accuracy in _curve(table, name):
            plot.plot(beta, accuracy, dash, color=colour, linewidth=2.6, label=label)
    plot.axvspan(0.1, 0.2, color="#8a8f98", alpha=0.25, linewidth=0)
    plot.annotate("trained here", (0.21, 93), fontsize=11)
    plot.set(xlabel="β: how often colour contradicts the label", ylabel="accuracy in %", ylim=(0, 100))
    plot.set_xlim(0.05, 0.95)
    plot.legend(frameon=False, loc="lower left")
    return figure


def _samples() -> Iterator[tuple[np.ndarray, str]]:
    """A row of coloured digits per environment: in two training environments, and where colour misleads."""
    mechanism = ColoredDigits(draws=200).load(seed=0).mechanism
    if mechanism is None:
        raise ValueError("the pictures need the mechanism of Colored-Digits")
    random = torch.Generator().manual_seed(1)
    for beta, title in ((0.1, "training, β = 0.1"), (0.2, "training, β = 0.2"), (0.9, "at a new place, β = 0.9")):
        yield _row(mechanism.environment(beta, random).x), title


def _row(x: torch.Tensor, many: int = 22) -> np.ndarray:
    images = x[:many].reshape(many, 2, 8, 8).numpy()
    rgb = np.concatenate([images, np.zeros((many, 1, 8, 8))], axis=1).transpose(0, 2, 3, 1)
    lines = np.split(rgb / max(rgb.max(), 1e-9), 2)
    return np.concatenate([np.concatenate(list(line), axis=1) for line in lines])


def _curve(table: Results, method: str) -> Iterator[tuple[list[float], list[float]]]:
    for arm in table.arms:
        row = table.row(arm)
        if arm.method == method and arm.data == "Colored-MNIST" and row and row.curve():
            means = {float(name.split("=")[-1]): float(np.mean(values)) for name, values in row.curve().items()}
            yield sorted(means), [means[beta] for beta in sorted(means)]
            return


def audit() -> Figure:
    """Printed pairs of average and gap, and the wedge in which both ends of the line are accuracies."""
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    average = np.linspace(0, 100, 201)
    limit = 1.8 * np.minimum(average, 100 - average)
    axis.fill_between(average, 0, limit, color="#2e8b57", alpha=0.18, linewidth=0, label="possible for one model")
    printed = [(pair.average.mean, pair.gap.mean) for pair in pairs(everything(), SYMMETRIC)]
    axis.plot(*zip(*printed, strict=True), "o", color="#2a78b8", markersize=4, alpha=0.6, label="printed")
    outside = [(a, g) for a, g in printed if g > 1.8 * min(a, 100 - a)]
    axis.plot(*zip(*outside, strict=True), "o", color="#d1495b", markersize=5.5, label="printed, outside of it")
    axis.set(xlabel="average accuracy in %", ylabel="gap in points", xlim=(30, 100), ylim=(0, 95))
    axis.legend(frameon=False)
    return figure
