"""A connection to Ray: to the cluster at an address, or to one on this machine alone.

What is started here listens on the loopback interface only, asks for Ray's token, and has no dashboard.
"""

import ipaddress
import os
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import NamedTuple, TypeVar

from invariance.core.errors import BadValue, InvarianceError
from invariance.core.provenance import cores

LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray takes 127.0.0.1 for the machine's address in its network, unless clusters of several machines are switched off.
The variable is named after the systems where they are off by default."""
PRIVATE = {**LOOPBACK, "RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
"""For a cluster of our own, which no one else is to use, and which tells no one about itself."""

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")


class Node(NamedTuple):
    """A machine of the cluster, as Ray sees it."""

    address: str
    cores: int
    gpus: int
    memory: int
    """Bytes that tasks may use."""
    object_store: int
    """Bytes that are shared by all tasks of the node."""


def connect(address: str | None = None) -> ModuleType:
    """Ray, connected: to ``address`` or ``RAY_ADDRESS``, else to a cluster of this process on this machine.

    A connection that is there stays as it is, and all connections last as long as the process.
    """
    address = address or os.environ.get("RAY_ADDRESS")
    _set_environment(address)
    ray = imported()
    if ray.is_initialized():
        return ray
    if address and "://" in address:
        raise BadValue(f"{address} is not the address of a Ray cluster; give HOST:PORT, on a machine of the cluster")
    options = {"address": address} if address else {"address": "local", "num_cpus": cores(), "include_dashboard": False}
    try:
        ray.init(**options, log_to_driver=False, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
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
    """What decides where Ray listens; it is read when Ray is imported, and by its processes."""
    wanted = (LOOPBACK if is_loopback(address) else {}) if address else PRIVATE
    for name, value in wanted.items():
        os.environ.setdefault(name, value)


def imported() -> ModuleType:
    """Ray, or one line about how to get it."""
    try:
        import ray
    except ModuleNotFoundError:
        raise BadValue("the Ray engine needs Ray: pip install 'invariance[ray]'") from None
    return ray


def is_loopback(address: str) -> bool:
    """Whether an address, with or without a port, can be reached from this machine alone."""
    host = address.rpartition(":")[0] or address
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


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


def mapped(
    function: Callable[[Shared, Item], Result], shared: Shared, items: Sequence[Item], *, address: str | None = None
) -> list[Result]:
    """``function(shared, item)`` of every item, as tasks of one core each; ``shared`` goes to each node once."""
    ray = connect(address)
    task = ray.remote(num_cpus=1)(function)
    place = ray.put(shared)
    found: list[Result] = ray.get([task.remote(place, item) for item in items])
    return found
