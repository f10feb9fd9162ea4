"""A disk that fills up."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 300 kB, empty."""
    (place := tmp_path / "disk").mkdir()
    try:
        mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(place)]
        done = subprocess.run(mount, capture_output=True, check=False, text=True)
        refused = done.stderr.strip() if done.returncode else ""
    except OSError as error:
        refused = str(error)
    if refused:
        pytest.skip(f"a small file system cannot be mounted here ({refused})")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)
