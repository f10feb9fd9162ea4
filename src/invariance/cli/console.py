"""Consoles that show names of others as text: no code of theirs reaches the terminal."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook
from rich.segment import Segment

from invariance.core.text import printable


class _Printable:
    """What another renderable shows, without control characters; those of the console itself stay."""

    def __init__(self, inner: ConsoleRenderable) -> None:
        self.inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        for text, style, control in console.render(self.inner, options):
            yield Segment(text if control else printable(text), style, control)


class _OnlyPrintable(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Printable(each) for each in renderables]


def console(*, stderr: bool = False, quiet: bool = False) -> Console:
    """A console on standard output or error."""
    made = Console(stderr=stderr, quiet=quiet, markup=False, emoji=False)  # [a] and :a: are names
    made.push_render_hook(_OnlyPrintable())
    return made
