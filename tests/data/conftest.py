"""Folders of real data."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def given_folder() -> Callable[[str], Path]:
    """A folder of that name in ``INVARIANCE_DATA``."""

    def find(name: str) -> Path:
        folder = Path(os.environ.get("INVARIANCE_DATA") or "/nowhere") / name
        if not folder.is_dir():
            pytest.skip(f"set INVARIANCE_DATA to a folder that holds {name}/")
        return folder

    return find
