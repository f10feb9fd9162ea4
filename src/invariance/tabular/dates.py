"""Dates and times as numbers: the format of a column is found once, and its cells are read by it."""

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from invariance.tabular.cells import names

FORMATS = {
    "%Y-%m-%d": "year-month-day",
    "%Y/%m/%d": "year/month/day",
    "%Y.%m.%d": "year.month.day",
    "%d.%m.%y": "day.month.year",
    "%d.%m.%Y": "day.month.year",
    "%d/%m/%y": "day/month/year",
    "%d/%m/%Y": "day/month/year",
    "%m/%d/%y": "month/day/year",
    "%m/%d/%Y": "month/day/year",
    "%d-%m-%y": "day-month-year",
    "%d-%m-%Y": "day-month-year",
    "%d %B %Y": "day month year",
    "%d-%B-%y": "day-month-year",
    "%d-%B-%Y": "day-month-year",
    "%B %d, %Y": "month day, year",
    "%B %d %Y": "month day year",
    "%H:%M": "hour:minute",
}
"""The formats that are tried, the first wins a tie; all but the last may be followed by a time of day."""
ISO, TIME_ONLY = "%Y-%m-%d", "%H:%M"
MIN_SHARE = 0.9
"""The share of a column's different values that a format must fit."""
SPLIT = (
    r"^(?P<day>.*?)(?:(?:^|[T\s]+)(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:\.\d+)?)?"
    r"\s*(?P<half>[AaPp][Mm])?\s*(?:Z|UTC|[+-]\d{2}:?\d{2})?)?$"
)
"""The day, and the time of day by the clock of the place; a time zone is not used."""
YEAR_1000 = -30_610_224_000
"""In seconds since 1970. What lies before it is a year of two digits, read by the wrong format."""


def find_format(values: Collection[str]) -> str | None:
    """The format that fits most of the values, if these are nearly all; the first where several fit."""
    if not values:
        return None
    cells = pa.array(list(values), pa.string())
    shares = {format_: float(np.isfinite(seconds(cells, format_)).mean()) for format_ in FORMATS}
    best = max(shares, key=shares.__getitem__)
    return best if shares[best] >= MIN_SHARE else None


def seconds(column: pa.Array, format_: str) -> NDArray[np.float64]:
    """Seconds since 1970, or of the day if the format has no date; NaN where a cell is missing or no date, [n].

    Year-month-day is read whatever the format.
    """
    parts = pc.extract_regex(names(column), pattern=SPLIT)
    hour, minute, second = (_number(parts, name) for name in ("hour", "minute", "second"))
    half = pc.struct_field(parts, "half").fill_null("")
    pm = pc.equal(pc.utf8_lower(half), "pm").to_numpy(zero_copy_only=False)
    hour = np.where(pc.equal(half, "").to_numpy(zero_copy_only=False), hour, hour % 12 + 12 * pm)
    time = 3600 * hour + 60 * np.nan_to_num(minute) + np.nan_to_num(second)
    day = pc.struct_field(parts, "day")
    if format_ == TIME_ONLY:
        return np.where(pc.equal(day, "").fill_null(False).to_numpy(zero_copy_only=False), time, np.nan)
    formats = dict.fromkeys((format_, ISO))  # no other format reads ISO's dates, which those of Python and Parquet are
    moment = pc.coalesce(*(pc.strptime(day, format=each, unit="s", error_is_null=True) for each in formats))
    date = pc.cast(pc.cast(moment, pa.int64()), pa.float64()).to_numpy(zero_copy_only=False)
    return np.where(date >= YEAR_1000, date + np.nan_to_num(time), np.nan)


def _number(parts: pa.StructArray, name: str) -> NDArray[np.float64]:
    texts = pc.struct_field(parts, name)
    texts = pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)
    values: NDArray[np.float64] = pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False)
    return values
