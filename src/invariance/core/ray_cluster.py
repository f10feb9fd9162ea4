"""A connection to Ray: to the cluster at an address, or to one on this machine alone.

What is started here listens on the loopback interface only, asks for Ray's token, and has no dashboard.
"""

import ipaddress
import json
import os
import platform
import socket
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from filelock import FileLock, Timeout
from platformdirs import user_state_path

from invariance.core.errors import BadValue, InvarianceError
from invariance.core.provenance import cores as usable_cores

LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray takes 127.0.0.1 for the machine's address in its network, unless clusters of several machines are switched off.
The variable is named after the systems where they are off by default."""
PRIVATE = {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
"""For a cluster of our own: other users of the machine are not let in, and no one is told that it is used."""
QUIET = {"RAY_DEDUP_LOGS_SKIP_REGEX": ".", "RAY_IGNORE_UNHANDLED_ERRORS": "1"}
"""Ray prints what its processes notice, such as a worker that died, to standard output, among the results of a command
(every line that matches is left out), and errors of tasks that nobody waits for any more. Our own line says enough."""
CONNECT_SECONDS = 10.0


class Kept(NamedTuple):
    """A cluster that is kept, and the process that keeps it."""

    address: str
    process: int


class Node(NamedTuple):
    """A machine of the cluster, as Ray sees it."""

    address: str
    cores: int
    gpus: int
    memory: int
    """Bytes that tasks may use."""
    object_store: int
    """Bytes that are shared by all tasks of the node."""


def find(address: str | None = None) -> str | None:
    """Which cluster is meant: ``address``, else ``RAY_ADDRESS``, else the one that is kept on this machine."""
    if found := address or os.environ.get("RAY_ADDRESS"):
        return found
    running = kept()
    return running.address if running else None


def kept() -> Kept | None:
    """The cluster that was started on this machine and not stopped, or None."""
    try:
        with keeper_lock():
            return None
    except (Timeout, OSError):
        try:
            return Kept(**json.loads(keeper_file().read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):  # it is just being started
            return None


def keeper_file() -> Path:
    """Where the process that keeps a cluster says so; machines may share a home."""
    return user_state_path("invariance", ensure_exists=True) / f"ray-cluster-{platform.node()}.json"


def keeper_lock() -> FileLock:
    """What that process holds as long as it lives, so that a file that was left behind is not taken for a cluster."""
    return FileLock(keeper_file().with_suffix(".lock"), blocking=False)


def connect(address: str | None = None, *, cores: int | None = None) -> ModuleType:
    """Ray, connected to the cluster that is meant, else to one of this process alone, with some ``cores``.

    A connection that is there stays as it is, and all connections last as long as the process.
    """
    _require()
    if "ray" in sys.modules and imported().is_initialized():
        return imported()
    address = find(address)
    if address:
        _check(address)  # before Ray is imported, which decides for which clusters it can be used
    _set_environment(address)
    ray = imported()
    own = {"address": "local", "num_cpus": cores or usable_cores(), "include_dashboard": False}
    try:
        ray.init(**({"address": address} if address else own), log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # Ray raises no other class where a node does not start in time
        reason = " ".join(str(error).split())
        raise BadValue(f"cannot use the Ray cluster at {address or 'this machine'}: {reason}") from None
    if not address and not is_loopback(ray.util.get_node_ip_address()):
        ray.shutdown()
        raise InvarianceError(
            "Ray was imported before and would listen on all networks of this machine; set "
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0, or call ray.init() yourself"
        )
    return ray


def _set_environment(address: str | None) -> None:
    """What decides where Ray listens and whom it lets in. It is read when Ray is imported; later is too late."""
    if "ray" in sys.modules:
        return
    running = kept()
    if address is None or (running and running.address == address):
        wanted = LOOPBACK | PRIVATE
    else:
        wanted = LOOPBACK if is_loopback(address) else {}
    for name, value in (wanted | QUIET).items():
        os.environ.setdefault(name, value)


def _check(address: str) -> None:
    """Refuse what is no address, and one where nobody answers, before Ray tries it for long."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or "/" in host or not host:
        raise BadValue(f"{address!r} is not the address of a Ray cluster; give HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise BadValue(f"no Ray cluster answers at {address} ({error}); 'ray start --head' says its address") from None


def imported() -> ModuleType:
    """Ray, or one line about how to get it."""
    _require()
    import ray

    return ray


def _require() -> None:
    if find_spec("ray") is None:
        raise BadValue("the Ray engine needs Ray: pip install 'invariance[ray]'")


def is_loopback(address: str) -> bool:
    """Whether an address, with or without a port, can be reached from this machine alone."""
    for host in (address, address.rpartition(":")[0].strip("[]")):
        with suppress(ValueError):
            return ipaddress.ip_address(host).is_loopback
    return address.partition(":")[0] == "localhost"


def nodes(ray: ModuleType) -> list[Node]:
    """The machines that are there now."""
    return [
        Node(
            node["NodeManagerAddress"],
            int(resources.get("CPU", 0)),
            int(resources.get("GPU", 0)),
            int(resources.get("memory", 0)),
            int(resources.get("object_store_memory", 0)),
        )
        for node in ray.nodes()
        if node["Alive"] and (resources := node["Resources"]) is not None
    ]
