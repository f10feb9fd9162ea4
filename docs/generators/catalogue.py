"""Pages of the data sets and of the recipes."""

import re
from collections.abc import Iterator

from generators.docstrings import body, first_line, meaning
from generators.page import code, fields, page, table, value
from invariance.core.catalogue import defaults
from invariance.core.text import markdown_escape
from invariance.data import DATA
from invariance.data.base import DataSet
from invariance.recipes.presets import ALIASES, PRESETS
from invariance.recipes.recipe import Recipe
from invariance.report.render.markdown import markdown
from invariance.studies import STUDIES
from invariance.studies.support.base import Results


def pages(audit: Results) -> Iterator[tuple[str, str]]:
    """Every page with its path."""
    about = (
        "`invariance data list` shows the same in a terminal, `invariance data show NAME` draws samples. [Where images "
        "come from](../data.md) says what is done to each data set of images."
    )
    sections = [part for name, cls in DATA.classes.items() for part in _data(name, cls)]
    yield "data.md", page("Data sets", about, *sections)
    yield "recipes.md", _recipes()
    yield "audit.md", _audit(audit)


def _data(name: str, cls: type[DataSet]) -> Iterator[str]:
    yield f"## {cls.title} (`{name}`)"
    yield f"{markdown_escape(cls.about[:1].upper() + cls.about[1:])}."
    yield first_line(cls)
    yield body(cls)
    rows = [(code(field), value(default), meaning(cls, field)) for field, default in defaults(cls).items()]
    if rows:
        yield table(("field", "default", "meaning"), rows)
    source = f" Source: <{cls.source}>." if cls.source else ""
    yield f"Cite: {markdown_escape(cls.citation)}. Licence: {markdown_escape(cls.licence)}.{source}"


def _recipes() -> str:
    about = (
        "A recipe says how a method is trained: batches, learning rate, schedule, optimiser. `--recipe NAME` chooses "
        'one on the command line, `invariance.recipe("NAME")` in Python, and `small-batch+sam` joins two, the later '
        "one winning. Every recipe is a change to `full-batch`."
    )
    other = {own: name for name, own in ALIASES.items()}
    rows = [
        (
            code(name) + (f", {code(other[name])}" if name in other else ""),
            markdown_escape(preset.about),
            fields(preset.changes) or "none",
        )
        for name, preset in PRESETS.items()
    ]
    slots = [(code(field), value(default)) for field, default in defaults(Recipe).items()]
    return page(
        "Recipes",
        about,
        table(("recipe", "trains", "changes"), rows),
        "## Where recipes differ from the paper",
        "\n".join(f"- {code(name)}: {markdown_escape(text)}" for name, p in PRESETS.items() for text in p.differs),
        "## Fields of a recipe",
        body(Recipe),
        table(("field", "in `full-batch`"), slots),
    )


def _audit(results: Results) -> str:
    study = STUDIES["audit"]()
    about = (
        "Some numbers that the ICLR 2023 paper prints cannot be, or cannot all be. Nothing is trained to show this: it "
        "is arithmetic on the printed numbers alone. The reason is explained in [Exact "
        "evaluation](../explanation/evaluation.md): the accuracy of one fixed model is a straight line in β, so its "
        "average and its gap over 19 environments say what it does at both ends of the line.\n\n"
        "An entry in these tables is not an accusation. A slip in copying, a different number of test images, or "
        "environments that were evaluated together would explain most of them; the paper does not say. "
        "`invariance reproduce audit` prints the same tables."
    )
    alt = "Printed pairs of average accuracy and gap, and the region that is possible for one model"
    picture = "\n\n".join(
        f"```{{image}} audit{ending}.svg\n:class: only-{shown}\n:alt: {alt}\n```"
        for ending, shown in (("", "light"), ("-dark", "dark"))
    )
    tables = [
        re.sub(r"^## Audit: (.)", lambda first: f"## {first[1].upper()}", markdown(artefact))
        for artefact in study.show(results)
    ]
    return page("Audit of the printed numbers", about, picture, *tables)
