"""The numbers that the ICLR 2023 paper prints."""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from invariance.core.artefacts import Printed


class Place(NamedTuple):
    """Where a number stands in the paper."""

    study: str
    data: str
    setting: str
    method: str
    metric: str


@cache
def everything() -> dict[Place, Printed]:
    """All printed numbers."""
    lines = files("invariance.studies.support").joinpath("printed.csv").read_text(encoding="utf-8").splitlines()
    rows = list(csv.reader(lines))[1:]
    return {Place(*row[:5]): Printed(float(row[5]), float(row[6]) if row[6] else None) for row in rows}


def printed(study: str, data: str, setting: str, method: str, metric: str) -> Printed | None:
    """The number of one place, or None where nothing is printed."""
    return everything().get(Place(study, data, setting, method, metric))
