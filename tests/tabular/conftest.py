"""Tables as people have them, written to disk."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

Rows = list[list[str]]


def _patients(rows: int = 60, *, seed: int = 0) -> Rows:
    """A number, a number with holes, a category, a count, a label and a site."""
    rng = random.Random(seed)
    cells = [["age", "crp", "ward", "visits", "sick", "hospital"]]
    for _ in range(rows):
        sick = rng.randint(0, 1)
        crp = "" if rng.random() < 0.2 else f"{rng.gauss(3 * sick, 1):.3f}"
        ward = rng.choice(["north", "south", 'é, "quoted"'])
        site = rng.choice(["Lyon", "Łódź", "Graz"])
        cells.append([f"{rng.gauss(50, 10):.2f}", crp, ward, str(rng.randint(0, 9)), str(sick), site])
    return cells


def _text(rows: Sequence[Sequence[str]], delimiter: str = ",") -> str:
    """Cells as CSV, every one in quotes that needs it."""

    def cell(value: str) -> str:
        return '"' + value.replace('"', '""') + '"' if any(c in value for c in f'{delimiter}"\n\r') else value

    return "\n".join(delimiter.join(map(cell, row)) for row in rows) + "\n"


@pytest.fixture(scope="session")
def patients() -> Callable[..., Rows]:
    """Rows of patients, the header first."""
    return _patients


@pytest.fixture(scope="session")
def text() -> Callable[..., str]:
    """Rows as CSV."""
    return _text


@pytest.fixture
def table(tmp_path) -> Callable[..., Path]:
    """A file with these rows or bytes."""

    def write(content: str | bytes | Rows, name: str = "patients.csv") -> Path:
        path = tmp_path / name
        if isinstance(content, list):
            content = _text(content)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write
