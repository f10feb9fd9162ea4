"""The measurements as docs/reliability.md."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).with_name("reliability.template.md")
NOT_MEASURED = "Not measured yet: `make bench-reliability` measures it."


def page(results: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """The template with the tables of what was measured in it."""
    parts: dict[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
        "crashes": _crashes,
        "fuzz": _fuzz,
        "memory": _memory,
        "configurations": _configurations,
        "properties": _properties,
        "determinism": _determinism,
        "soak": _soak,
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, show in parts.items():
        shown = NOT_MEASURED
        if pieces := results.get(name):
            found = {piece: measured["found"] for piece, measured in pieces.items()}
            shown = "\n".join([*show(found), "", _circumstances(list(pieces.values()))])
        text = text.replace(f"{{{{ {name} }}}}", shown)
    return text


def _circumstances(pieces: Sequence[Mapping[str, Any]]) -> str:
    """When and on what the pieces of a table were measured, and how busy the machine was."""
    dates, commits = (", ".join(dict.fromkeys(str(piece[name]) for piece in pieces)) for name in ("date", "commit"))
    loads = sorted(piece["load"] for piece in pieces)
    load = f"{loads[0]:.0f}" if f"{loads[0]:.0f}" == f"{loads[-1]:.0f}" else f"{loads[0]:.0f} to {loads[-1]:.0f}"
    return f"Measured on {dates} at {commits}, with a load of {load} on two cores."


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|---{'|--:' * (len(heads) - 1)}|"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def _findings(wrong: Sequence[object]) -> Iterator[str]:
    yield from ("", f"Findings: {len(wrong)}." if not wrong else f"**Findings: {len(wrong)}.**")
    yield from (f"- {finding}" for finding in wrong)


def _crashes(found: Mapping[str, Any]) -> Iterator[str]:
    counts = {(scenario, kind): count for each in found.values() for scenario, kind, count in each["by_scenario"]}
    kinds = list(dict.fromkeys(kind for _, kind in counts))
    yield from (f"{sum(each['faults'] for each in found.values()):,} faults were injected.", "")
    yield from _table(["scenario", *kinds], [[name, *(counts.get((name, k), "") for k in kinds)] for name in found])
    yield from _findings([finding for each in found.values() for finding in each["wrong"]])


def _fuzz(found: Mapping[str, Any]) -> Iterator[str]:
    lines = [line for lines in found.values() for line in lines]
    rows = [
        (f["format"], f["mutations"], f["refused"], f"{f['slowest']:.2f}", f"{f['megabytes']:.0f}", len(f["wrong"]))
        for f in lines
    ]
    yield from (f"{sum(f['mutations'] for f in lines):,} mutations.", "")
    heads = ["format", "mutations", "refused in one line", "slowest, s", "memory, MB", "findings"]
    yield from _table(heads, rows)
    yield from _findings([f"{f['format']}: {finding}" for f in lines for finding in f["wrong"]])


def _memory(found: Mapping[str, Any]) -> Iterator[str]:
    (measured,) = found.values()
    cells = [[name, "refused" if code else "done", f"{megabytes:.0f}"] for name, (code, megabytes) in measured.items()]
    yield from _table(["command and input", "ends", "memory, MB"], cells)


def _configurations(found: Mapping[str, Any]) -> Iterator[str]:
    outcomes: Counter[str] = Counter()
    for each in found.values():
        outcomes.update(each["outcomes"])
    yield from (f"{sum(each['drawn'] for each in found.values()):,} configurations were drawn.", "")
    yield from _table(["outcome", "configurations"], outcomes.most_common())
    yield from _findings([finding for each in found.values() for finding in each["wrong"]])


def _properties(found: Mapping[str, Any]) -> Iterator[str]:
    lines = [line for lines in found.values() for line in lines]
    for i, (heads, alike) in enumerate(groupby(lines, key=tuple)):
        yield from ("", "With 30,000 rows:", "") if i else ()
        yield from _table(heads, [[line["method"], *(_change(line[h]) for h in heads[1:])] for line in alike])


def _determinism(found: Mapping[str, Any]) -> Iterator[str]:
    for i, rows in enumerate(found.values()):
        yield from ("",) if i else ()
        cells = [[cell if isinstance(cell, str) else _change(cell) for cell in row.values()] for row in rows]
        yield from _table(list(rows[0]), cells)


def _change(value: float) -> str:
    return "0" if value == 0 else f"{value:.0e}"


def _soak(found: Mapping[str, Any]) -> Iterator[str]:
    load, store = found["load"], found["store"]
    minutes = load["seconds"] / 60
    yield f"{load['runs']:,} runs in {minutes:.1f} minutes by two workers, {load['stored']:,} in the store."
    yield ""
    rows = []
    for name, key in (("memory of driver and workers, MB", "megabytes"), ("open files of driver and workers", "files")):
        rows.append([name, *(", ".join(f"{value:.0f}" for value in load[when][key]) for when in ("first", "last"))])
    yield from _table(["", "at the beginning", "at the end"], rows)
    yield ""
    parts = [f"{name} {store[name]:.2f} s" for name in ("write", "list", "group", "keys")]
    yield f"A store of {store['runs']:,.0f} runs, processor time: {', '.join(parts)}. With imports,"
    yield f"`runs list` takes {store['runs list']:.1f} s and `report` {store['report']:.1f} s; its page has"
    yield f"{store['page']:.1f} MB."
