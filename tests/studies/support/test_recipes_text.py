from invariance.experiments.spec import Spec
from invariance.studies.support.recipes_text import recipes_text


def test_changed_fields_are_named_in_three_digits():
    changes = {"recipe": {"epochs": 22, "warmup": 6 / 22}}
    specs = [Spec.of("colored-mnist", "irmv1", "two-phase", 0, changed) for changed in ({}, changes)]
    assert recipes_text(specs) == ["recipe two-phase (epochs 22; warmup 0.273)"]


def test_no_run_has_no_recipe():
    assert recipes_text([]) == []
