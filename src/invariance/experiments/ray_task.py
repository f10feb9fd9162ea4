"""A run as a Ray task: a generator of what its driver is told."""

import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from invariance.core.errors import InvarianceError
from invariance.core.provenance import Provenance, provenance
from invariance.core.shipment import unpacked
from invariance.experiments.remote_states import RemoteStates
from invariance.experiments.run import Executed, Progress, ResumeState, Run, executing, resume_state
from invariance.experiments.spec import Spec
from invariance.experiments.stage_cache import stages

REPORT_SECONDS = 1.0
"""How often a task reports its step, at most."""


class Step(NamedTuple):
    """A task's progress."""

    step: int
    steps: int
    seconds: float


class Saved(NamedTuple):
    """A task has saved a resume state after some updates, at a URI."""

    step: int


class Result(NamedTuple):
    """A task's run, and what it was made with."""

    run: Run
    made_with: Provenance
    reused: int = 0


class Setting(NamedTuple):
    """What a task needs to know beside its run.

    ``checkpoints`` is the URI where it keeps resume states, if it does not send them, ``stages`` the driver's folder of
    stages that runs share, and ``driver`` what the driver computes with.
    """

    device: str
    save_every: float
    checkpoints: str | None
    stages: Path | None
    driver: Provenance


def work(
    spec: Spec, data: Any, state: ResumeState | None, setting: Setting
) -> Iterator[Step | ResumeState | Saved | Result]:
    """The task: a run from its data and, if there is one, from its resume state.

    Stages are shared by the tasks of nodes that see the driver's folder of them: its own machine, and those with the
    same file system.
    """
    import ray

    here, folder = provenance(), setting.stages
    check_versions(here, setting.driver)
    torch.set_num_threads(1)
    states = RemoteStates(setting.checkpoints) if setting.checkpoints else None
    state = (states.load(spec.key) if states else None) or state
    shared = stages(spec, folder if folder and folder.is_dir() else None, setting.device, state)
    execution = executing(spec, unpacked(data, ray.get), resume_from=state, device=setting.device, stages=shared)
    executed = yield from reported(execution, setting.save_every, spec.key, states)
    yield Result(executed.run, here, shared.updates if shared else 0)


def check_versions(here: Provenance, driver: Provenance) -> None:
    """Refuse to compute with other versions than the driver's."""
    for name in ("invariance", "torch"):
        if (got := here["versions"][name]) != (wanted := driver["versions"][name]):
            raise InvarianceError(f"a node has {name} {got} and the driver {wanted}; install the same on all machines")


def reported(
    execution: Generator[Progress, None, Executed], save_every: float, key: str, states: RemoteStates | None = None
) -> Generator[Step | ResumeState | Saved, None, Executed]:
    """What the driver is told of an execution while it lasts, and then what came of it."""
    told, saved = 0.0, time.monotonic()
    while True:
        try:
            snapshot, history, seconds = next(execution)
        except StopIteration as end:
            executed: Executed = end.value
            return executed
        now = time.monotonic()
        if now - told >= REPORT_SECONDS:
            yield Step(snapshot.step, snapshot.steps, seconds)
            told = now
        if now - saved >= save_every and (partial := resume_state(snapshot, history, seconds)):
            if states:
                states.save(partial, key)
                yield Saved(snapshot.step)
            else:
                yield partial._replace(state={name: tensor.cpu() for name, tensor in partial.state.items()})
            saved = now
