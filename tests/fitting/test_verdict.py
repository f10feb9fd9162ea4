from dataclasses import replace

from invariance.fitting.verdict import percent, verdict

EVEN = {"Lyon": 0.8, "Bern": 0.81, "Graz": 0.79, "Gent": 0.8}
UNEVEN = {"Lyon": 0.95, "Bern": 0.94, "Graz": 0.3, "Gent": 0.4}


def text_of(assessment) -> str:
    summary = verdict(assessment)
    return " ".join([summary.headline, *summary.advice])


def test_an_invariant_model_that_helps_says_how_much(assessment):
    headline = verdict(assessment(EVEN, UNEVEN)).headline
    assert headline.startswith("Expect an accuracy of 80 % at a new site")
    assert "(95 % range: 77 % to 83 %). For ERM, the ordinary model, expect 65 %." in headline
    assert "At its worst site, IRMv1 has an accuracy of 79 % (Graz), ERM of 30 % (Graz)." in headline


def test_what_erm_relies_on_is_named_with_the_site_where_it_misleads(assessment):
    text = text_of(assessment(EVEN, UNEVEN))
    assert "ERM relies on tint: when it is shuffled, 40 % of ERM's predictions change, and 2 % of this model's." in text
    assert "It helps ERM at Lyon and misleads it at Graz: ask whether" in text


def test_erm_says_that_no_invariant_method_is_better_if_some_were_compared(assessment):
    erm = assessment(EVEN, EVEN, "ERM")
    assert verdict(erm).headline.startswith("No invariant method is clearly better here, so this is ERM")
    assert verdict(replace(erm, reason="")).headline.startswith("This is ERM, the ordinary model.")


def test_a_model_that_is_as_good_as_erm_is_not_praised(assessment):
    assert verdict(assessment(EVEN, EVEN)).headline.endswith("The two are about equally good.")


def test_a_model_that_is_worse_than_erm_says_so(assessment):
    better = {name: accuracy + 0.1 for name, accuracy in EVEN.items()}
    assert verdict(assessment(EVEN, better)).headline.endswith("ERM is better here.")


def test_as_good_on_average_and_better_at_the_worst_site_is_said(assessment):
    erm = {"Lyon": 0.9, "Bern": 0.9, "Graz": 0.9, "Gent": 0.5}
    headline = verdict(assessment(EVEN, erm)).headline
    assert "For ERM, the ordinary model, expect 80 %." in headline
    assert headline.endswith("IRMv1 has an accuracy of 79 % (Graz), ERM of 50 % (Gent).")


def test_where_erm_does_well_everywhere_it_is_recommended(assessment):
    assert "no sign of a cue that changes between sites and misleads" in text_of(assessment(EVEN, EVEN))
    assert "no sign of a cue" not in text_of(assessment(EVEN, UNEVEN))
    assert "no sign of a cue" not in text_of(
        assessment(EVEN, {name: accuracy - 0.2 for name, accuracy in EVEN.items()})
    )


def test_few_environments_are_a_warning(assessment):
    few = {"Lyon": 0.8, "Bern": 0.8, "Graz": 0.8}
    assert "may mistake a coincidence for a law" in text_of(assessment(few, few))
    assert "coincidence" not in text_of(assessment(EVEN, EVEN))


def test_sites_that_differ_much_are_a_warning(assessment):
    assert "may lie anywhere between" in text_of(assessment(UNEVEN, EVEN))
    assert "may lie anywhere between" not in text_of(assessment(EVEN, UNEVEN))


def test_a_model_no_better_than_a_constant_is_mentioned(assessment):
    assert "no better than always predicting the most frequent class (50 %)" in text_of(assessment(UNEVEN, EVEN))


def test_overconfidence_is_a_warning(assessment):
    assert "The model is overconfident: at Graz its mean confidence is 80 %" in text_of(assessment(UNEVEN, EVEN))
    assert "overconfident" not in text_of(assessment(EVEN, EVEN))


def test_without_left_out_sites_there_is_no_forecast(assessment):
    two = assessment({"Lyon": 0.8, "Bern": 0.8}, EVEN)
    without = replace(two, model=replace(two.model, new=()), baseline=None)
    assert "too few to estimate its accuracy" in verdict(without).headline


def test_a_share_is_never_rounded_to_all():
    assert [percent(share) for share in (0, 0.123, 0.994, 0.9991, 1)] == ["0 %", "12 %", "99 %", "99.9 %", "100 %"]
