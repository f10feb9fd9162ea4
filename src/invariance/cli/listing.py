"""``invariance list``."""

from collections.abc import Iterator, Mapping
from typing import Any

import typer

from invariance.cli.options import Json, out, print_json

app = typer.Typer(no_args_is_help=True, help="Available methods, recipes, data, models and report formats.")


@app.command()
def methods(as_json: Json = False) -> None:
    """Every method with its formula and citation."""
    from invariance.core.catalogue import defaults
    from invariance.methods import METHODS
    from invariance.methods.profile import adjusted

    _show(
        [
            {
                "name": name,
                "title": cls.title,
                "formula": cls.formula,
                "citation": cls.citation,
                "differs": list(cls.differs),
                "fields": defaults(cls),
                "preferences": adjusted(cls),
                "search": {field: str(each) for field, each in cls.search.items()},
            }
            for name, cls in METHODS.classes.items()
        ],
        as_json,
    )


@app.command()
def recipes(as_json: Json = False) -> None:
    """Every named recipe, and where it differs from the paper; join them with + to combine."""
    from invariance.recipes.presets import PRESETS

    _show(
        [
            {"name": name, "about": preset.about, "differs": list(preset.differs), "fields": dict(preset.changes)}
            for name, preset in PRESETS.items()
        ],
        as_json,
    )


@app.command()
def data(as_json: Json = False) -> None:
    """Every data set with its citation, licence and source."""
    from invariance.core.catalogue import defaults
    from invariance.data import DATA

    _show(
        [
            {
                "name": name,
                "title": cls.title,
                "about": cls.about,
                "citation": cls.citation,
                "licence": cls.licence,
                "source": cls.source,
                "fields": defaults(cls),
            }
            for name, cls in DATA.classes.items()
        ],
        as_json,
    )


@app.command()
def models(as_json: Json = False) -> None:
    """Every model architecture."""
    from invariance.core.catalogue import defaults
    from invariance.models import MODELS

    _show(
        [
            {"name": name, "about": (cls.__doc__ or "").splitlines()[0].replace("``", ""), "fields": defaults(cls)}
            for name, cls in MODELS.classes.items()
        ],
        as_json,
    )


@app.command()
def formats(as_json: Json = False) -> None:
    """Every format that a report can be written in."""
    from invariance.cli.report import formats

    _show([{"name": name, "about": cls.about, "fields": {}} for name, cls in formats().classes.items()], as_json)


def _show(entries: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print_json(entries)
        return
    from rich.padding import Padding
    from rich.text import Text

    console = out()
    for entry in entries:
        console.print(Text(entry["name"], "bold"))
        for text, style in _lines(entry):
            console.print(Padding(Text(text, style), (0, 0, 0, 2)))
        console.print()


def _lines(entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """An entry line by line, each with its style."""
    for key in ("about", "formula"):
        if entry.get(key):
            yield entry[key], ""
    for key in ("citation", "licence", "source"):
        if entry.get(key):
            yield f"{key}: {entry[key]}", "dim"
    for number, difference in enumerate(entry.get("differs", []), 1):
        yield f"differs {number}. {difference}", "dim"
    for recipe, changed in entry.get("preferences", {}).items():
        yield f"in {recipe}: {_fields(changed)}", "dim"
    if entry.get("search"):
        yield f"tune searches: {_fields(entry['search'])}", "dim"
    if entry["fields"]:
        yield _fields(entry["fields"]), "cyan"


def _fields(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={f'{value:g}' if isinstance(value, float) else value}" for name, value in values.items())
