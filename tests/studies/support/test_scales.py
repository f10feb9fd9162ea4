import pytest

from invariance.studies.rates import RATES
from invariance.studies.support.scales import AT_EVERY_SCALE, FEWER_POINTS, SCALES, differences
from invariance.studies.support.sweep import BATCHES, WIDTHS


@pytest.mark.parametrize("name", SCALES)
def test_every_scale_says_where_it_differs_from_the_paper(name):
    scale = SCALES[name]
    assert set(AT_EVERY_SCALE) <= set(scale.differs)
    assert any("bf16" in text for text in scale.differs) == any("bf16" in recipe for recipe in scale.recipes.values())


def test_what_is_true_of_some_scales_alone_comes_after_their_names():
    assert list(differences(["smoke", "full"])) == list(AT_EVERY_SCALE)
    assert list(differences(["ours"])) == list(SCALES["ours"].differs)
    *common, fewer, bf16 = differences(SCALES)
    assert tuple(common) == AT_EVERY_SCALE
    assert fewer == f"Scales quick, ours-small, debiased, ours: {FEWER_POINTS}"
    assert bf16 == f"Scales ours-small, ours: {SCALES['ours'].differs[-1]}"


@pytest.mark.parametrize("name", SCALES)
def test_a_scale_with_fewer_points_says_so(name):
    assert [len(points["medium"]) for points in (BATCHES, WIDTHS, RATES)] == [4, 3, 4]
    assert [len(points["high"]) for points in (BATCHES, WIDTHS, RATES)] == [7, 7, 5]
    assert (FEWER_POINTS in SCALES[name].differs) == (SCALES[name].detail == "medium")


def test_no_scale_is_called_the_papers_protocol():
    assert not any("the paper's protocol" in scale.about for scale in SCALES.values())
