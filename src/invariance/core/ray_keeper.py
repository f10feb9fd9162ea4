"""A Ray cluster on this machine that outlives a command: one process keeps it until it is told to stop.

The process holds a lock as long as it lives, so that a file that was left behind is not taken for a cluster.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

from invariance.core.atomic import atomic_write
from invariance.core.errors import BadValue, InvarianceError
from invariance.core.ray_cluster import Kept, connect, imported, keeper_file, keeper_lock, kept

START_SECONDS = 120.0
POLL_SECONDS = 0.1


def start(cores: int | None) -> Kept:
    """Start a cluster and wait until it can be used."""
    imported()
    if running := kept():
        raise BadValue(f"a cluster runs at {running.address} already; 'invariance cluster stop' stops it")
    command = [sys.executable, "-m", "invariance.core.ray_keeper", *([str(cores)] if cores else [])]
    keeper = subprocess.Popen(  # noqa: S603 - our own module
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    end = time.monotonic() + START_SECONDS
    while keeper.poll() is None and time.monotonic() < end:
        if (running := kept()) and running.process == keeper.pid:
            return running
        time.sleep(POLL_SECONDS)
    keeper.terminate()
    errors = keeper.communicate()[1].decode(errors="replace").strip().splitlines()
    raise InvarianceError(f"the cluster did not start: {errors[-1] if errors else f'not in {START_SECONDS:.0f} s'}")


def stop() -> Kept:
    """Stop the cluster and wait until it is gone."""
    running = kept()
    if not running:
        raise BadValue("no cluster runs that 'invariance cluster start' has started")
    os.kill(running.process, signal.SIGTERM)
    while kept():
        time.sleep(POLL_SECONDS)
    return running


def keep(cores: int | None) -> None:
    """Start a cluster and keep it until the process is told to end."""
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    with keeper_lock():
        keeper_file().unlink(missing_ok=True)
        os.environ.pop("RAY_ADDRESS", None)
        ray = connect(cores=cores)
        about = Kept(ray.get_runtime_context().gcs_address, os.getpid())
        with atomic_write(keeper_file()) as part:
            part.write_text(json.dumps(about._asdict()), encoding="utf-8")
        over.wait()
        ray.shutdown()
        keeper_file().unlink(missing_ok=True)


if __name__ == "__main__":
    keep(int(sys.argv[1]) if len(sys.argv) > 1 else None)
