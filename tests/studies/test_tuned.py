"""Values of the study come from searches that did not see its test environments, and change the second phase alone."""

from itertools import product
from operator import attrgetter

import pytest

from invariance.recipes.schedules import Clock
from invariance.studies.support.base import Results
from invariance.studies.tuned import METHODS, OTHER, SEARCHES, SOURCES, STANDING, Tuned
from invariance.tuning.rules import tuning_rule
from invariance.tuning.search import assigned

ARMS = {(a.data, a.setting, a.method): a.spec for a in Tuned().arms("ours")}


def arm(data: str, setting: str, method: str):
    """With what was found, which may be the method as it stands."""
    return ARMS.get((data, setting, method), ARMS[data, STANDING, method])


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.rule)
def test_a_rule_that_sees_test_environments_has_searched_on_the_other_data_set(source):
    assert source.other or not tuning_rule(source.rule).sees_test
    for data, other in OTHER.items():
        assert data != other
        for method in METHODS:
            best = SEARCHES["best"][source.rule][other if source.other else data][method]
            spec = arm(data, source.setting, method)
            fields = [setting.partition("=")[0] for setting in best["settings"]]
            assert assigned({field: attrgetter(field)(spec) for field in fields}) == best["settings"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.rule)
@pytest.mark.parametrize("method", METHODS)
def test_the_first_phase_is_that_of_the_method_as_it_stands(source, method):
    for data in OTHER:
        standing, found = ARMS[data, STANDING, method], arm(data, source.setting, method)
        fields = ("batch_size", "penalty_batch_size", "epochs", "warmup", "lr", "dropout", "precision")
        assert [getattr(found.recipe, field) for field in fields] == [
            getattr(standing.recipe, field) for field in fields
        ]
        before = Clock(0, 100, 50)
        assert found.recipe.rate(before) == standing.recipe.rate(before)


def test_searches_used_no_seed_that_is_reported():
    assert min(SEARCHES["seeds"]) >= 100
    for by_data in SEARCHES["best"].values():
        for best in by_data.values():
            for each in best.values():
                assert 0 < each["scored"] <= each["trials"]


def test_arms_are_the_same_run_only_where_two_searches_found_the_same():
    for data, method in product(OTHER, METHODS):
        found = {tuple(sorted(source.best(data, method)["settings"])) for source in SOURCES}
        specs = {arm(data, source.setting, method).key for source in SOURCES}
        assert len(specs) == len(found)


def test_the_table_names_what_was_found():
    results = Results(Tuned().plan("ours"), "last", {})
    table, *_ = Tuned().show(results)
    found = [a for a in results.arms if a.setting != STANDING]
    assert [note.split(" on ")[0] for note in table.notes] == [a.method for a in found]
    assert all("gamma = " in note for note in table.notes if not note.startswith("IRM-Game"))
