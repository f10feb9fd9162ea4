import pytest

from invariance.core.errors import BadValue
from invariance.methods import METHODS
from invariance.recipes.search import IntRange, LogRange, OneOf, Range, parse_search, reaching

RANGES = [LogRange(1e-4, 1e-2), Range(0.0, 0.8), IntRange(4, 32), OneOf(("squared", "split", None, True, 4096, 0.5))]


@pytest.mark.parametrize("each", RANGES, ids=str)
def test_a_range_is_read_as_it_is_printed(each):
    assert parse_search([f"recipe.field={each}"]) == {"recipe.field": each}


@pytest.mark.parametrize("cls", METHODS.classes.values(), ids=METHODS.classes)
def test_the_search_space_of_every_method_can_be_typed(cls):
    assert cls.search
    assert parse_search([f"{name}={each}" for name, each in cls.search.items()]) == cls.search


@pytest.mark.parametrize(
    ("each", "inside", "outside"),
    [
        (LogRange(1e-4, 1e-2), [1e-4, 1e-3, 1e-2], [1e-5, None, "log"]),
        (IntRange(4, 8), [4, 8], [3, 9]),
        (OneOf(("split", None)), ["split", None], ["squared", 0]),
    ],
    ids=str,
)
def test_a_range_knows_what_lies_in_it(each, inside, outside):
    assert all(value in each for value in inside)
    assert not any(value in each for value in outside)


@pytest.mark.parametrize(
    ("each", "value", "widened"),
    [
        (LogRange(10.0, 1e6), 0.1, LogRange(0.01, 1e6)),
        (LogRange(1e-4, 1e-2), 0.1, LogRange(1e-4, 1.0)),
        (LogRange(1e-4, 1e-2), 1e-2, LogRange(1e-4, 1e-2)),
        (LogRange(1e-4, 1e-2), 0.0, LogRange(1e-4, 1e-2)),  # without a logarithm
        (Range(0.1, 0.8), 0.0, Range(0.0, 0.8)),
        (IntRange(8, 32), 66, IntRange(8, 66)),
        (OneOf((1, 5)), 3, OneOf((1, 5, 3))),
    ],
    ids=str,
)
def test_a_range_is_widened_where_it_does_not_hold_a_value(each, value, widened):
    assert reaching(each, value) == widened


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("recipe.lr", "cannot read 'recipe.lr'; write SECTION.FIELD= and log:LOW:HIGH"),
        ("recipe.lr=lag:1:2", "cannot read 'recipe.lr=lag:1:2'"),
        ("recipe.lr=log:1", "cannot read 'recipe.lr=log:1'"),
        ("recipe.lr=log:0:1", "range 'recipe.lr=log:0:1': low = 0 cannot be used"),
        ("recipe.lr=uniform:2:1", "the first end must be lower than the second"),
        ("recipe.epochs=int:1:2.5", "high = 2.5 cannot be used"),
    ],
)
def test_a_range_that_cannot_be_read_is_refused_in_one_line(setting, said):
    with pytest.raises(BadValue) as caught:
        parse_search([setting])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
