from dataclasses import replace

from invariance.fitting.verdict import percent, verdict

EVEN = {"Lyon": 0.8, "Bern": 0.81, "Graz": 0.79, "Gent": 0.8}
UNEVEN = {"Lyon": 0.95, "Bern": 0.94, "Graz": 0.3, "Gent": 0.4}


def said(found) -> str:
    whole = verdict(found)
    return " ".join([whole.headline, *whole.advice])


def test_an_invariant_model_that_helps_says_how_much(assessment):
    headline = verdict(assessment(EVEN, UNEVEN)).headline
    assert headline.startswith("Expect an accuracy of 80 % at a new site (77 % to 83 %).")
    assert "ERM, the ordinary model, would have an accuracy of 65 % there, and of 30 % at its worst site" in headline


def test_what_erm_leans_on_is_named_with_the_site_where_it_misleads(assessment):
    text = said(assessment(EVEN, UNEVEN))
    assert "ERM leans on tint: 40 % of its predictions depend on it, and 2 % of this model's." in text
    assert "It helps ERM at Lyon and misleads it at Graz: ask why" in text


def test_erm_says_that_nothing_is_gained(assessment):
    assert "Nothing is gained by an invariant method here" in verdict(assessment(EVEN, EVEN, "ERM")).headline


def test_a_model_that_is_as_good_as_erm_is_not_praised(assessment):
    assert "about as good as ERM" in verdict(assessment(EVEN, EVEN)).headline


def test_as_good_on_average_and_better_at_the_worst_site_is_said(assessment):
    erm = {"Lyon": 0.9, "Bern": 0.9, "Graz": 0.9, "Gent": 0.5}
    headline = verdict(assessment(EVEN, erm)).headline
    assert "its accuracy at Gent is 50 %, while that of IRMv1 is nowhere below 79 %" in headline


def test_where_erm_does_well_everywhere_it_is_recommended(assessment):
    assert "no sign of a cue that changes between sites" in said(assessment(EVEN, EVEN))
    assert "no sign of a cue" not in said(assessment(EVEN, UNEVEN))
    assert "no sign of a cue" not in said(assessment(EVEN, {name: accuracy - 0.2 for name, accuracy in EVEN.items()}))


def test_few_environments_are_a_warning(assessment):
    few = {"Lyon": 0.8, "Bern": 0.8, "Graz": 0.8}
    assert "may take a coincidence for a law" in said(assessment(few, few))
    assert "coincidence" not in said(assessment(EVEN, EVEN))


def test_sites_that_differ_much_are_a_warning(assessment):
    assert "may lie anywhere between" in said(assessment(UNEVEN, EVEN))
    assert "may lie anywhere between" not in said(assessment(EVEN, UNEVEN))


def test_a_model_no_better_than_a_constant_is_told(assessment):
    assert "no better than always predicting the most frequent class (50 %)" in said(assessment(UNEVEN, EVEN))


def test_promises_that_are_not_kept_are_told(assessment):
    assert "It is overconfident: at Graz its mean confidence is 80 %" in said(assessment(UNEVEN, EVEN))
    assert "overconfident" not in said(assessment(EVEN, EVEN))


def test_without_left_out_sites_nothing_is_promised(assessment):
    two = assessment({"Lyon": 0.8, "Bern": 0.8}, EVEN)
    found = replace(two, model=replace(two.model, new=()), baseline=None)
    assert "cannot be estimated from so few" in verdict(found).headline


def test_a_share_is_never_rounded_to_all():
    assert [percent(share) for share in (0, 0.123, 0.994, 0.9991, 1)] == ["0 %", "12 %", "99 %", "99.9 %", "100 %"]
