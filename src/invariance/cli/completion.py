"""What a shell completes: names of methods, data sets, recipes and studies, read from the source without torch."""

import ast
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path

ROOT = Path(__file__).parents[1]


def methods(incomplete: str) -> list[str]:
    """Methods; several may be joined by commas."""
    return _joined([*_catalogued("methods"), "all"], incomplete, ",")


def data(incomplete: str) -> list[str]:
    """Data sets."""
    return _joined(_catalogued("data"), incomplete)


def recipes(incomplete: str) -> list[str]:
    """Recipes; several may be joined by +."""
    return _joined([*_keys("PRESETS"), *_keys("ALIASES")], incomplete, "+")


def studies(incomplete: str) -> list[str]:
    """Tables and figures."""
    return _joined([*_catalogued("studies"), "all"], incomplete)


def trackers(incomplete: str) -> list[str]:
    """Trackers."""
    return _joined(_catalogued("experiments/trackers"), incomplete)


def exports(incomplete: str) -> list[str]:
    """Export formats."""
    return _joined(_catalogued("exports"), incomplete)


def listed(*values: str) -> Callable[[str], list[str]]:
    """Words that are given here."""
    return lambda incomplete: _joined(list(values), incomplete)


def _joined(names: list[str], incomplete: str, separator: str = "\0") -> list[str]:
    """The names that may stand where the last one is begun, after those that are joined to it already."""
    before, sign, begun = incomplete.rpartition(separator)
    return [f"{before}{sign}{name}" for name in sorted(names) if name.startswith(begun)]


def _catalogued(folder: str) -> list[str]:
    """What a catalogue holds: the files of its folder with a final class, and the entry points of other packages."""
    own = [file.stem.replace("_", "-") for file in (ROOT / folder).glob("*.py") if _has_final_class(file)]
    group = f"invariance.{folder.replace('/', '.')}"
    return [*own, *(entry.name.replace("_", "-") for entry in entry_points(group=group))]


def _has_final_class(file: Path) -> bool:
    classes = (node for node in _tree(file).body if isinstance(node, ast.ClassDef))
    return any(isinstance(mark, ast.Name) and mark.id == "final" for cls in classes for mark in cls.decorator_list)


def _keys(name: str) -> Iterator[str]:
    """The keys of a dictionary of the recipes, as they are written down."""
    for node in _tree(ROOT / "recipes/presets.py").body:
        match node:
            case ast.Assign(targets=[ast.Name(id=found)], value=ast.Dict(keys=keys)) if found == name:
                yield from (str(key.value) for key in keys if isinstance(key, ast.Constant))
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.Dict(keys=keys)) if found == name:
                yield from (str(key.value) for key in keys if isinstance(key, ast.Constant))


def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))
