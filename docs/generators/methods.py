"""A page per method: formula, fields and where their values come from, differences, citation, results, code."""

from collections.abc import Iterator

from generators.docstrings import body, example, meaning
from generators.page import code, fields, math, numbered, page, table, value
from invariance.core.catalogue import defaults
from invariance.core.text import markdown_escape
from invariance.methods import METHODS
from invariance.methods.base import Method
from invariance.methods.profile import adjusted, profile
from invariance.report.render.formats import mean
from invariance.studies.support.base import Arm, Results

Published = dict[str, dict[str, Results]]
"""Results of the published runs, by study and scale."""


def pages(published: Published) -> Iterator[tuple[str, str]]:
    """Every page with its path: the overview, then one per method."""
    names = list(METHODS.classes)
    yield "methods/index.md", _overview(names)
    for name in names:
        yield f"methods/{name}.md", _method(name, METHODS[name], published)


def _overview(names: list[str]) -> str:
    rows = [
        (f"[{METHODS[name].title}]({name}.md)", f"`{name}`", markdown_escape(METHODS[name].citation)) for name in names
    ]
    about = (
        "Each page below is written from the code and from the published runs when this site is built. [How they "
        "work](../../explanation/methods.md) explains them in one place."
    )
    toctree = "\n".join(("```{toctree}", ":hidden:", "", *names, "```"))
    return page("Methods", about, table(("method", "name", "from"), rows), toctree)


def _method(name: str, cls: type[Method], published: Published) -> str:
    return page(
        cls.title,
        f'`invariance compare --methods erm,{name}` · `invariance.profile("{name}")` · '
        f"{{py:class}}`invariance.{cls.__name__}`",
        math(cls.formula),
        body(cls),
        example(cls),
        "## Fields",
        _fields(name, cls),
        *_recipes(cls),
        "## Differences from the paper",
        numbered(cls.differs) or "None that we know of.",
        "## Results",
        _results(cls, published),
        "## Cite",
        markdown_escape(cls.citation) + ".",
        "## Code",
        _code(cls),
    )


def _fields(name: str, cls: type[Method]) -> str:
    own, used = defaults(cls), profile(name).method
    rows = [
        (code(field), value(default), value(getattr(used, field)), meaning(cls, field))
        for field, default in own.items()
    ]
    about = (
        f"`{cls.__name__}()` has the first value, which is the paper's unless the last column says otherwise; the "
        f'recipe `default` trains with the second (`profile("{name}")`). On the command line a field is changed by '
        "`--set method.FIELD=VALUE`."
    )
    header = ("field", "value", "in recipe `default`", "meaning, and where it comes from")
    return "\n\n".join((about, ":::{div} fields", table(header, rows), ":::"))


def _recipes(cls: type[Method]) -> Iterator[str]:
    changed = adjusted(cls)
    if changed:
        yield "## What it changes in recipes"
        yield table(
            ("recipe", "fields of the method and of the recipe"), ((code(k), fields(v)) for k, v in changed.items())
        )
    yield "## What `tune` searches"
    yield table(("field", "range"), ((code(field), code(str(each))) for field, each in cls.search.items()))


def _results(cls: type[Method], published: Published) -> str:
    rows = _rows(cls, published)
    if not rows:
        return "There are no published runs of this method yet."
    about = (
        "Accuracy over the test environments in %, mean ± population standard deviation over seeds, from the published "
        "runs; the checkpoint is chosen by the rule `invariant`. *Printed* is what the ICLR 2023 paper prints. "
        "[All results](../../results.md)"
    )
    header = ("data and setting", "average", "printed", "gap", "printed", "seeds")
    marks = "| --- | --: | --: | --: | --: | --: |"
    lines = table(header, ((place, *numbers) for place, numbers in rows.items()))
    return "\n\n".join((about, lines.replace(lines.splitlines()[1], marks, 1)))


def _rows(cls: type[Method], published: Published) -> dict[str, list[str]]:
    """Numbers by data and setting; the table that prints most of them counts."""
    rows: dict[str, list[str]] = {}
    for study, scales in published.items():
        for made in scales.values() if study.startswith("table") else ():
            for arm in made.arms:
                if arm.spec and type(arm.spec.method) is cls and made.row(arm):
                    variant = "" if arm.method == cls.title else f"{arm.method}, "
                    place = markdown_escape(f"{arm.data}: {variant}{arm.setting}")
                    here = _numbers(made, arm, study)
                    if place not in rows or here.count("–") < rows[place].count("–"):
                        rows[place] = here
    return rows


def _numbers(made: Results, arm: Arm, study: str) -> list[str]:
    average, gap = (made.quantity(arm, metric, study) for metric in ("average", "gap"))
    texts = [
        text
        for each in (average, gap)
        for text in (mean(each) if each.ours else "–", f"{each.printed.mean:g}" if each.printed else "–")
    ]
    collapsed = f", {average.collapsed} collapsed" if average.collapsed else ""
    return [*texts, f"{average.seeds}{collapsed}"]


def _code(cls: type[Method]) -> str:
    path = f"../../../src/{cls.__module__.replace('.', '/')}.py"
    lines = (f":::{{dropdown}} `{cls.__module__.replace('.', '/')}.py`", f"```{{literalinclude}} {path}", "```", ":::")
    return "\n".join(lines)
