"""Searches on a few hundred samples of Two-Bit, whose runs are done in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest

from invariance.experiments.engines.base import Driver
from invariance.experiments.run import execute
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store
from invariance.tuning.tune import Tuning, tune

SMALL = {"data": {"samples": 400}, "evaluation": {"checkpoints": 2}}


class Bench:
    """A study and a store in a folder, and every run that was really done."""

    def __init__(self, folder: Path) -> None:
        self.study, self.store = folder / "tune.db", folder / "runs.db"
        self.done: list[str] = []
        self.stop_after: int | None = None

    def run(self, specs: list[Spec], _: Driver) -> None:
        with Store(self.store) as store:
            for spec in specs:
                if store.has(spec.key):
                    continue
                if self.stop_after is not None and len(self.done) >= self.stop_after:
                    raise KeyboardInterrupt
                store.add(execute(spec).run)
                self.done.append(spec.key)

    def tune(self, method: str = "rex", *, changes: dict | None = None, **options) -> Tuning:
        changes = {**SMALL, **(changes or {})}
        files = {"study": self.study, "store": self.store, "run": self.run}
        return tune("two-bit", method, **{"changes": changes, **files, **options})


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def benches(tmp_path: Path) -> Callable[[str], Bench]:
    """Several, by name."""

    def make(name: str) -> Bench:
        (folder := tmp_path / name).mkdir()
        return Bench(folder)

    return make
