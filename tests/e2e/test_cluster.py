"""A cluster on this machine: started, shown, used and stopped by commands, and closed to everybody else."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from invariance.core.ray_cluster import is_loopback

COLLAPSED = 3
"""How a command ends whose model is no better than a constant: one epoch is short."""
LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp."""


def processes(root: int) -> set[int]:
    """A process and all that it started, directly or not."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {root}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def listening(pids: set[int]) -> Iterator[str]:
    """Addresses that these processes listen on."""
    sockets = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(str(link.readlink()))
            except OSError:
                continue
    for table, size in (("tcp", 4), ("tcp6", 16)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == LISTENS and f"socket:[{inode}]" in sockets:
                yield _written(bytes.fromhex(local.partition(":")[0]), size)


def _written(raw: bytes, size: int) -> str:
    """An address as people write it; the kernel prints words of four bytes, the last byte first."""
    ordered = b"".join(raw[i : i + 4][::-1] for i in range(0, size, 4))
    mapped = size == 16 and ordered[:12] == bytes(10) + b"\xff\xff"
    return (
        ".".join(map(str, ordered[-4:]))
        if size == 4 or mapped
        else ":".join(ordered[i : i + 2].hex() for i in range(0, 16, 2))
    )


@pytest.mark.slow
def test_a_cluster_is_started_used_and_stopped_and_only_this_machine_reaches_it(installed, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("RAY_worker_niceness", "0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.chdir(tmp_path)
    assert installed("cluster").error.startswith("no Ray cluster is known here; ")
    assert installed("cluster", "stop").error.startswith("no cluster runs")
    started = installed("cluster", "start", "--cores", "1")
    assert started.code == 0, started.err
    try:
        assert " already; " in installed("cluster", "start").error
        shown = installed("cluster", "--json").json
        assert [(node["address"], node["cores"]) for node in shown["nodes"]] == [("127.0.0.1", 1)]
        (keeper,) = tmp_path.rglob("ray-cluster-*.json")
        pid = int(keeper.read_text().rpartition(": ")[2].strip("}"))
        places = set(listening(processes(pid)))
        assert places
        assert all(map(is_loopback, places)), places
        fields = ["--set", "recipe.epochs=1", "--set", "data.draws=500"]
        done = installed("compare", "--methods", "erm", "--seeds", "1", "--engine", "ray", "--json", *fields)
        assert done.code in (0, COLLAPSED), done.err
        assert [line["method"] for line in json.loads(done.out)] == ["erm"]
    finally:
        stopped = installed("cluster", "stop")
    assert stopped.code == 0, stopped.err
    assert installed("cluster").error.startswith("no Ray cluster is known here; ")
