import math

import pytest

from invariance.core.artefacts import Printed, Quantity
from invariance.core.text import clean
from invariance.report.render.formats import difference, fixed, mean, plain, printed, same_decimals


def test_a_quantity_is_its_mean_and_deviation():
    assert mean(Quantity((68.0, 68.6))) == "68.3 ± 0.3"


def test_a_single_seed_has_no_deviation():
    assert mean(Quantity((68.04,))) == "68.0"


def test_nothing_measured_is_a_dash():
    assert mean(Quantity()) == "–"
    assert difference(Quantity((), Printed(1.0))) == ""
    assert difference(Quantity((1.0,))) == ""
    assert printed(None) == ""


def test_a_printed_number_has_its_two_decimals():
    assert printed(Printed(68.3, 0.3)) == "68.30 ± 0.30"
    assert printed(Printed(68.3)) == "68.30"


def test_a_difference_has_a_sign_as_wide_as_a_digit():
    assert difference(Quantity((68.0,), Printed(69.5))) == "−1.5"
    assert difference(Quantity((70.0,), Printed(69.5))) == "+0.5"


def test_a_small_quantity_does_not_vanish():
    assert mean(Quantity((0.0034, 0.0036))) == "0.0035 ± 0.0001"
    assert mean(Quantity((0.0,))) == "0.0"


@pytest.mark.parametrize(("value", "text"), [(math.nan, "–"), (math.inf, "∞"), (-math.inf, "−∞"), (-2.0, "−2.0")])
def test_numbers_that_are_none(value, text):
    assert fixed(value) == text


def test_plain_numbers_have_four_digits():
    assert [plain(v) for v in (0.000123456, -1234.5678, 1.5e12)] == ["0.0001235", "−1235", "1.5e+12"]


def test_whole_numbers_are_written_in_full():
    assert [plain(v) for v in (3.0, 50_000, -1_234_567.0)] == ["3", "50000", "−1234567"]


def test_numbers_of_one_column_have_the_same_decimals():
    assert same_decimals([1.0, 2.345, math.nan]) == ["1.00", "2.35", "–"]
    assert same_decimals([99.5, 7.125]) == ["99.5", "7.1"]


def test_counts_stay_counts():
    assert same_decimals([1, 250, 0]) == ["1", "250", "0"]


def test_numbers_of_very_different_size_are_each_written_in_full():
    assert same_decimals([100.5, 0.001]) == ["100.5", "0.001"]


def test_control_characters_are_removed():
    assert clean("a\x1b[31m\x07b\r\nc\u2028d\u202ee\u200bf") == "a [31m b c def"
    assert clean("Zoë 中文 β") == "Zoë 中文 β"
