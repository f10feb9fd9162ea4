"""Write the pages that come from the code: methods and data sets, with formula, citation and fields."""

from pathlib import Path

from invariance.core.catalogue import defaults
from invariance.data import DATA
from invariance.data.base import DataSet
from invariance.methods import METHODS
from invariance.methods.profile import adjusted

HERE = Path(__file__).parent / "generated"


def fields(cls: type) -> str:
    """A table of a class's fields and defaults."""
    rows = [f"| `{name}` | `{value}` |" for name, value in defaults(cls).items()]
    return "\n".join(["| field | default |", "|---|---|", *rows])


def numbered(heading: str, points: tuple[str, ...]) -> list[str]:
    """A heading and its points, or nothing."""
    return [heading, "\n".join(f"{i}. {point}" for i, point in enumerate(points, 1))] if points else []


def section(cls: type, heading: str, lines: list[str]) -> str:
    """One entry."""
    about = "\n".join(line.strip() for line in (cls.__doc__ or "").splitlines())
    return "\n\n".join([f"## {heading}", f"```text\n{about.strip()}\n```", *lines, fields(cls)])


def provenance(data: type[DataSet]) -> str:
    """Licence and source in one line."""
    return f"Licence: {data.licence}." + (f" Source: <{data.source}>" if data.source else "")


def main() -> None:
    """Write both pages."""
    methods = [
        section(
            cls,
            f"{cls.title} (`{name}`)",
            [
                cls.citation,
                *numbered("Differs from its paper or its authors' code:", cls.differs),
                *(f"In the recipe `{name}`: `{changed}`" for name, changed in adjusted(cls).items()),
                f"`tune` searches {', '.join(f'`{field}={each}`' for field, each in cls.search.items())}.",
            ],
        )
        for name, cls in METHODS.classes.items()
    ]
    data = [
        section(cls, f"{cls.title} (`{name}`)", [cls.about, cls.citation, provenance(cls)])
        for name, cls in DATA.classes.items()
    ]
    HERE.mkdir(exist_ok=True)
    (HERE / "methods.md").write_text("\n\n".join(["# Methods", *methods]) + "\n")
    (HERE / "data.md").write_text("\n\n".join(["# Data", *data]) + "\n")


if __name__ == "__main__":
    main()
