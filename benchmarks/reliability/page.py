"""The measurements as docs/reliability.md."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

TEMPLATE = Path(__file__).with_name("reliability.template.md")
NOT_MEASURED = "Not measured yet: `make bench-reliability` measures it."


def page(results: Mapping[str, Any]) -> str:
    """The template with the tables of what was measured in it."""
    parts: dict[str, Callable[[Any], Iterator[str]]] = {
        "crashes": _crashes,
        "fuzz": _fuzz,
        "memory": _memory,
        "configurations": _configurations,
        "properties": _properties,
        "soak": _soak,
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, show in parts.items():
        shown = "\n".join(show(results[name])) if results.get(name) else NOT_MEASURED
        text = text.replace(f"{{{{ {name} }}}}", shown)
    return text


def _table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|---{'|--:' * (len(heads) - 1)}|"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


def _findings(wrong: Sequence[object]) -> Iterator[str]:
    yield from ("", f"Findings: {len(wrong)}." if not wrong else f"**Findings: {len(wrong)}.**")
    yield from (f"- {finding}" for finding in wrong)


def _crashes(found: Mapping[str, Any]) -> Iterator[str]:
    counts = {(scenario, kind): count for scenario, kind, count in found["by_scenario"]}
    kinds = list(dict.fromkeys(kind for _, kind in counts))
    names = list(dict.fromkeys(scenario for scenario, _ in counts))
    yield from (f"{found['faults']} faults were injected.", "")
    yield from _table(["scenario", *kinds], [[n, *(counts.get((n, k), "") for k in kinds)] for n in names])
    yield from _findings(found["wrong"])


def _fuzz(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows = [
        (f["format"], f["mutations"], f["refused"], f"{f['slowest']:.2f}", f"{f['megabytes']:.0f}", len(f["wrong"]))
        for f in found
    ]
    yield from (f"{sum(f['mutations'] for f in found):,} mutations.", "")
    heads = ["format", "mutations", "refused in one line", "slowest, s", "memory, MB", "findings"]
    yield from _table(heads, rows)
    yield from _findings([f"{f['format']}: {finding}" for f in found for finding in f["wrong"]])


def _memory(found: Mapping[str, Sequence[float]]) -> Iterator[str]:
    cells = [[name, "refused" if code else "done", f"{megabytes:.0f}"] for name, (code, megabytes) in found.items()]
    yield from _table(["command and input", "ends", "memory, MB"], cells)


def _configurations(found: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{found['drawn']:,} configurations were drawn.", "")
    yield from _table(["outcome", "configurations"], list(found["outcomes"].items()))
    yield from _findings(found["wrong"])


def _properties(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    heads = list(found[0])
    cells = [[row["method"], *("0" if row[h] == 0 else f"{row[h]:.0e}" for h in heads[1:])] for row in found]
    yield from _table(heads, cells)


def _soak(found: Mapping[str, Any]) -> Iterator[str]:
    load, store = found["soak"], found["store"]
    minutes = load["seconds"] / 60
    yield f"{load['runs']:,} runs in {minutes:.1f} minutes by two workers, {load['stored']:,} in the store."
    yield ""
    rows = []
    for name, key in (("memory of driver and workers, MB", "megabytes"), ("open files of driver and workers", "files")):
        rows.append([name, *(", ".join(f"{value:.0f}" for value in load[when][key]) for when in ("first", "last"))])
    yield from _table(["", "at the beginning", "at the end"], rows)
    yield ""
    parts = [f"{name} {store[name]:.2f} s" for name in ("write", "list", "group", "keys")]
    yield f"A store of {store['runs']:,.0f} runs, processor time: {', '.join(parts)}. With imports, "
    yield f"`runs list` takes {store['runs list']:.1f} s and `report` {store['report']:.1f} s; its page has "
    yield f"{store['page']:.1f} MB."
