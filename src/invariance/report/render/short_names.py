"""Long names on an axis, cut so that they stay apart."""

from collections.abc import Iterator, Sequence

LONG = 24
"""Characters of a name on an axis."""


def shortened(names: Sequence[str]) -> Iterator[str]:
    """Beginning and end of long names; of those that this makes equal, what follows their common beginning."""
    half = LONG // 2
    cut = [name if len(name) <= LONG else f"{name[: half - 1]}…{name[-half:]}" for name in names]
    for name, short in zip(names, cut, strict=True):
        alike = [other for other, its in zip(names, cut, strict=True) if its == short]
        differs = next((i for i, letters in enumerate(zip(*alike, strict=False)) if len(set(letters)) > 1), None)
        yield short if differs is None else f"{name[: half - 1]}…{name[differs : differs + half]}"
