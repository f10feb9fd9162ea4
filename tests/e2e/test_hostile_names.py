"""Names that others gave, of files, columns, sites and classes: text wherever people look, unchanged for programs."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install pyarrow")

from pyarrow import parquet

from invariance.core.text import json_escape, printable

HOSTILE = "\x1b[31mred\x9b2J\u202e<img src=x onerror=alert(1)>|`*_[a](javascript:b)"
FORMULA = "=HYPERLINK(1)"
ROWS = 60


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    rng = np.random.default_rng(0)
    sick = rng.integers(0, 2, ROWS)
    path = tmp_path_factory.mktemp("hostile") / f"{HOSTILE.replace('/', '')}.csv"
    with path.open("w", newline="") as file:
        write = csv.writer(file)
        write.writerow([HOSTILE, "site", "sick", FORMULA])
        for i, y in enumerate(sick):
            kind = f"{FORMULA}{'ab'[i % 2]}"
            write.writerow([f"{2 * y + rng.normal():.3f}", f"{HOSTILE}{i % 3}", f"{FORMULA}{y}", kind])
    return path


@pytest.fixture(scope="module")
def fitted(table, invariance):
    how = ("--label", "sick", "--environment", "site", "--method", "erm", "-o", table.parent / "m")
    return invariance("fit", table, *how)


def test_no_name_commands_the_terminal(invariance, fitted, table):
    model, out = table.parent / "m", table.parent / "p.csv"
    shown = [
        fitted,
        invariance("evaluate", model, table),
        invariance("evaluate", model, table, "--json"),
        invariance("predict", model, table, "-o", out),
        invariance("predict", model, table, "-o", out, "--json"),
        invariance("calibrate", model, table, "-o", table.parent / "c"),
    ]
    for done in shown:
        assert done.code == 0 or done.err.startswith("error: recalibration"), done.err
        text = done.out + done.err
        assert all(c == "\n" or c.isprintable() for c in text), repr(text)
    assert json.loads(shown[2].out)["by_environment"].keys() == {f"{HOSTILE}{i}" for i in range(3)}


def test_no_name_is_markup_in_what_describes_a_model(fitted, table):
    card = (table.parent / "m" / "README.md").read_text(encoding="utf-8")
    page = (table.parent / "m" / "report.html").read_text(encoding="utf-8")
    assert r"\<img src=x" in card
    assert "<img src=x" not in card.replace(r"\<img", "")
    assert "<img src=x" not in page
    assert "\x1b" not in card + page


def test_a_formula_is_text_in_a_spreadsheet_and_itself_in_parquet(invariance, fitted, table):
    for name in ("p.csv", "p.parquet"):
        assert invariance("predict", table.parent / "m", table, "--keep", "-o", table.parent / name).code == 0
    with (table.parent / "p.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert f"'{FORMULA}" in rows[0]
    place = rows[0].index(f"'{FORMULA}")
    assert {row[place] for row in rows[1:]} == {f"'{FORMULA}a", f"'{FORMULA}b"}
    assert not any(cell.startswith("=") for row in rows for cell in row)
    kept = parquet.read_table(table.parent / "p.parquet")
    assert set(kept.column(FORMULA).to_pylist()) == {f"{FORMULA}a", f"{FORMULA}b"}
    assert set(kept.column("prediction").to_pylist()) <= {f"{FORMULA}0", f"{FORMULA}1"}


def test_escapes_keep_the_value_and_lines_stay_lines():
    assert json.loads(json_escape(json.dumps(HOSTILE, ensure_ascii=False))) == HOSTILE
    assert json_escape(json.dumps(HOSTILE, ensure_ascii=False)).isprintable()
    assert printable("a\tb\x1b[1m\n  ärger") == "ab[1m\n  ärger"
