"""What --help shows: examples under every command, exit codes, and what to put where, in words."""

from collections.abc import Iterator
from copy import copy
from typing import Any

import typer
from typer.main import get_command

HELP_NAMES = ["-h", "--help"]
EVERYWHERE = ("quiet", "debug")
"""Options that stand before a command or after it."""
PLACEHOLDERS = {
    "str": "TEXT",
    "list[str]": "TEXT",
    "int": "N",
    "int range": "N",
    "float": "NUMBER",
    "float range": "NUMBER",
}
PLACEHOLDERS |= {"path": "PATH", "file": "PATH", "directory": "PATH"}
"""What stands for a value, by its type."""
EXAMPLES: dict[str, tuple[str, ...]] = {
    "compare": ("compare", "compare --methods erm,irmv1,bloc-irm --seeds 5 --track tensorboard"),
    "fit": (
        "fit patients.csv --label sick --environment hospital",
        "fit photos/ --image-size 64 --epochs 8 -o model",
    ),
    "predict": ("predict model new.csv -o predictions.csv --id case",),
    "evaluate": ("evaluate model labelled.csv --environment hospital", "evaluate runs/two-bit-erm-0 --json"),
    "calibrate": ("calibrate model site.csv -o model-site",),
    "export": ("export model --format onnx -o model.onnx",),
    "train": ("train colored-mnist irmv1 --seed 1 -o runs/one", "train two-bit rex --set method.gamma=100"),
    "tune": ("tune colored-digits irmv1 --trials 30",),
    "reproduce": ("reproduce --list", "reproduce table-4 --scale quick --seeds 2"),
    "run": ("run specs.jsonl --workers 2",),
    "report": ("report table-4 --published", "report --format csv -o tables"),
    "doctor": ("doctor", "doctor --json"),
    "runs list": ("runs list --method irmv1",),
    "runs show": ("runs show 3f2a",),
    "runs export": ("runs export runs.csv",),
    "runs publish": ("runs publish --store runs.db",),
    "runs remove": ("runs remove 3f2a --yes",),
    "list methods": ("list methods --json",),
    "list recipes": ("list recipes",),
    "list data": ("list data",),
    "list models": ("list models",),
    "list formats": ("list formats",),
    "data list": ("data list",),
    "data check": ("data check colored-mnist",),
    "data fetch": ("data fetch colored-mnist",),
    "data show": ("data show colored-mnist --output examples.png",),
    "cluster": ("cluster --address 10.0.0.1:6379",),
    "cluster start": ("cluster start",),
    "cluster stop": ("cluster stop",),
}
"""By the words of a command; a test parses each of them."""
EXIT_CODES = {
    0: "done",
    1: "an error, reported in one line",
    2: "the command line was not understood",
    3: "ended, but runs failed or are missing, or no model is usable",
    130: "stopped by Ctrl-C; the same command goes on",
}


def command(app: typer.Typer) -> Any:
    """The command line with examples and exit codes in its help."""
    built = get_command(app)
    for words, part in _commands(built):
        lines = [f"`invariance {example}`" for example in examples(words)]
        part.epilog = "\n\n".join(["**Examples**", *lines])
        if part is not built and not hasattr(part, "commands"):
            part.params.extend(_everywhere(built))
        context = typer.Context(part, help_option_names=HELP_NAMES)
        for parameter in [*part.params, part.get_help_option(context)]:
            _in_words(parameter, context)
    codes = "; ".join(f"{code}: {meaning}" for code, meaning in EXIT_CODES.items())
    built.epilog = f"{built.epilog}\n\n**Exit codes**\n\n{codes}."
    return built


def _everywhere(built: Any) -> Iterator[Any]:
    """Options that may also stand after a command; their callbacks do all that they do."""
    for option in built.params:
        if option.name in EVERYWHERE:
            own = copy(option)
            own.expose_value = False
            yield own


def _in_words(parameter: Any, context: typer.Context) -> None:
    """An option shows what to put there, a flag and an argument nothing."""
    kind = parameter.display_type(context).strip("<>")
    placeholder = PLACEHOLDERS.get(kind, kind)
    if parameter.param_type_name == "argument":
        parameter.display_type_rich = lambda ctx: ""  # its name says it
    elif getattr(parameter, "is_flag", False):
        parameter.metavar = ""
    elif parameter.metavar is None:
        parameter.metavar = placeholder
    parameter._get_number_range_help_str = lambda: ""  # "[x>=1]" is for programmers


def examples(words: str) -> tuple[str, ...]:
    """The examples of a command; of a group, those of its first two commands."""
    below = tuple(each[0] for command, each in EXAMPLES.items() if command.startswith(words))
    return EXAMPLES.get(words) or below[:2]


def _commands(built: Any, words: str = "") -> Iterator[tuple[str, Any]]:
    """Every command and group of commands, with its words."""
    yield words, built
    for name, part in getattr(built, "commands", {}).items():
        yield from _commands(part, f"{words} {name}".strip())
