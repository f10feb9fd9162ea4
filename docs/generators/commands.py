"""A page of all commands with their options, from the commands themselves."""

from collections.abc import Iterator
from typing import Any

import typer

from generators.page import code, page, table
from invariance.cli import app
from invariance.core.text import markdown_escape


def pages() -> Iterator[tuple[str, str]]:
    """One page."""
    about = (
        "`invariance --help` lists the commands, and `invariance COMMAND --help` shows the options below. An error is "
        "one line on standard error and a non-zero exit; `invariance --debug COMMAND` shows where it was raised."
    )
    yield "commands.md", page("Commands", about, *_commands(typer.main.get_command(app), "invariance"))


def _commands(group: Any, prefix: str) -> Iterator[str]:
    for name, command in group.commands.items():
        full = f"{prefix} {name}"
        if hasattr(command, "commands"):
            yield f"## `{full}`"
            yield markdown_escape(command.help)
            yield from _commands(command, full)
        else:
            yield f"{'##' if prefix == 'invariance' else '###'} `{full}`"
            yield _help(command.help or "")
            context = command.make_context(name, [], resilient_parsing=True)
            rows = [row for each in command.params if (row := _row(each, context))]
            if rows:
                yield table(("argument or option", "meaning"), rows)


def _help(text: str) -> str:
    """Paragraphs as they are; what is indented is code."""
    blocks = [block.strip("\n") for block in text.replace("\b", "").split("\n\n")]
    return "\n\n".join(
        f"```\n{block}\n```" if block.lstrip().startswith(("invariance ", "$ ")) else markdown_escape(block)
        for block in blocks
        if block.strip()
    )


def _row(parameter: Any, context: Any) -> tuple[str, str] | None:
    if getattr(parameter, "hidden", False):
        return None
    record = parameter.get_help_record(context)
    if record is None:
        return None
    name, meaning = record
    return code(name.replace(" <bool>", "")), markdown_escape(meaning)
