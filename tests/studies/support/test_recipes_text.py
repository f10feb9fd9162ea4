import pytest

from invariance.experiments.spec import Spec
from invariance.studies.support.recipes_text import methods_text, recipes_text


def test_changed_fields_are_named_in_three_digits():
    changes = {"recipe": {"epochs": 22, "warmup": 6 / 22}}
    specs = [Spec.of("colored-mnist", "irmv1", "two-phase", 0, changed) for changed in ({}, changes)]
    assert recipes_text(specs) == ["recipe two-phase (epochs 22; warmup 0.273)"]


def test_no_run_has_no_recipe():
    assert recipes_text([]) == []


def test_changed_fields_of_methods_are_named_with_the_method():
    changes = ({}, {"method": {"gamma": 4e3}}, {"method": {"gamma": 0.25}})
    specs = [Spec.of("colored-mnist", "rex", "two-phase", 0, changed) for changed in changes]
    assert methods_text(specs) == ["changed in methods: REx (gamma 0.25, 4000)"]
    assert recipes_text(specs) == ["recipe two-phase"]


@pytest.mark.parametrize("data", ["colored-mnist", "pacs"])  # on PACS penalties have another weight than elsewhere
def test_methods_as_their_recipe_and_data_have_them_are_not_named(data):
    assert methods_text([Spec.of(data, method, "two-phase") for method in ("erm", "irmv1", "fishr")]) == []
