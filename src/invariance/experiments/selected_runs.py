"""Runs of one spec over its seeds, at the checkpoints that a selection rule takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from invariance.experiments.run import Run
from invariance.experiments.spec import Spec
from invariance.training.selection import Checkpoint, label, rule, select


class Outcome(NamedTuple):
    """What a selection rule made of one seed: a status, and the checkpoint it took unless there is none."""

    status: str
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True)
class SelectedRuns:
    """One run per seed of a trial, at the checkpoints that a selection rule took.

    Only finished ones are averaged, or, ``with_collapsed``, those too whose checkpoint has collapsed. ``trial`` and
    ``keys``, by seed, are what a store calls them.
    """

    runs: tuple[Run, ...]
    outcomes: tuple[Outcome, ...]
    selection: str
    with_collapsed: bool = False
    trial: str = ""
    keys: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: Sequence[Run], selection: str, *, with_collapsed: bool = False) -> "SelectedRuns":
        """From all runs of one trial; those that held an environment out count where the rule looks at them."""
        own = sorted((run for run in runs if run.spec.hold_out is None), key=lambda run: run.spec.seed)
        others = [run for run in runs if run.spec.hold_out is not None] if rule(selection).holds_out else []
        outcomes = []
        for run in own:
            held_out = [other for other in others if other.spec.seed == run.spec.seed]
            outcomes.append(_outcome(run, held_out, selection))
        return cls(tuple(own), tuple(outcomes), selection, with_collapsed)

    @property
    def chosen(self) -> list[Checkpoint]:
        """The checkpoints that count."""
        return [o.checkpoint for o in self.outcomes if o.checkpoint and self._counts(o)]

    @property
    def by_seed(self) -> dict[int, Checkpoint]:
        """The same by the seeds of their runs."""
        pairs = zip(self.runs, self.outcomes, strict=True)
        return {run.spec.seed: o.checkpoint for run, o in pairs if o.checkpoint and self._counts(o)}

    def _counts(self, outcome: Outcome) -> bool:
        return self.with_collapsed or outcome.status == "finished"

    @property
    def collapsed(self) -> int:
        """How many seeds collapsed."""
        return self.failures.count("collapsed")

    @property
    def spec(self) -> Spec:
        """The spec of the first seed."""
        return self.runs[0].spec

    @property
    def failures(self) -> list[str]:
        """The status of every seed that did not finish well."""
        return [outcome.status for outcome in self.outcomes if outcome.status != "finished"]

    @property
    def status(self) -> str:
        """``finished``, or what else happened and how often."""
        counts = {status: self.failures.count(status) for status in sorted(set(self.failures))}
        return ", ".join(f"{status} {n} of {len(self.runs)}" for status, n in counts.items()) or "finished"

    @property
    def note(self) -> str:
        """How many seeds were to be debiased and were trained without a logit offset; nothing if none was."""
        without = sum(run.status == "finished" and bool(run.reason) for run in self.runs)
        return f"no logit offset in {without} of {len(self.runs)}" if without else ""

    def values(self, metric: str) -> list[float]:
        """``mean``, ``worst`` or ``gap`` of every seed that counts, in percent."""
        return [100 * getattr(checkpoint.test, metric) for checkpoint in self.chosen]

    def curve(self) -> dict[str, list[float]]:
        """Accuracy of every seed that counts in each test environment, in percent."""
        chosen = self.chosen
        names = chosen[0].test.by_environment if chosen else {}
        return {name: [100 * c.test.by_environment[name] for c in chosen] for name in names}

    def to_json(self) -> dict[str, Any]:
        """One flat object for machines."""
        spec = self.spec
        row: dict[str, Any] = {
            "method": spec.method_name,
            "data": spec.data_name,
            "recipe": spec.recipe_name,
            "seeds": len(self.runs),
            "first_seed": spec.seed,
            "selection": label(self.selection),
            "status": self.status,
            "seconds": round(float(np.mean([run.seconds for run in self.runs])), 3),
        }
        for name, metric in (("average", "mean"), ("worst", "worst"), ("gap", "gap")):
            values = self.values(metric)
            row[name] = float(np.mean(values)) if values else None
            row[f"{name}_std"] = float(np.std(values)) if len(values) > 1 else None
        return row


def _outcome(run: Run, held_out: Sequence[Run], selection: str) -> Outcome:
    """A run counts as collapsed if the checkpoint it is judged by is; one that diverged or failed has none."""
    for status in ("failed", "diverged"):
        if any(r.status == status for r in (run, *held_out)):
            return Outcome(status)
    checkpoint = select(selection, run.history, [r.history for r in held_out])
    return Outcome("collapsed" if checkpoint.collapsed else "finished", checkpoint)
