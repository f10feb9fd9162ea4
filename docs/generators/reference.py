"""The reference: a page per public name, and an index of them by what they are about."""

import inspect
from collections.abc import Iterator

import invariance
from generators.docstrings import body, first_line
from generators.page import page, table
from invariance.estimators.base import Invariant

GROUPS = {
    "estimators": "Estimators: the scikit-learn way",
    "methods": "Methods",
    "recipes": "Recipes, optimisers and schedules",
    "models": "Models",
    "data": "Data sets",
    "core": "Environments, batches and errors",
    "training": "Training and selection",
    "evaluation": "Evaluation",
    "experiments": "Experiments and stored runs",
    "tuning": "Tuning",
}
"""Rooms of the package, in the order in which a reader needs them; rooms that are not named come last."""


def pages() -> Iterator[tuple[str, str]]:
    """Every page with its path: the index, then one per name."""
    rooms: dict[str, list[str]] = {room: [] for room in GROUPS}
    for name in sorted(invariance.__all__, key=str.lower):
        rooms.setdefault(getattr(invariance, name).__module__.split(".")[1], []).append(name)
    yield "api/index.md", _index({room: names for room, names in rooms.items() if names})
    for names in rooms.values():
        for name in names:
            yield f"api/{name}.md", _name(name)


def _index(rooms: dict[str, list[str]]) -> str:
    about = (
        "Everything that `import invariance` offers. Names are imported when they are first used, so that the import "
        "itself costs nothing. What is not listed here is internal and may change without notice."
    )
    parts = [about]
    for room, names in rooms.items():
        rows = [(f"[`{name}`]({name}.md)", _summary(name)) for name in names]
        parts += [f"## {GROUPS.get(room, room.capitalize())}", table(("name", "what it is"), rows)]
    every = "\n".join(("```{toctree}", ":hidden:", "", *(name for names in rooms.values() for name in names), "```"))
    return page("Python reference", *parts, every)


def _summary(name: str) -> str:
    value = getattr(invariance, name)
    formula = vars(value).get("formula") if inspect.isclass(value) else None
    return f"the method {value.title}" if formula else first_line(value).replace("|", "\\|")


def _name(name: str) -> str:
    value = getattr(invariance, name)
    kind = "class" if inspect.isclass(value) else "function"
    options = "\n   :members:\n   :inherited-members:" if kind == "class" else ""
    shown = f"```{{eval-rst}}\n.. auto{kind}:: invariance.{name}{options}\n```"
    path = value.__module__.replace(".", "/")
    own = inspect.isclass(value) and issubclass(value, Invariant)
    fields = ("## Parameters and fitted attributes", body(Invariant)) if own else ()
    return page(f"`{name}`", shown, *fields, f"Defined in `src/{path}.py`.")
