"""How much of a study is run: seeds, recipes, versions of data sets."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from invariance.data.base import Smaller

Detail = Literal["low", "medium", "high"]

AT_EVERY_SCALE = (
    "Deviations are population standard deviations.",
    "A checkpoint of each run is selected, where the paper seems to take the end of training.",
    "Seeds that diverged, or whose selected checkpoint has collapsed, are counted and not averaged.",
)
"""Where no scale is the paper's protocol."""
FEWER_POINTS = (
    "Figures over batch size have four sizes of seven beside the full batch, figures over width three widths of seven, "
    "rates four of five rates, Figure A2 a coarser grid, and controls of its methods IRMv1 alone."
)
"""Where the detail is medium."""
IN_BF16 = "Runs of the recipe all-samples are made in bf16, and so are those of the recipe paper."


class Scale(NamedTuple):
    """How much is run: ``recipes`` replaces recipes by name, ``changes`` are fields by section.

    ``detail`` says how many points studies give their sweeps, ``smaller`` which smaller version of a data set is used,
    where it has one, ``differs`` where results are not made as the paper makes its own. So a scale is one entry here.
    """

    about: str
    seeds: int
    recipes: Mapping[str, str] = {}
    changes: Mapping[str, Mapping[str, Any]] = {}
    detail: Detail = "high"
    smaller: Smaller | None = None
    differs: tuple[str, ...] = AT_EVERY_SCALE


SCALES: dict[str, Scale] = {
    "smoke": Scale(
        "seconds per run, to see that everything works; the numbers mean nothing",
        1,
        {},
        {
            "data": {"images": 4096},
            "model": {"width": 64},
            "recipe": {"epochs": 2},
            "evaluation": {"checkpoints": 2, "train_rows": 1000},
        },
        detail="low",
        smaller="tiny",
    ),
    "quick": Scale(
        "few seeds and our short recipes, on larger images the debiased one",
        2,
        {"full-batch": "short-full", "small-batch": "short"},
        detail="medium",
        smaller="small",
        differs=(*AT_EVERY_SCALE, FEWER_POINTS),
    ),
    "ours-small": Scale(
        "as ours, with small versions of the larger data sets and narrow networks",
        3,
        {"full-batch": "two-phase+all-samples+bf16", "small-batch": "two-phase", "paper": "paper+bf16"},
        detail="medium",
        smaller="small",
        differs=(*AT_EVERY_SCALE, FEWER_POINTS, IN_BF16),
    ),
    "debiased": Scale(
        "the debiased recipe, in small batches or in 500 updates on all samples",
        10,
        {"full-batch": "debiased-full", "small-batch": "debiased"},
        detail="medium",
        differs=(*AT_EVERY_SCALE, FEWER_POINTS),
    ),
    "ours": Scale(
        "the two-phase recipe, in small batches or, in bf16, in 500 updates on all samples",
        10,
        {"full-batch": "two-phase+all-samples+bf16", "small-batch": "two-phase", "paper": "paper+bf16"},
        detail="medium",
        differs=(*AT_EVERY_SCALE, FEWER_POINTS, IN_BF16),
    ),
    "full": Scale("the paper's batches, epochs and seeds", 10),
}


def differences(scales: Collection[str]) -> Iterator[str]:
    """Where these scales differ from the paper; what is not true of all of them comes after their names."""
    for text in dict.fromkeys(text for name in scales for text in SCALES[name].differs):
        own = [name for name in scales if text in SCALES[name].differs]
        yield text if len(own) == len(scales) else f"Scale{'s' * (len(own) > 1)} {', '.join(own)}: {text}"
