"""What many environments cost: a training step of each one-move method at 2, 8, 64 and 512 environments.

First batches of 1,024 rows with equal counts of every environment, as every recipe with batches draws them;
then 2,048 rows at once (full batch) whose environments have unequal sizes, 3 : 5 in turn. A column is the time
of a step over that of the same method with two environments of equal size, timed in alternation.

Aim: at most 1.2 at 512.
"""

from collections.abc import Sequence

import torch
from harness import ONE_MOVE, Options, environments, in_turns, run, show

from invariance.core.environment import Environment

COUNTS = (2, 8, 64, 512)
BATCHED_ROWS, FULL_ROWS = 50_000, 2_048


def equal(count: int, rows: int) -> list[Environment]:
    return environments([rows // count] * count)


def unequal(count: int, rows: int) -> list[Environment]:
    """Sizes 3 : 5 in turn."""
    unit = rows // (4 * count)
    return environments([3 * unit, 5 * unit] * (count // 2))


def compare(cases: Sequence[tuple[str, list[Environment]]], recipe: str, rounds: int) -> list[dict[str, object]]:
    """One row per method: milliseconds of the first case, and every other case as a multiple of it."""
    (first, _), *others = cases
    rows: list[dict[str, object]] = []
    for objective in ONE_MOVE.values():
        times = in_turns({label: run(objective, data, recipe).advance for label, data in cases}, rounds, repeats=2)
        row: dict[str, object] = {"method": objective.title, f"{first}, ms": times.ms(first)}
        rows.append(row | {label: times.ratio(label, first) for label, _ in others})
    return rows


def main() -> None:
    options = Options.parse(__doc__)
    torch.set_num_threads(1)
    rounds = 4 if options.quick else 30
    batched = [(f"{count} environments", equal(count, BATCHED_ROWS)) for count in COUNTS]
    rows = compare(batched, "small-batch", rounds)
    note = "Processor time; columns without ms are times the first one."
    show("Batches of 1,024: time over that of 2 environments", rows, note, options, "environments-equal")
    full = [("2 equal", equal(2, FULL_ROWS)), *((f"{count} unequal", unequal(count, FULL_ROWS)) for count in COUNTS)]
    rows = compare(full, "full-batch", max(2, rounds // 2))
    show("2,048 rows at once: time over that of 2 equal environments", rows, note, options, "environments-unequal")


if __name__ == "__main__":
    main()
