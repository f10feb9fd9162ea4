"""Faults in a process of its own: a fork that is armed, and what became of it."""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from invariance.cli import main as command_line
from invariance.core.errors import InvarianceError

HERE = Path(__file__).parents[1]
SOURCE = Path(__file__).with_name("faults.c")
KINDS = {
    "kill": 1,
    "torn write": 2,
    "SIGTERM": 3,
    "Ctrl-C": 4,
    "full disk": 5,
    "read-only": 6,
    "clock": 7,
    "out of memory": 8,
}
"""What is injected: the numbers are those of ``faults.c``."""
COUNT_ONLY = 0
MAX_SECONDS = 60
PRELOAD = "LD_PRELOAD"


class Ended(NamedTuple):
    """How a process ended, how many of its calls were counted, and what it said on standard error."""

    code: int
    calls: int
    errors: str

    @property
    def traceback(self) -> str:
        """The last line of a traceback, if there was one."""
        return self.errors.strip().splitlines()[-1] if "Traceback" in self.errors else ""


def preloaded() -> None:
    """Start this program again with ``faults.c`` compiled and loaded, unless it is loaded already."""
    if os.environ.get(PRELOAD):
        return
    library = Path(tempfile.gettempdir()) / f"faults-{os.getuid()}-{SOURCE.stat().st_mtime_ns}.so"
    if not library.exists():
        part = library.with_name(f"{library.name}.{os.getpid()}")
        subprocess.run(["cc", "-w", "-shared", "-fPIC", "-O1", "-o", str(part), str(SOURCE), "-ldl"], check=True)
        part.rename(library)
    os.environ |= {PRELOAD: str(library), "OMP_NUM_THREADS": "1"}
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def forked(act: Callable[[], object], folder: Path, kind: int = COUNT_ONLY, at: int = 0) -> Ended:
    """Run ``act`` in a fork, in ``folder``, with a fault at call ``at`` of those that change files there."""
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as errors:
        if not (process := os.fork()):
            os.close(reading)
            os.dup2(errors.fileno(), 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            _child(act, folder, kind, at, writing)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            counted = pipe.read()
        _, status = os.waitpid(process, 0)
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    return Ended(os.waitstatus_to_exitcode(status), int(counted or 0), said)


def spawned(words: Sequence[str], folder: Path, kind: int = COUNT_ONLY, at: int = 0) -> Ended:
    """The same of a command in a new process: what a fork cannot do, whose parent has threads of Ray."""
    reading, writing = os.pipe()
    given = (str(folder), str(kind), str(at), str(writing))
    command = [sys.executable, "-m", "reliability.injection", *given, *words]
    path = os.pathsep.join((str(HERE), os.environ.get("PYTHONPATH", "")))
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": path},
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(writing,),
        )
        os.close(writing)
        code = process.wait()
        with os.fdopen(reading, "rb") as pipe:
            counted = pipe.read()
        errors.seek(0)
        said = errors.read().decode(errors="replace")
    return Ended(code, int(counted or 0), said)


def _armed(folder: Path, kind: int, at: int) -> ctypes.CDLL:
    """The library, which from now on counts what happens in ``folder``."""
    library = ctypes.CDLL(None)
    library.fault_count.restype = ctypes.c_long
    library.fault_arm(os.fsencode(folder.resolve()), kind, ctypes.c_long(at))
    return library


def _child(act: Callable[[], object], folder: Path, kind: int, at: int, writing: int) -> None:
    """What the fork does; it never returns."""
    code = 0
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        resource.setrlimit(resource.RLIMIT_CPU, (MAX_SECONDS, MAX_SECONDS))
        os.chdir(folder)
        library = _armed(folder, kind, at)
        try:
            act()
        finally:
            os.write(writing, str(library.fault_count()).encode())
    except SystemExit as end:
        code = int(end.code or 0)
    except InvarianceError as error:  # as the command line shows it
        print(f"error: {error}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        traceback.print_exc()
        code = 99
    finally:
        os._exit(code)


def main() -> None:
    """Run a command of the package, armed: FOLDER KIND AT PIPE WORD …"""
    folder, kind, at, pipe, *words = sys.argv[1:]
    del os.environ[PRELOAD]  # processes that it starts are left alone
    sys.argv = ["invariance", *words]
    library = _armed(Path(folder), int(kind), int(at))
    os.set_inheritable(int(pipe), False)
    try:
        command_line()
    finally:
        os.write(int(pipe), str(library.fault_count()).encode())


if __name__ == "__main__":
    main()
