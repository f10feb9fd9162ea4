"""Tables that went wrong: each ends in one line that says why, or in numbers that are right. Never in a traceback."""

import gzip
import io
import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")

import pyarrow as pa
from pyarrow import parquet

from invariance.cli import main
from invariance.core.errors import InvarianceError
from invariance.core.rows import Rows as LabelledRows
from invariance.tabular.labelled_rows import Schema, infer_schema, read
from invariance.tabular.source import TableSource

MALFORMED, COMMANDS = (60, 2400), 8
"""Tables: in every run of the tests, and in the long one."""
Rows = list[list[str]]
Damage = Callable[[Rows, random.Random], None]


def _place(rows: Rows, rng: random.Random) -> tuple[int, int]:
    row = rng.randrange(len(rows))
    return row, rng.randrange(len(rows[row]) or 1) if rows[row] else 0


def _put(value: str) -> Damage:
    def damage(rows: Rows, rng: random.Random) -> None:
        i, j = _place(rows, rng)
        rows[i][j : j + 1] = [value]

    return damage


def _fill(value: Callable[[random.Random, int], str]) -> Damage:
    """Give a whole column other values."""

    def damage(rows: Rows, rng: random.Random) -> None:
        j = rng.randrange(len(rows[0]))
        for i, row in enumerate(rows[1:]):
            row[j : j + 1] = [value(rng, i)]

    return damage


def _shorten(rows: Rows, rng: random.Random) -> None:
    i, j = _place(rows, rng)
    del rows[i][j:]


def _lengthen(rows: Rows, rng: random.Random) -> None:
    rows[_place(rows, rng)[0]] += ["1"] * rng.randint(1, 3)


def _name_twice(rows: Rows, rng: random.Random) -> None:
    rows[0][_place(rows[:1], rng)[1]] = rng.choice(rows[0] or [""])


def _drop_rows(rows: Rows, rng: random.Random) -> None:
    del rows[rng.randint(0, 4) :]


CELLS: dict[str, Damage] = {
    "shorter row": _shorten,
    "longer row": _lengthen,
    "column named twice": _name_twice,
    "few rows": _drop_rows,
    "NUL": _put("a\x00b"),
    "huge cell": _put("x" * 300_000),
    "huge number": _put("9" * 400),
    "infinite": _put("-inf"),
    "word among numbers": _put("unknown"),
    "formula": _put("=cmd|' /C calc'!A0"),
    "newline": _put("two\nlines"),
    "lone surrogate": _put("\ud800"),
    "right to left": _put("\u202eabc"),
    "nothing": _put(""),
    "all missing": _fill(lambda rng, i: rng.choice(["", "NA", "?"])),
    "one value": _fill(lambda rng, i: "1"),
    "mixed types": _fill(lambda rng, i: rng.choice(["1", "a", "2.5", "", "2021-01-01"])),
    "dates": _fill(lambda rng, i: f"20{rng.randint(10, 25)}-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}"),
    "sentences": _fill(lambda rng, i: f"the patient said {rng.random()} and went home"),
    "identifiers": _fill(lambda rng, i: f"id-{i}"),
    "row numbers": _fill(lambda rng, i: str(i)),
    "tiny and huge": _fill(lambda rng, i: f"{rng.random():.3f}e{rng.randint(-320, 320)}"),
}


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _open_quote(data: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(data) + 1)
    return data[:place] + b'"' + data[place:]


BYTES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "as it is": lambda data, rng: data,
    "cut off": _cut,
    "bytes changed": _flip,
    "open quote": _open_quote,
    "UTF-16": lambda data, rng: data.decode("utf-8", "replace").encode("utf-16"),
    "Latin-1": lambda data, rng: data.decode("utf-8", "replace").encode("latin-1", "replace"),
    "old Mac lines": lambda data, rng: data.replace(b"\n", b"\r"),
    "Windows lines": lambda data, rng: data.replace(b"\n", b"\r\n"),
    "byte order mark": lambda data, rng: b"\xef\xbb\xbf" + data,
    "blank lines": lambda data, rng: data.replace(b"\n", b"\n\n", rng.randint(1, 9)),
    "noise": lambda data, rng: rng.randbytes(rng.randint(0, 400)),
    "no header": lambda data, rng: data.partition(b"\n")[2],
}
FILES = ("t.csv", "t.tsv", "t.csv.gz", "t.parquet")


@pytest.fixture(scope="session")
def damaged(patients, text) -> Callable[[int, list[str], str, str], bytes]:
    """A table of patients after all that happened to it."""

    def make(seed: int, cells: list[str], how: str, file: str) -> bytes:
        rng = random.Random(seed)
        rows = patients(rng.choice([3, 25, 60]), seed=seed)
        for name in cells:
            if rows and rows[0]:
                CELLS[name](rows, rng)
        if file.endswith(".parquet"):
            return BYTES[how](_parquet(rows), rng)
        data = BYTES[how](text(rows, "\t" if ".tsv" in file else ",").encode("utf-8", "surrogatepass"), rng)
        data = gzip.compress(data) if file.endswith(".gz") else data
        return _flip(data, rng) if file.endswith(".gz") and seed % 3 == 0 else data

    return make


def _parquet(rows: Rows) -> bytes:
    """Numbers as numbers where all are."""
    columns = []
    rows = rows or [[]]
    for j in range(len(rows[0])):
        cells = [row[j].encode("utf-8", "replace").decode() if j < len(row) else None for row in rows[1:]]
        try:
            columns.append(pa.array([float(cell) if cell else None for cell in cells], pa.float64()))
        except ValueError:
            columns.append(pa.array(cells, pa.string()))
    names = [name.encode("utf-8", "replace").decode() for name in rows[0]]
    buffer = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_arrays(columns, names=names), buffer)
    return buffer.getvalue().to_pybytes()


def check(known: Schema, frame: LabelledRows) -> None:
    """What must hold of every table that is accepted."""
    assert frame.x.shape == (len(frame.y), len(known.encoder.features))
    assert frame.x.dtype == np.float32
    assert np.isfinite(frame.x).all()
    assert len(frame.environments) == len(frame.y) > 0
    assert all(isinstance(name, str) and name for name in frame.environments)
    if known.encoder.numeric_label:
        assert np.isfinite(frame.y).all()
    else:
        assert all(isinstance(name, str) and name for name in frame.y)
    assert {role.name for role in known.roles} == set(known.source.columns)
    assert not any("\n" in note for note in frame.notes)


def outcome(path: Path) -> str:
    """What the reader says of a file; nothing where it reads it, and then rightly."""
    try:
        known = infer_schema(TableSource.open(path), "sick", "hospital")
        check(known, read(known.source, known.encoder))
    except InvarianceError as error:
        return str(error)
    return ""


DAMAGE = {
    "seed": st.integers(0, 2**32),
    "how": st.just("as it is") | st.sampled_from(sorted(BYTES)),
    "file": st.sampled_from(FILES),
}


@pytest.mark.parametrize("tables", [MALFORMED[0], pytest.param(MALFORMED[1], marks=pytest.mark.slow)])
def test_a_table_that_went_wrong_ends_in_one_line_or_in_numbers(damaged, tables):
    @settings(max_examples=tables)
    @given(cells=st.lists(st.sampled_from(sorted(CELLS)), max_size=3), **DAMAGE)
    def each(seed: int, cells: list[str], how: str, file: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / file
            path.write_bytes(damaged(seed, cells, how, file))
            message = outcome(path)
        assert message.isprintable()
        assert message == "" or 20 < len(message) < 1200

    each()


def commanded(arguments: list[str]) -> tuple[int, str]:
    """How the command ends, and what it says on standard error."""
    message = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(message), redirect_stdout(io.StringIO()):
        patch.setattr(sys, "argv", ["invariance", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
    return int(end.value.code or 0), message.getvalue()


@settings(max_examples=COMMANDS)
@given(cells=st.lists(st.sampled_from(sorted(CELLS)), max_size=2), **DAMAGE)
def test_the_command_ends_in_one_line_or_in_a_model_that_predicts_every_row(damaged, seed, cells, how, file):
    with tempfile.TemporaryDirectory() as folder:
        path, model, out = Path(folder) / file, Path(folder) / "model", Path(folder) / "out.csv"
        path.write_bytes(damaged(seed, cells, how, file))
        given = ["--label", "sick", "--environment", "hospital", "--method", "erm", "--no-report", "-o", str(model)]
        code, message = commanded(["fit", str(path), *given])
        if code:
            assert message.startswith("error: ")
            assert message.removesuffix("\n").isprintable()
            assert not model.exists()
            return
        assert message.startswith("1 of 1: training on ")
        assert commanded(["predict", str(model), str(path), "-o", str(out)])[0] == 0
        assert np.isfinite([float(line.rsplit(",", 1)[1]) for line in out.read_text().splitlines()[1:]]).all()
