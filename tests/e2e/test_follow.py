"""Times as people say them."""

import pytest

from invariance.cli.follow import DAY, MONTH, span


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.4, "0 s"),
        (89, "89 s"),
        (120, "2.0 min"),
        (7 * 3600, "7.0 h"),
        (2.8 * DAY, "2.8 days"),
        (17 * DAY, "17 days"),
        (60 * DAY, "60 days"),
        (2 * MONTH, "2 months"),
        (122 * DAY, "4 months"),
    ],
)
def test_a_time_is_said_in_the_unit_people_use(seconds, said):
    assert span(seconds) == said
