"""One model trained by several ranks on a Ray cluster: each is an actor, and they meet as those of torchrun do."""

import os
import socket
import sys
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import Store

from invariance.core import ranks
from invariance.core.errors import BadValue, InvarianceError, RankLost
from invariance.core.provenance import provenance
from invariance.core.ray_cluster import connect, is_loopback
from invariance.core.shipment import Packer, unpacked
from invariance.experiments.engines.ray import Ray
from invariance.experiments.ray_task import Saved, Setting, Step, check_versions, reported
from invariance.experiments.run import Executed, ResumeState, Run, executing, load_benchmark, prepared_model
from invariance.experiments.spec import Spec
from invariance.training.loop import StateDict


class Trained(NamedTuple):
    """The leader's run, and the weights of its model."""

    run: Run
    weights: StateDict


class RankProcess:
    """An actor: one of the ranks."""

    def __init__(self) -> None:
        self.listener = socket.socket()

    def meeting_place(self) -> tuple[str, int]:
        """Where the ranks meet: this one listens there, on the address by which the cluster knows its machine."""
        import ray

        self.listener.bind((ray.util.get_node_ip_address(), 0))
        self.listener.listen()
        host, port = self.listener.getsockname()[:2]
        return host, port

    def _store(self, rank: int, count: int, host: str, port: int) -> Store:
        """By which the ranks meet; the first one holds it. On one machine, they talk on its loopback interface."""
        if is_loopback(host):
            os.environ["GLOO_SOCKET_IFNAME"] = "lo" if sys.platform == "linux" else "lo0"
        if rank:
            return TCPStore(host, port, count, wait_for_workers=False)
        held = self.listener.detach()
        return TCPStore(host, port, count, is_master=True, wait_for_workers=False, master_listen_fd=held)

    def train(
        self, rank: int, count: int, place: tuple[str, int], spec: Spec, data: Any, state: Any, setting: Setting
    ) -> Iterator[Step | ResumeState | Saved | Trained]:
        """What this rank has to tell: of the leader its progress, its resume states and the model."""
        import ray

        check_versions(provenance(), setting.driver)
        torch.set_num_threads(1)
        with ranks.joined((self._store(rank, count, *place), rank, count)):
            execution = executing(spec, unpacked(data, ray.get), resume_from=state, device=setting.device)
            executed = yield from reported(execution, setting.save_every, spec.key)
            if ranks.leads():
                yield Trained(executed.run, {k: v.cpu() for k, v in executed.model.state_dict().items()})


def on_ranks(
    spec: Spec, count: int, engine: Ray, state: ResumeState | None = None
) -> Generator[Step | ResumeState, None, Executed]:
    """Do what a spec says by ``count`` ranks on the engine's cluster; yields progress and resume states, then the run.

    When one of them ends before its time, the others end too.
    """
    if count > (room := engine.capacity()):
        raise BadValue(f"{count} ranks need as many {'GPUs' if engine.gpus else 'cores'}; the cluster has {room}")
    ray = connect(engine.address)
    benchmark = load_benchmark(spec)
    data = Packer(ray.put).packed(benchmark)
    setting = Setting(engine.device, engine.save_every, None, None, provenance())
    actor = ray.remote(num_cpus=1, num_gpus=engine.gpus, max_restarts=0)(RankProcess)
    processes = [actor.remote() for _ in range(count)]
    try:
        place = ray.get(processes[0].meeting_place.remote())
        streams = [
            process.train.options(num_returns="streaming").remote(rank, count, place, spec, data, state, setting)
            for rank, process in enumerate(processes)
        ]
        for content in _received(ray, streams):
            if isinstance(content, Trained):
                model = prepared_model(spec, benchmark)
                model.load_state_dict(content.weights)
                return Executed(content.run, model.eval(), benchmark)
            yield content
    finally:
        for process in processes:
            ray.kill(process)
    raise RankLost(ranks.LOST)


def _received(ray: Any, streams: list[Any]) -> Iterator[Any]:
    """Everything that ranks send, as it comes, until all have ended."""
    waiting = list(streams)
    while waiting:
        (stream, *_), _ = ray.wait(waiting, num_returns=1, fetch_local=False)
        try:
            yield ray.get(next(stream))
        except StopIteration:
            waiting.remove(stream)
        except ray.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, InvarianceError) else error from None
        except ray.exceptions.RayError:
            raise RankLost(ranks.LOST) from None
