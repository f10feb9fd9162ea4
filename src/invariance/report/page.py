"""A report as one page: everything it shows, as a value."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from invariance.core.artefacts import Artefact


@dataclass(frozen=True)
class Choice:
    """Something that a reader may choose between, such as a selection rule; the first option is shown at first."""

    name: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """Tables and figures that a reader can see in several versions, one for each combination of options.

    What it shows at first is the version of the first options. Every version has artefacts of the same names.
    """

    name: str
    title: str
    versions: Mapping[tuple[str, ...], tuple[Artefact, ...]]
    choices: tuple[Choice, ...] = ()

    @property
    def first(self) -> tuple[Artefact, ...]:
        """What is shown at first."""
        return self.versions[tuple(choice.options[0] for choice in self.choices)]


@dataclass(frozen=True)
class Chapter:
    """A part of a page under a heading of its own: sentences first, then the tables and figures they rest on.

    ``left_out`` says in a sentence what was too much to show; empty where nothing was. ``cards`` shows each line of a
    table as a card, for tables with long cells or many columns. ``folded`` is for long data, which are opened on
    request, and which only formats for machines write. ``blocks`` come after the artefacts.
    """

    name: str
    title: str
    words: tuple[str, ...] = ()
    artefacts: tuple[Artefact, ...] = ()
    left_out: str = ""
    cards: bool = False
    folded: bool = False
    blocks: tuple[Block, ...] = ()

    def shown(self) -> Iterator[Artefact]:
        """All tables and figures, as they are at first."""
        yield from self.artefacts
        yield from chain.from_iterable(block.first for block in self.blocks)

    def every(self) -> Iterator[Artefact]:
        """All tables and figures in all versions."""
        yield from self.artefacts
        yield from chain.from_iterable(version for block in self.blocks for version in block.versions.values())


@dataclass(frozen=True)
class Page:
    """A report before it is typeset. ``facts`` are single numbers with their names; ``summary`` comes right after."""

    title: str
    note: str
    made: str
    facts: tuple[tuple[str, str], ...]
    summary: tuple[Artefact, ...] = ()
    chapters: tuple[Chapter, ...] = ()
    citations: tuple[str, ...] = ()

    def artefacts(self, *, folded: bool = True) -> Iterator[Artefact]:
        """All tables and figures as they are at first, with long data or without."""
        yield from self.summary
        for chapter in self.chapters:
            if folded or not chapter.folded:
                yield from chapter.shown()

    def every(self) -> Iterator[Artefact]:
        """All tables and figures in all versions."""
        yield from self.summary
        for chapter in self.chapters:
            yield from chapter.every()
