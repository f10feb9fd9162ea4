"""Who may know whom, and how long things may be."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import invariance

ROOT = Path(invariance.__file__).parent

LAYERS = [
    {"core"},
    {"recipes", "models", "tabular"},
    {"methods", "data"},
    {"evaluation"},
    {"training"},
    {"estimators", "experiments"},
    {"studies", "fitting", "exports"},
    {"report", "tuning"},
    {"cli"},
    {"__main__"},
]
INSIDE = {
    "data": ["formats", "images", "base", "constructions"],
    "studies": ["support"],
    "report": ["render"],
}
"""Folders and files of a room that the rest of it is built on, lowest first."""
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}


def name(path: Path) -> str:
    parts = ["invariance", *path.relative_to(ROOT).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {name(path): path for path in sorted(ROOT.rglob("*.py"))}


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(PATHS[module].read_text(encoding="utf-8"))


def every_function() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    return ((module, function) for module in PATHS for function in functions(tree(module)))


def imports(module: str) -> Iterator[str]:
    """Modules of the package that a module imports anywhere, for types only or inside a function too."""
    for node in ast.walk(tree(module)):
        match node:
            case ast.Import(names=aliases):
                found = [alias.name for alias in aliases]
            case ast.ImportFrom(module=source, names=aliases, level=0):
                found = [f"{source}.{alias.name}" for alias in aliases]
            case ast.ImportFrom():
                raise AssertionError(f"{module}: relative import in line {node.lineno}")
            case _:
                continue
        for path in found:
            if path.split(".")[0] == "invariance" and path != "invariance.__version__":
                yield path if path in PATHS else path.rpartition(".")[0]


def part(module: str) -> str:
    return module.split(".")[1] if "." in module else "invariance"


def functions(root: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(root) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_part_has_its_layer_and_every_layer_its_parts():
    parts = {part(module) for module in PATHS} - {"invariance"}
    assert parts == LEVEL.keys()


def test_the_package_itself_imports_none_of_its_parts():
    assert not list(imports("invariance"))


def test_imports_go_down():
    upward = [
        (module, imported)
        for module in PATHS
        for imported in imports(module)
        if part(imported) != part(module) and LEVEL.get(part(imported), len(LAYERS)) >= LEVEL.get(part(module), -1)
    ]
    assert not upward


@pytest.mark.parametrize("room", INSIDE)
def test_imports_inside_a_room_go_down_too(room):
    def level(module: str) -> int:
        below = module.split(".")[2:3]
        return INSIDE[room].index(below[0]) if below and below[0] in INSIDE[room] else len(INSIDE[room])

    pairs = [(m, i) for m in PATHS if part(m) == room for i in imports(m) if part(i) == room]
    assert not [(module, imported) for module, imported in pairs if level(imported) > level(module)]


def test_no_two_modules_need_each_other():
    folders = {module for module in PATHS if PATHS[module].name == "__init__.py"}
    graph = {module: set(imports(module)) - {module} for module in PATHS if module not in folders}
    assert {*TopologicalSorter(graph).static_order()} >= graph.keys()  # raises CycleError where two do


def test_layers_are_minimal():
    """No part could stand lower: each needs something of the layer right below, or of its own."""
    needs = {p: {part(i) for m in PATHS if part(m) == p for i in imports(m)} - {p} for p in LEVEL}
    idle = {p for p, level in LEVEL.items() if level and not any(LEVEL[q] == level - 1 for q in needs[p])}
    assert not idle


def test_files_are_short():
    lines = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in PATHS.items()}
    assert not {module: many for module, many in lines.items() if many > 300}


def test_functions_are_short():
    def body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
        """Lines without the docstring."""
        first = function.body[1] if ast.get_docstring(function) and len(function.body) > 1 else function.body[0]
        return function.end_lineno - first.lineno + 1

    assert not [(module, function.name, body(function)) for module, function in every_function() if body(function) > 40]


def test_every_argument_and_result_has_a_type():
    bare = []
    for module, function in every_function():
        a = function.args
        given = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
        bare += [
            f"{module}: {function.name}({argument.arg})"
            for argument in given
            if argument.annotation is None and argument.arg not in ("self", "cls")
        ]
        bare += [] if function.returns else [f"{module}: {function.name} -> ?"]
    assert not bare


def test_random_numbers_never_come_from_the_global_generator():
    drawing = {"rand", "randn", "randint", "randperm", "bernoulli", "normal", "multinomial"}
    loose = []
    for module, node in ((name, node) for name in PATHS for node in ast.walk(tree(name))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in drawing:
            named = "generator" in {keyword.arg for keyword in node.keywords}
            loose += [] if named else [(module, node.lineno)]
    assert not loose


@pytest.mark.parametrize("module", ["invariance", "invariance.cli", "invariance.__main__"])
def test_importing_the_command_line_costs_no_torch(module):
    heavy = "{'torch', 'numpy', 'sklearn', 'matplotlib', 'pooch'}"
    code = f"import sys, {module}; print(*sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
