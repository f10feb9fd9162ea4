import math
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from invariance.tabular.dates import find_format, seconds


@pytest.mark.parametrize(
    ("values", "format_"),
    [
        (["2021-03-04", "2021-03-04T12:30:00Z", "2021-03-04 12:30:00.5+01:00"], "%Y-%m-%d"),
        (["4.3.2021", "31.12.1999"], "%d.%m.%Y"),
        (["04/03/21", "13/03/21"], "%d/%m/%y"),
        (["3/4/2021", "3/13/2021 1:05 pm"], "%m/%d/%Y"),
        (["4 March 2021", "14 Mar 2020"], "%d %B %Y"),
        (["March 4, 2021"], "%B %d, %Y"),
        (["12:30", "1:05:59 PM"], "%H:%M"),
    ],
)
def test_the_format_is_the_one_that_fits_all_values(values, format_):
    assert find_format(values) == format_


@pytest.mark.parametrize("text", ["1.5", "2021", "3-4", "north", "A12", "1/2", "192.168.0.1", "12 apples", "99:99 x"])
def test_other_things_are_no_dates(text):
    assert find_format([text]) is None


def test_a_word_among_many_dates_is_no_date():
    values = [f"2021-03-{day:02}" for day in range(1, 31)]
    assert find_format([*values, "unknown"]) == "%Y-%m-%d"
    assert find_format(["2021-03-01", "unknown"]) is None
    assert seconds(pa.array(["1970-01-02 00:01", "unknown", None]), "%Y-%m-%d").tolist() == pytest.approx(
        [86460, math.nan, math.nan], nan_ok=True
    )


@pytest.mark.parametrize("format_", ["%d.%m.%Y", "%d-%m-%y", "%B %d, %Y"])
def test_dates_of_python_and_of_iso_are_read_whatever_the_format(format_):
    day = datetime(2021, 3, 4, 12, 30, tzinfo=UTC)
    for column in (["2021-03-04 12:30"], [day], pa.array([day], pa.timestamp("ns"))):
        assert seconds(pa.array(column), format_).tolist() == [day.timestamp()]
    assert math.isnan(seconds(pa.array([day.date()]), "%H:%M")[0])
