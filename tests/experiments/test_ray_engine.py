"""The Ray engine on a real cluster of three nodes on this machine, of which one is killed."""

import os
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from invariance.core import ray_cluster
from invariance.experiments.engines import run_all
from invariance.experiments.run import Run
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store, work_folder

PATIENT = {
    "RAY_raylet_start_wait_time_s": "600",
    "RAY_gcs_server_port_wait_time_s": "600",
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_gcs_server_request_timeout_seconds": "600",
    "RAY_health_check_timeout_ms": "600000",
    "RAY_worker_niceness": "0",
}
"""On a busy machine Ray's processes take long to start; only a node that was killed is to be taken for lost.
Workers have the priority of the test."""
PLUGIN = """
import os, time
from pathlib import Path
from typing import ClassVar
from pydantic.dataclasses import dataclass
from invariance.methods.base import Method
from invariance.methods.erm import ERM

@dataclass(frozen=True)
class Halts(Method):
    '''ERM that notes when it begins, and half-way waits for a file, or takes its process with it.'''
    title: ClassVar[str] = "Halts"
    about: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    citation: ClassVar[str] = ""
    folder: str = ""
    dies: bool = False

    def moves(self, model, batch, clock, generator):
        folder = Path(self.folder)
        if clock.step == 0:
            with (folder / "begun").open("a") as file:
                file.write("begun\\n")
        if clock.step == clock.steps // 2:
            if self.dies and not (folder / "died").exists():
                (folder / "died").touch()
                os._exit(1)
            while not (folder / "go").exists():
                (folder / f"halted-{os.getpid()}").touch()
                time.sleep(0.05)
        yield from ERM().moves(model, batch, clock, generator)
"""


def small(method: str, /, seed: int = 0, **sections) -> Spec:
    """A run of a moment, on data that are sent apart from the run."""
    changes = {"data": {"samples": 8000}, "recipe": {"epochs": 4, "batch_size": 400}, **sections}
    return Spec.of("two-bit", method, "short", seed, changes)


def plain(run: Run | None) -> Run:
    assert run
    return replace(run, seconds=0.0)


def stored(store: Path) -> dict[str, Run]:
    """All runs of a store, without their times."""
    with Store(store, must_exist=True) as runs:
        return {each.key: plain(runs.get(each.key)) for each in runs.summaries()}


def assert_as_local(store: Path, specs: list[Spec]) -> None:
    """The store is that of the local engine for the same study, and nothing is left of the work on it."""
    local = store.with_name("local.db")
    assert all(event.status == "finished" for event in run_all(specs, local, workers=1) if event.kind == "done")
    assert stored(store) == stored(local)
    assert set(stored(store)) == {spec.key for spec in specs}
    assert not work_folder(store).exists()


def ends(specs: list[Spec], store: Path, **options) -> list[tuple[Spec, str, str]]:
    """How runs end."""
    events = run_all(specs, store, save_every=0, **options)
    return [(event.spec, event.status, event.reason) for event in events if event.kind == "done"]


def dying(folder: Path, seed: int) -> Spec:
    """A run that takes its process with it half-way, once, and leaves its marks in a folder of its own."""
    folder.mkdir()
    (folder / "go").touch()
    return small("halts", seed, method={"folder": str(folder), "dies": True})


def begun(folder: Path) -> int:
    """How many runs of the plug-in began at their first step."""
    return len((folder / "begun").read_text().splitlines())


class Nodes:
    """A head that runs nothing, and two nodes of one core each."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        memory = 100 * 2**20
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": memory}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.workers = [self.cluster.add_node(num_cpus=1, object_store_memory=memory) for _ in range(2)]
        self.address = self.cluster.address

    def kill_one(self) -> None:
        self.cluster.remove_node(self.workers.pop(), allow_graceful=False)


@pytest.fixture
def nodes(tmp_path, plugin, monkeypatch) -> Iterator[Nodes]:
    monkeypatch.setenv("PYTHONPATH", str(plugin(PLUGIN, methods=["halts = another_package:Halts"])), prepend=os.pathsep)
    token = {"RAY_AUTH_TOKEN": secrets.token_hex()}  # Ray makes one where it starts by itself, not for a Cluster
    for name, value in (ray_cluster.LOOPBACK | ray_cluster.PRIVATE | PATIENT | token).items():
        monkeypatch.setenv(name, value)
    import ray

    made = Nodes()
    yield made
    (tmp_path / "go").touch()
    ray.shutdown()
    made.cluster.shutdown()


def test_a_study_that_loses_a_node_ends_as_the_local_one_and_either_engine_goes_on(nodes, tmp_path):
    store = tmp_path / "runs.db"
    halting = [small("halts", seed, method={"folder": str(tmp_path)}) for seed in (0, 1)]
    others = [small("erm"), small("irmv1", 1), small("grayscale")]
    specs = [*halting, *others]

    def saved(specs: list[Spec]) -> bool:
        return all((work_folder(store) / f"{spec.key}.safetensors").exists() for spec in specs)

    def kill_one_when_both_are_busy() -> None:
        while len(list(tmp_path.glob("halted-*"))) < 2 or not saved(halting):
            time.sleep(0.05)
        nodes.kill_one()
        (tmp_path / "go").touch()

    with ThreadPoolExecutor(1) as pool:
        killed = pool.submit(kill_one_when_both_are_busy)
        events = list(run_all(specs, store, engine="ray", address=nodes.address, save_every=0))
        killed.result()
    done = Counter((event.spec.key, event.status) for event in events if event.kind == "done")
    assert done == {(spec.key, "finished"): 1 for spec in specs}
    assert {event.spec for event in events if event.kind == "step"} == set(specs)
    assert begun(tmp_path) == 2  # the one whose node was lost did not begin again
    assert len(nodes.workers) == 1
    assert_as_local(store, specs)

    again = small("irmv1", 1, method={"gamma": 10.0})
    (end,) = [e for e in run_all([again], store, engine="ray") if e.kind == "done"]
    assert end.reused > 0
    specs.append(again)

    died = "its worker process died on a node of the cluster"
    first, second, third = (dying(tmp_path / name, seed) for seed, name in enumerate("abc", start=2))
    assert ends([*specs, first], store, engine="ray") == [(first, "failed", died)]
    assert ends([first], store, workers=1) == [(first, "finished", "")]
    ((spec, status, _),) = ends([second], store, workers=1)
    assert (spec, status) == (second, "failed")
    assert ends([second], store, engine="ray") == [(second, "finished", "")]

    states = tmp_path / "states"
    remote = {"engine": "ray", "checkpoints": states.as_uri()}
    assert ends([third], store, **remote) == [(third, "failed", died)]
    assert [file.name for file in states.iterdir()] == [f"{third.key}.safetensors"]
    assert not work_folder(store).exists()
    assert ends([third], store, **remote) == [(third, "finished", "")]
    assert not list(states.iterdir())
    assert [begun(tmp_path / name) for name in "abc"] == [1, 1, 1]
    assert_as_local(store, [*specs, first, second, third])
