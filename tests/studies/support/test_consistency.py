import pytest

from invariance.core.artefacts import Printed
from invariance.studies.support.consistency import column_means, disagreements, meaning, pairs, repeats
from invariance.studies.support.printed import Place


def place(study, setting, method="ERM", metric="average", data="Colored-MNIST"):
    return Place(study, data, setting, method, metric)


def test_references_are_trained_like_everything_else():
    assert meaning(place("table-4", "reference")) == meaning(place("table-a1", "small batch"))


@pytest.mark.parametrize("setting", ["β 0.1, 0.15", "colour imbalance"])
def test_only_grayscale_is_blind_to_colours(setting):
    standard, changed = place("table-4", "reference", "GrayScale"), place("table-a2", setting, "GrayScale")
    assert meaning(standard) == meaning(changed)
    assert meaning(standard._replace(method="ERM")) != meaning(changed._replace(method="ERM"))


def test_grayscale_sees_classes():
    assert meaning(place("table-a4", "class imbalance", "GrayScale")).training == "class imbalance"


def test_a_pair_that_is_printed_twice_is_listed_once():
    numbers = {
        place(study, setting, metric=metric): Printed(value)
        for study, setting in (("table-4", "reference"), ("table-a1", "small batch"))
        for metric, value in (("average", 50), ("gap", 90))
    }
    (pair,) = pairs(numbers, ("Colored-MNIST",))
    assert pair == ("ERM · Colored-MNIST · small batch", Printed(50), Printed(90), "table-4, table-a1")
    assert pairs(numbers, ("CelebA",)) == []


def test_lines_without_a_predictor_have_no_pair():
    numbers = {place("table-a2", "x", "Optimum", metric): Printed(75) for metric in ("average", "gap")}
    assert pairs(numbers, ("Colored-MNIST",)) == []


def test_values_of_one_experiment_must_agree_to_the_digit():
    numbers = {place("table-3", "large batch"): Printed(67.88), place("table-4", "large batch"): Printed(67.49, 0.39)}
    (found,) = disagreements(numbers)
    assert found.difference == pytest.approx(0.39)
    assert found.errors is None
    assert found.values == "67.88 (table-3), 67.49 ± 0.39 (table-4)"
    assert found.reason == "one experiment"
    same = dict.fromkeys(numbers, Printed(67.88))
    assert not list(disagreements(same))


@pytest.mark.parametrize(("value", "listed"), [(73.4, True), (73.15, False)])
def test_values_of_one_law_must_agree_up_to_the_noise_of_trials(value, listed):
    numbers = {
        place("table-4", "reference", "GrayScale"): Printed(73.0, 0.1),
        place("table-a2", "β 0.1, 0.15", "GrayScale"): Printed(value, 0.2),
    }
    found = list(disagreements(numbers))
    assert bool(found) == listed
    if listed:
        assert found[0].errors == pytest.approx(0.4 / (0.05 / 10) ** 0.5)


def test_different_quantities_with_the_same_digits_are_found():
    numbers = {
        place("table-4", "large batch", "BIRM", "gap"): Printed(3.81, 0.11),
        place("table-4", "large batch", "BIRM", "gap", "Colored-FMNIST"): Printed(3.81, 0.11),
        place("table-4", "small batch", "BIRM", "gap"): Printed(3.81, 0.12),
        place("table-4", "large batch", "REx", "gap"): Printed(3.81, 0.11),
    }
    (found,) = repeats(numbers)
    assert (found.method, found.metric, found.number) == ("BIRM", "gap", Printed(3.81, 0.11))
    assert found.places == "table-4: Colored-MNIST, large batch; Colored-FMNIST, large batch"


def test_numbers_without_a_deviation_repeat_by_chance():
    numbers = {place("table-3", s): Printed(67.0) for s in ("large batch", "small batch")}
    assert repeats(numbers) == []


@pytest.mark.parametrize(("average", "follows"), [(61.0, True), (61.01, True), (61.02, False)])
def test_an_average_over_methods_must_follow_from_its_lines(average, follows):
    numbers = {
        place("table-3", "large batch", m): Printed(v) for m, v in (("ERM", 60), ("REx", 62), ("Average", average))
    }
    (mean,) = column_means(numbers)
    assert mean.recomputed == pytest.approx(61)
    assert mean.follows == follows
