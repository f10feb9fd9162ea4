import pytest

from invariance.studies.support.scales import AT_EVERY_SCALE, SCALES, differences


@pytest.mark.parametrize("name", SCALES)
def test_every_scale_says_where_it_differs_from_the_paper(name):
    scale = SCALES[name]
    assert set(AT_EVERY_SCALE) <= set(scale.differs)
    assert any("bf16" in text for text in scale.differs) == any("bf16" in recipe for recipe in scale.recipes.values())


def test_what_is_true_of_some_scales_alone_comes_after_their_names():
    assert list(differences(["quick", "full"])) == list(AT_EVERY_SCALE)
    assert list(differences(["ours"])) == list(SCALES["ours"].differs)
    *common, bf16 = differences(SCALES)
    assert tuple(common) == AT_EVERY_SCALE
    assert bf16 == f"Scales ours-small, ours: {SCALES['ours'].differs[-1]}"


def test_no_scale_is_called_the_papers_protocol():
    assert not any("the paper's protocol" in scale.about for scale in SCALES.values())
