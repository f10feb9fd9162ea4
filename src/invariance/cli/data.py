"""``invariance data``."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress, TaskID

from invariance.cli import completion, listing
from invariance.cli.options import Json, errors, out, print_json, progress, say_partial, writable

app = typer.Typer(no_args_is_help=True, help="Data sets and their files: list, check, fetch, show.")
app.command("list")(listing.data)

Name = Annotated[str, typer.Argument(help="The data set.", autocompletion=completion.data)]
Names = Annotated[
    list[str] | None, typer.Argument(help="Data sets; all if none is given.", autocompletion=completion.data)
]


@app.command()
def check(names: Names = None, as_json: Json = False) -> None:
    """Say which files are here, verified against their published checksums, and how complete folders of images are."""
    from invariance.core.errors import DataError
    from invariance.data import DATA
    from invariance.data.formats.downloads import locate

    entries: list[dict[str, Any]] = []
    for name in names or DATA.classes:
        for file in DATA[name].files:
            try:
                place = locate(file)
                entry = {"state": "verified" if place else "missing", "place": str(place) if place else None}
            except DataError as error:
                entry = {"state": "corrupt", "place": str(error)}
            entries.append({"data": name, "file": file.name, **entry})
        state = DATA.create(name).availability()
        if state or not DATA[name].files:
            here, about = state or ("embedded", None)
            entries.append({"data": name, "file": None, "state": here, "place": about})
    if as_json:
        print_json(entries)
    else:
        for entry in entries:
            what = " ".join(str(entry[key]) for key in ("data", "file", "place") if entry[key])
            out().print(f"{entry['state']:9} {what}", highlight=False, markup=False, soft_wrap=True)
    if any(entry["state"] == "corrupt" for entry in entries):
        raise typer.Exit(1)


@app.command()
def fetch(names: Names = None, as_json: Json = False) -> None:
    """Download what is missing into the cache, verified."""
    from invariance.data import DATA
    from invariance.data.formats.downloads import fetch as download
    from invariance.data.formats.downloads import locate

    places = {}
    with progress() as bar:
        for name in names or DATA.classes:
            for file in DATA[name].files:
                task = bar.add_task(file.name, total=None)
                places[file.name] = str(locate(file) or download(file, Meter(bar, task)))
    for name in names or ():
        _by_hand(name)
    if as_json:
        print_json(places)
    else:
        for file_name, place in places.items():
            out().print(f"{file_name}: {place}", highlight=False, markup=False, soft_wrap=True)


def _by_hand(name: str) -> None:
    """Say where to get what cannot be fetched."""
    from invariance.data import DATA

    state = DATA.create(name).availability()
    if state and state.here != "complete" and not DATA[name].files:
        source = f"; it is offered at {DATA[name].source}" if DATA[name].source else ""
        errors().print(
            f"{name} cannot be fetched: {state.about}{source}", highlight=False, markup=False, soft_wrap=True
        )


@app.command()
def show(
    name: Name,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="data.FIELD=VALUE", help="Change a field, e.g. data.shift=colour."),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to (default: NAME.png).")] = None,
    as_json: Json = False,
) -> None:
    """Write a picture of samples of every training environment and of some test environments."""
    from invariance.core.errors import BadValue
    from invariance.core.seeding import generator
    from invariance.data import DATA
    from invariance.experiments.spec import parse_changes
    from invariance.report.samples import contact_sheet

    path = output or Path(f"{name}.png")
    writable(path, ".png", ".jpg", ".pdf")
    fields = parse_changes(changes or [])
    if other := fields.keys() - {"data"}:
        raise BadValue(f"only data are shown; {min(other)} has no part in it: --set data.FIELD=VALUE")
    data = DATA.create(name, fields.get("data"))
    say_partial(data)
    benchmark = data.load(seed)
    test = list(benchmark.test)
    if benchmark.mechanism:
        test += [benchmark.mechanism.environment(beta, generator(seed, "show", beta)) for beta in (0.5, 0.9)]
    contact_sheet({"train": benchmark.train, "test": test}).save(path)
    shown = [e.name for e in (*benchmark.train, *test)]
    if as_json:
        print_json({"picture": str(path), "environments": shown})
    else:
        out().print(f"{', '.join(shown)}: {path}", highlight=False)


class Meter:
    """A rich task with tqdm's interface, which pooch expects."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self.bar, self.task = bar, task
        self._total = 0

    @property
    def total(self) -> int:
        """Bytes in all."""
        return self._total

    @total.setter
    def total(self, value: int) -> None:
        self._total = value
        self.bar.update(self.task, total=value)

    def update(self, size: int) -> None:
        """So many bytes more."""
        self.bar.update(self.task, advance=size)

    def reset(self) -> None:
        """From the start."""
        self.bar.reset(self.task)

    def close(self) -> None:
        """Done."""
