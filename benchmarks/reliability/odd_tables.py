"""Tables that are whole in form, with cells, names and types that nobody expects."""

import csv
import datetime
import decimal
import io
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

ODD_CELLS = (
    *(
        "",
        " ",
        "NA",
        "nan",
        "inf",
        "-inf",
        "1e400",
        "1e38",
        "1e-45",
        "-0",
        "0x10",
        "1_000",
        "1,5",
        "٣",
        "９",
        "1e",
        "+",
    ),
    *("true", "FALSE", "Yes", "no ", "01", "1.0", "=1+1", "@x", '"', "a\nb", "é\u202e", "\x1b[2J", "\x01", "\ufeff"),
    *("2020-01-01", "2020-13-45", "12:00", "01/02/2020", "[1, 2]", "{}", "null", "x" * 5000, "9" * 400, "a;b|c\td"),
)
ODD_NAMES = ("", " ", "sick", "site", "x", "é", "\x1b[2J", "=1+1", "x" * 3000, "\ufeffx", "a\nb", "<b>", "weight", "id")


def odd_csv(header: Sequence[str], rows: Sequence[Sequence[str]], rng: random.Random) -> bytes:
    """One to four cells, a column, a name, or the rows themselves are others; everything is quoted as it should be."""
    names, cells = list(header), [list(row) for row in rows]
    for _ in range(rng.randint(1, 4)):
        i, j = rng.randrange(len(cells)), rng.randrange(len(names))
        match rng.randrange(8):
            case 0:
                names[j] = rng.choice(ODD_NAMES)
            case 1:
                value = rng.choice(ODD_CELLS)
                cells = [[*row[:j], value, *row[j + 1 :]] for row in cells]
            case 2:
                cells = [[*row[:j], rng.choice(ODD_CELLS), *row[j + 1 :]] for row in cells]
            case 3:
                cells = cells[: rng.randint(1, 4)]
            case _:
                cells[i][j] = rng.choice(ODD_CELLS)
    text = io.StringIO()
    csv.writer(text, delimiter=rng.choice(",,,;\t|"), lineterminator=rng.choice(("\n", "\r\n"))).writerows(
        [names, *cells]
    )
    return text.getvalue().encode(rng.choice(("utf-8", "utf-8", "utf-8-sig")))


Values = Callable[[int, random.Random], list[Any]]
DAY = datetime.date(2020, 1, 31)
TYPES: tuple[tuple[pa.DataType, Values], ...] = (
    (pa.int64(), lambda n, rng: [rng.choice((0, 1, 2**63 - 1, -(2**63))) for _ in range(n)]),
    (pa.uint64(), lambda n, rng: [rng.choice((0, 2**64 - 1)) for _ in range(n)]),
    (pa.float64(), lambda n, rng: [rng.choice((0.0, 1e308, -1e-320, float("nan"), float("inf"))) for _ in range(n)]),
    (pa.float16(), lambda n, rng: [np.float16(i) for i in range(n)]),
    (pa.bool_(), lambda n, rng: [bool(i % 2) for i in range(n)]),
    (pa.null(), lambda n, rng: [None] * n),
    (pa.string(), lambda n, rng: [rng.choice(ODD_CELLS) for _ in range(n)]),
    (pa.large_string(), lambda n, rng: ["a"] * n),
    (pa.binary(), lambda n, rng: [bytes([i % 256, 255]) for i in range(n)]),
    (pa.decimal128(38, 10), lambda n, rng: [decimal.Decimal(i) / 8 for i in range(n)]),
    (pa.timestamp("ns"), lambda n, rng: [i * 10**18 // 8 for i in range(n)]),
    (pa.timestamp("us", "UTC"), lambda n, rng: [rng.choice((0, 2**62, -(2**62))) for _ in range(n)]),
    (pa.date32(), lambda n, rng: [DAY + datetime.timedelta(i) for i in range(n)]),
    (pa.time64("us"), lambda n, rng: list(range(n))),
    (pa.duration("s"), lambda n, rng: list(range(n))),
    (pa.list_(pa.int8()), lambda n, rng: [[i % 5] * (i % 3) for i in range(n)]),
    (pa.struct([("a", pa.int8())]), lambda n, rng: [{"a": 1}] * n),
    (pa.map_(pa.string(), pa.int8()), lambda n, rng: [[("a", 1)]] * n),
    (pa.dictionary(pa.int8(), pa.string()), lambda n, rng: ["a", "b"] * (n // 2)),
)


def odd_parquet(columns: Mapping[str, Any], rng: random.Random) -> bytes:
    """Some columns are of other types, hold nothing here and there, or are called otherwise."""
    made, rows = {name: pa.array(values) for name, values in columns.items()}, len(columns["x"])
    for _ in range(rng.randint(1, 3)):
        kind, values = rng.choice(TYPES)
        given = [None if rng.random() < rng.choice((0, 0, 0.3)) else value for value in values(rows, rng)]
        made[rng.choice([*columns, "more"])] = pa.array(given, kind)
    names = [rng.choice(ODD_NAMES) if rng.random() < 0.1 else name for name in made]
    table = pa.Table.from_arrays(list(made.values()), names)
    if rng.random() < 0.1:
        table = table.slice(0, rng.randint(0, 3))
    sink = io.BytesIO()
    parquet.write_table(table, sink, compression=rng.choice(("none", "snappy", "zstd")))
    return sink.getvalue()
