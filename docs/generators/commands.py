"""A page of all commands with their options, from the commands themselves."""

from collections.abc import Iterator
from typing import Any

from generators.page import code, page, table
from invariance.cli import app
from invariance.cli.help import EXAMPLES
from invariance.cli.help import command as command_line
from invariance.core.text import markdown_escape


def pages() -> Iterator[tuple[str, str]]:
    """One page."""
    about = (
        "`invariance -h` lists the commands, and `invariance COMMAND -h` shows the options below. [The command "
        "line](../command-line.md) has exit codes, completion and what to do when something does not work."
    )
    yield "commands.md", page("Commands", about, *_commands(command_line(app), "invariance"))


def _commands(group: Any, prefix: str) -> Iterator[str]:
    for name, command in group.commands.items():
        full = f"{prefix} {name}"
        words = full.removeprefix("invariance ")
        if hasattr(command, "commands"):
            yield f"## `{full}`"
            yield markdown_escape(command.help)
            yield from _commands(command, full)
        else:
            yield f"{'##' if prefix == 'invariance' else '###'} `{full}`"
            yield markdown_escape(command.help or "").replace("\\`", "`")
            yield "\n".join(("```", *(f"invariance {each}" for each in EXAMPLES.get(words, ())), "```"))
            context = command.make_context(name, [], resilient_parsing=True)
            rows = [row for each in command.params if (row := _row(each, context))]
            if rows:
                yield table(("argument or option", "meaning"), rows)


def _row(parameter: Any, context: Any) -> tuple[str, str] | None:
    if getattr(parameter, "hidden", False):
        return None
    record = parameter.get_help_record(context)
    if record is None:
        return None
    name, meaning = record
    return code(name.replace(" <bool>", "")), markdown_escape(meaning)
