"""What the Ray engine adds to a run, what it sends to each node, and what the driver does for each message.

1. The same runs, of about 30 seconds each, in this process and by Ray with one core, in alternating order. Compared is
   processor time: that of the driver and the worker against that of the run alone; and beside it what Ray's own
   processes (raylet, head, agents) take all the time, in per cent of a core. The time that passes outside runs is shown
   as a share of the time inside.
2. A study of three seeds and two methods on a cluster of three nodes: bytes that each node's object store received,
   against the bytes of the data sets. Ray's statistics need grpcio (pip install grpcio); without it this is left out.
3. What a message of a task costs the driver, by its size.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from harness import Options, show

from invariance.core.ray_cluster import LOOPBACK, PRIVATE, connect
from invariance.core.shipment import Packer
from invariance.experiments.engines import run_all
from invariance.experiments.run import execute, load_benchmark
from invariance.experiments.spec import Spec

MESSAGES = 200


def digits(epochs: int, seed: int, method: str = "irmv1") -> Spec:
    return Spec.of("colored-digits", method, "short", seed, {"recipe": {"epochs": epochs}})


class Used(NamedTuple):
    """Processor seconds of the driver and its workers, and of Ray's own processes."""

    runs: float
    ray: float


def processor_seconds() -> Used:
    """Of this process and of all that it started, directly or not."""
    times: dict[int, float] = {}
    parents: dict[int, int] = {}
    workers: set[int] = {os.getpid()}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        pid = int(entry.name)
        parents[pid], times[pid] = int(fields[1]), sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
        if command.startswith(b"ray::") and b"Agent" not in command:
            workers.add(pid)
    own = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= more
    return Used(*(sum(times[pid] for pid in which if pid in times) for which in (own & workers, own - workers)))


def overhead(specs: list[Spec]) -> Iterator[dict[str, object]]:
    torch.set_num_threads(1)
    execute(digits(1, 0))  # what is imported and allocated once is not measured
    list(engine([digits(1, 100)]))
    alone = remote = daemons = inside = passed = 0.0
    for i, spec in enumerate(specs):
        for by_ray in (False, True) if i % 2 else (True, False):
            before, start = processor_seconds(), time.perf_counter()
            if by_ray:
                inside += sum(engine([spec]))
                passed += time.perf_counter() - start
                used = processor_seconds()
                remote += used.runs - before.runs
                daemons += used.ray - before.ray
            else:
                execute(spec)
                alone += processor_seconds().runs - before.runs
    yield {"what": "processor time of a run alone, s", "value": alone / len(specs)}
    yield {"what": "processor time that driver and worker add, %", "value": 100 * (remote / alone - 1)}
    yield {"what": "Ray's own processes, % of a core", "value": 100 * daemons / passed}
    yield {"what": "time outside runs, % of the time inside", "value": 100 * (passed / inside - 1)}


def engine(specs: list[Spec]) -> Iterator[float]:
    """The seconds of each run."""
    with tempfile.TemporaryDirectory() as folder:
        for event in run_all(specs, Path(folder) / "runs.db", 1, engine="ray"):
            if event.kind == "done":
                assert event.status != "failed", event.reason
                yield event.seconds


def messages(ray: Any) -> Iterator[dict[str, object]]:
    """Seconds of the driver's processor for a message of some bytes."""

    @ray.remote(num_returns="streaming")  # type: ignore[untyped-decorator]
    def send(size: int) -> Iterator[object]:
        content = torch.zeros(size, dtype=torch.uint8)
        for _ in range(MESSAGES):
            yield content

    for size in (100, 4_000_000):
        stream = send.remote(size)
        ray.get(next(stream))
        before = time.process_time()
        for _ in range(MESSAGES - 1):
            ray.wait([stream], num_returns=1)
            ray.get(next(stream))
        spent = (time.process_time() - before) / (MESSAGES - 1)
        yield {"what": f"the driver's time for a message of {size:,} bytes, ms", "value": 1e3 * spent}


def shipped(epochs: int) -> Iterator[dict[str, object]]:
    """Bytes that each of three nodes received."""
    import ray
    from ray.cluster_utils import Cluster

    if find_spec("grpc") is None:
        return
    from ray._private.internal_api import node_stats

    specs = [digits(epochs, seed, method) for seed in range(3) for method in ("erm", "irmv1")]
    sizes: list[int] = []
    packer = Packer(lambda array: sizes.append(array.nbytes))
    for spec in specs:
        packer.packed(load_benchmark(spec))
    yield {"what": "bytes of the data sets", "value": float(np.sum(sizes))}
    memory = 200 * 2**20
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": memory}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=memory)
    with tempfile.TemporaryDirectory() as folder:
        ended = run_all(specs, Path(folder) / "runs.db", engine="ray", address=cluster.address)
        failed = [event.reason for event in ended if event.kind == "done" and event.status == "failed"]
        assert not failed, failed  # a model of one epoch may have collapsed
    for i, node in enumerate(ray.nodes()):
        stats = node_stats(node["NodeManagerAddress"], node["NodeManagerPort"]).store_stats
        where = "the driver's node" if node["Resources"].get("CPU", 0) == 0 else f"node {i}"
        yield {"what": f"bytes that {where} received", "value": float(stats.cumulative_created_bytes)}
    ray.shutdown()
    cluster.shutdown()


def main() -> None:
    options = Options.parse(__doc__)
    os.environ.update(LOOPBACK | PRIVATE | {"RAY_worker_niceness": "0"})  # else Ray's runs wait for all others
    ray = connect(cores=1)
    rows = [
        *messages(ray),
        *overhead([digits(5 if options.quick else 200, seed) for seed in range(2)]),
    ]
    ray.shutdown()
    show("What the Ray engine costs", rows, "Aim: at most 5 % for runs of 30 s.", options)
    if bytes_sent := list(shipped(1)):
        show("What nodes receive", bytes_sent, "Aim: no node receives more than the data sets.", options)


if __name__ == "__main__":
    main()
