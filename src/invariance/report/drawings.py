"""Settings as figures: accuracy over environments, and what happened on the way there."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from invariance.core.artefacts import Curve, Figure, Lines
from invariance.experiments.selected_runs import SelectedRuns
from invariance.report.settings import Setting
from invariance.studies.support.spectrum import spectrum
from invariance.training.selection import Checkpoint

MOST_PANELS = 12
"""For each data set."""
MOST_HISTORIES = 8

Measure = Callable[[Checkpoint], float | None]

HISTORIES: tuple[tuple[str, str, Measure, bool], ...] = (
    ("average over test environments", "accuracy, %", lambda c: 100 * c.test.mean, False),
    ("gap over test environments", "accuracy, %", lambda c: 100 * c.test.gap, False),
    ("penalty, without its weight", "P", lambda c: c.diagnostics.penalty if c.diagnostics else None, True),
    ("logit scale", "deviation of the outputs", lambda c: c.diagnostics.logit_scale if c.diagnostics else None, True),
)
"""Title, axis, what is drawn, and whether its axis is logarithmic."""


def spectra(settings: Sequence[Setting], how: str) -> tuple[tuple[Figure, ...], str]:
    """Accuracy over environments, one figure per data set with one panel per setting; and what was left out.

    ``how`` says which checkpoints and seeds of the settings these are.
    """
    figures, left_out = [], 0
    for data in dict.fromkeys(setting.data for setting in settings):
        panels = [panel for s in settings if s.data == data and (panel := spectrum(s.how, s.rows, methods=s.methods))]
        left_out += len(panels[MOST_PANELS:])
        about = "Mean over seeds, with a band of one standard deviation."
        if any(not panel.places for panel in panels):
            about += " β says how often the spurious cue contradicts the label."
        if panels:
            name, shown = f"curves-{_slug(data)}", tuple(panels[:MOST_PANELS])
            notes = tuple(_collapsed([s for s in settings if s.data == data]))
            figures.append(Figure(name, f"Accuracy in {data}", about, shown, how, notes))
    return _distinct(figures), f"Left out: {left_out} more settings, those with the fewest methods." if left_out else ""


def _collapsed(settings: Iterable[Setting]) -> Iterator[str]:
    """The methods of each setting of which seeds collapsed or failed, and those of which none is drawn."""
    for setting in settings:
        lost = {name: row for name, row in setting.rows.items() if row.failures}
        for what, drawn in (("Some seeds", True), ("Not drawn", False)):
            names = [f"{name} ({row.status})" for name, row in lost.items() if bool(row.chosen) == drawn]
            if names:
                yield f"{what} in {setting.how}: {', '.join(names)}."


def histories(settings: Sequence[Setting]) -> tuple[tuple[Figure, ...], str]:
    """What happened during training, one figure per setting; and what was left out."""
    figures = [figure for setting in settings if (figure := _history(setting))]
    left_out = len(figures[MOST_HISTORIES:])
    sentence = f"Left out: {left_out} more settings, those with the fewest methods." if left_out else ""
    return _distinct(figures[:MOST_HISTORIES]), sentence


def _history(setting: Setting) -> Figure | None:
    panels = []
    for title, axis, measure, log in HISTORIES:
        means = {name: _mean(row, measure) for name, row in setting.rows.items()}
        curves = tuple(
            Curve(name, tuple(at), tuple(at.values()), method=setting.methods[name])
            for name, at in means.items()
            if len(at) > 1
        )
        log = log and any(y > 0 for curve in curves for y in curve.y)
        if curves:
            panels.append(Lines(title, "update", axis, curves, log_y=log))
    if not panels:
        return None
    name, title = f"history-{_slug(setting.data)}-{_slug(setting.how)}", f"{setting.data} · {setting.how}"
    about = "Mean over all seeds, those included that collapsed in the end."
    hidden = [curve.label for panel in panels if panel.log_y for curve in panel.curves if min(curve.y) <= 0]
    notes = (f"Not drawn where not positive: {', '.join(dict.fromkeys(hidden))}.",) if hidden else ()
    return Figure(name, title, about, tuple(panels), notes=notes)


def _mean(row: SelectedRuns, measure: Measure) -> dict[float, float]:
    """Over seeds, at every step that was measured."""
    by_step: dict[float, list[float]] = {}
    for run in row.runs:
        for checkpoint in run.history:
            value = measure(checkpoint)
            if value is not None and math.isfinite(value):
                by_step.setdefault(float(checkpoint.step), []).append(value)
    return {step: fmean(values) for step, values in sorted(by_step.items())}


def _slug(text: str) -> str:
    return "-".join("".join(c if c.isascii() and c.isalnum() else " " for c in text.lower()).split())


def _distinct(figures: Iterable[Figure]) -> tuple[Figure, ...]:
    """The figures, numbered where they would have one name."""
    named: dict[str, Figure] = {}
    for figure in figures:
        name, number = figure.name, 1
        while name in named:
            number += 1
            name = f"{figure.name}-{number}"
        named[name] = replace(figure, name=name)
    return tuple(named.values())
