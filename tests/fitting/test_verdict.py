"""Every sentence is true of the assessment that it is made from: over a grid of assessments, not by example."""

import itertools
import re
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest

from invariance.fitting.assess import Assessment
from invariance.fitting.by_environment import EnvironmentScore, Headline, environment_scores, mean_of
from invariance.fitting.verdict import MAX_OVERCONFIDENCE, MIN_DIFFERENCE, count, verdict

EVEN = {"Lyon": 0.8, "Bern": 0.81, "Graz": 0.79, "Gent": 0.8}
UNEVEN = {"Lyon": 0.95, "Bern": 0.94, "Graz": 0.3, "Gent": 0.4}
BETTER = {name: accuracy + 0.1 for name, accuracy in EVEN.items()}
WORSE = {name: accuracy - 0.2 for name, accuracy in EVEN.items()}
ONE_LOW = {"Lyon": 0.9, "Bern": 0.9, "Graz": 0.9, "Gent": 0.5}
FEW = {"Lyon": 0.8, "Bern": 0.7, "Graz": 0.8}
SITES = [EVEN, UNEVEN, BETTER, WORSE, ONE_LOW, FEW]
ADVERSE = [None, (0.8, 0.3), (0.3, 0.8), (0.78, 0.79), (0.1, 0.1)]
GRID = [
    (own, other, method, adverse)
    for own, other, method, adverse in itertools.product(SITES, SITES, ("IRMv1", "ERM"), ADVERSE)
    if len(own) == len(other)
]


def numbers(assessment: Assessment) -> Assessment:
    """The same assessment as one of a regression: RMSE is high where accuracy is low."""

    def turned(score: EnvironmentScore) -> EnvironmentScore:
        value = 10 * (1 - score.headline)
        return EnvironmentScore(score.name, 400, value, value - 0.4, value + 0.4, 5.0, {"rmse": value, "mae": value})

    def model(one):
        known, new = tuple(map(turned, one.known)), tuple(map(turned, one.new))
        adverse = None if one.adverse is None else 10 * (1 - one.adverse)
        return replace(one, known=known, new=new, reliability=(), importances=(), adverse=adverse)

    baseline = assessment.baseline and model(assessment.baseline)
    headline = Headline("rmse")
    return replace(assessment, model=model(assessment.model), baseline=baseline, classes=(), headline=headline)


@pytest.fixture(params=[False, True], ids=["classes", "numbers"])
def grid(request, assessment) -> list[Assessment]:
    made = [assessment(own, other, method, adverse) for own, other, method, adverse in GRID]
    made += [replace(one, baseline=None) for one in made[::7]]
    made += [replace(one, model=replace(one.model, new=()), environments=2) for one in made[::11]]
    return list(map(numbers, made)) if request.param else made


def sentences(assessment: Assessment) -> str:
    summary = verdict(assessment)
    return " ".join([summary.headline, *summary.advice])


def worst(assessment: Assessment, model) -> EnvironmentScore:
    return min(model.new, key=lambda score: assessment.headline.gain(score.headline, 0.0))


def aspects(assessment: Assessment) -> dict[str, float]:
    """How much better the model is than ERM, by the words for it."""
    model, erm, gain = assessment.model, assessment.baseline, assessment.headline.gain
    found = {}
    if model.new and erm.new:
        means = [fmean(score.headline for score in one.new) for one in (model, erm)]
        found["on average over these sites"] = gain(*means), means
        lowest = [worst(assessment, one).headline for one in (model, erm)]
        found["at its worst site"] = gain(*lowest), lowest
    if model.adverse is not None:
        found["where effects turn"] = gain(model.adverse, erm.adverse), [model.adverse, erm.adverse]
    return {
        words: difference / (1 if assessment.headline.share else max(map(abs, values)))
        for words, (difference, values) in found.items()
    }


def test_who_is_better_at_what_is_true(grid):
    judged = 0
    for assessment in grid:
        if assessment.model.title == "ERM" or not assessment.baseline:
            continue
        text, found = verdict(assessment).headline, aspects(assessment)
        clauses = re.findall(r"(IRMv1 is better|ERM is better|[Tt]he two are about equally good) ([^;.]*)", text)
        said = {place: who for who, places in clauses for place in places.split(" and ")}
        assert said.keys() == found.keys()
        for place, who in said.items():
            gain = found[place]
            expected = ("the two", "The two") if abs(gain) < MIN_DIFFERENCE else "IRMv1" if gain > 0 else "ERM"
            assert who.startswith(expected)
            judged += 1
    assert judged > 100


@pytest.mark.parametrize(
    ("method", "pair"), [("IRMv1", "IRMv1 and ERM, the ordinary model,"), ("ERM", "ERM and IRMv1")]
)
def test_models_that_predict_the_same_are_not_compared(assessment, method, pair):
    made = assessment(EVEN, EVEN, method)
    sentence = f"{pair} predict the same for all rows here: all their scores are equal."
    assert sentence in verdict(replace(made, same=True)).headline
    assert "equally good" not in verdict(replace(made, same=True)).headline
    assert "predict the same" not in verdict(made).headline


def test_a_range_is_given_only_where_the_adverse_site_lies_in_it(grid):
    ranges = 0
    for assessment in grid:
        text, model = verdict(assessment).headline, assessment.model
        at = assessment.forecast(model)
        if at is None:
            assert "too few to estimate" in text
            assert "95 % range" not in text
            continue
        assert "if it differs from these sites as they differ from each other" in text
        end = at.low if assessment.headline.metric.higher else at.high
        inside = model.adverse is None or assessment.headline.gain(model.adverse, end) >= 0
        show = assessment.headline.show
        assert (f"95 % range: {show(at.low)} to {show(at.high)}" in text) == inside
        assert ("No range can be given" in text) == (not inside)
        assert f"of {show(at.mean)} at a new site" in text
        ranges += inside
    assert 10 < ranges < len(grid)


def test_an_adverse_site_that_is_no_worse_is_said_to_be_no_worse(grid):
    no_worse = 0
    for assessment in grid:
        text, model, show = verdict(assessment).headline, assessment.model, assessment.headline.show
        at = assessment.forecast(model)
        if model.adverse is None:
            continue
        fine = at and (assessment.headline.gain(model.adverse, at.mean) >= 0 or show(model.adverse) == show(at.mean))
        assert f"against the model, it would be {'no worse, ' if fine else ''}about {show(model.adverse)}." in text
        no_worse += bool(fine)
    assert no_worse > 10


def test_the_worst_site_is_the_worst_and_its_sentence_is_true(grid):
    for assessment in grid:
        text, model, headline = sentences(assessment), assessment.model, assessment.headline
        if not model.new:
            assert "worst site is" not in text
            continue
        low = worst(assessment, model)
        assert f"{model.title}'s worst site is {low.name}: " in text
        drop = headline.gain(mean_of(model.known), low.headline)
        assert ("no worse than its mean" in text) == (drop <= 0)
        constant = headline.gain(low.headline, low.constant) <= 0
        assert ("no better than always predicting the same" in text) == constant


def test_erm_is_recommended_only_where_it_is_as_good_and_nothing_varies(grid):
    recommended = 0
    for assessment in grid:
        if "Then ERM is the better choice" not in sentences(assessment):
            continue
        recommended += 1
        assert assessment.varying is None
        erm = assessment.erm
        values = [score.headline for score in erm.new]
        noise = max(score.high - score.low for score in erm.new)
        scale = 1 if assessment.headline.share else abs(fmean(values))
        by_noise = "by less than the widest 95 % interval of a site" in sentences(assessment)
        assert max(values) - min(values) < (noise if by_noise else MIN_DIFFERENCE * scale)
        for other in assessment.both:
            if other is not erm and other.new:
                means = fmean(values), fmean(score.headline for score in other.new)
                assert assessment.headline.gain(*means) > -MIN_DIFFERENCE * scale
    assert recommended


def test_a_column_that_the_model_leaves_out_need_not_be_left_out_again(assessment):
    made = assessment({"a": 0.7, "b": 0.7}, {"a": 0.9, "b": 0.6}, method="Subset ERM", adverse=(0.7, 0.3))
    used, unused = sentences(made), sentences(replace(made, left_out=("tint",)))
    assert "leave its column out with --ignore" in used
    assert "leave its column out with --ignore" not in unused
    assert "This model does not use it." in unused
    assert "This model does not use it." not in used


def test_warnings_are_there_where_they_are_true_and_nowhere_else(grid):
    for assessment in grid:
        text, model = sentences(assessment), assessment.model
        assert ("may mistake a coincidence for a law" in text) == (assessment.environments < 4)
        assert ("on the label differs between sites" in text) == (assessment.varying == ("tint",))
        at, share = assessment.forecast(model), assessment.headline.share
        wide = bool(at) and at.high - at.low > 0.3 * (1 if share else abs(at.mean)) and assessment.supported(model)
        assert ("may lie anywhere between" in text) == wide
        scores = [s for s in model.new or model.known if "confidence" in s.values]
        surplus = max((s.values["confidence"] - s.values["accuracy"] for s in scores), default=0)
        assert ("overconfident" in text) == (surplus > MAX_OVERCONFIDENCE)
        assert ("No invariant method is clearly better" in text) == (model.title == "ERM" and bool(assessment.reason))


def calibrated(rows: dict[str, int], surplus: dict[str, float], seed: int) -> tuple[EnvironmentScore, ...]:
    """Scores of a model whose probabilities hold at all sites, but for what they exceed accuracy by at some."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(len(rows)), list(rows.values()))
    confidence = rng.uniform(0.5, 1, len(codes))
    too_high = np.array([surplus.get(name, 0.0) for name in rows])[codes]
    y = (rng.random(len(codes)) < confidence - too_high).astype(np.int64)
    return environment_scores(np.column_stack([1 - confidence, confidence]), y, codes, list(rows), Headline())


@pytest.mark.parametrize("seed", range(5))
def test_many_small_sites_are_no_sign_of_overconfidence(assessment, seed):
    sites = {f"site {i}": 10 for i in range(200)}
    scores = calibrated(sites, {}, seed)
    assert max(s.values["confidence"] - s.values["accuracy"] for s in scores) > 4 * MAX_OVERCONFIDENCE
    made = assessment(EVEN, EVEN)
    assert "overconfident" not in sentences(replace(made, model=replace(made.model, new=scores)))


@pytest.mark.parametrize(
    ("rows", "surplus", "where"),
    [(100, {"site 7": 0.4}, "at site 7"), (10, {f"site {i}": 0.15 for i in range(200)}, "over all these sites")],
)
def test_overconfidence_is_found_among_many_sites(assessment, rows, surplus, where):
    sites = {f"site {i}": rows if i == 7 else 10 for i in range(200)}
    made = assessment(EVEN, EVEN)
    text = sentences(replace(made, model=replace(made.model, new=calibrated(sites, surplus, 0))))
    assert f"The model is overconfident: {where} its mean confidence is" in text
    assert "a binomial test at the 5 % level, corrected for the number of sites" in text


@pytest.mark.parametrize(("p", "words"), [(None, ""), (2e-5, "p < 0.001"), (0.0312, "p = 0.031")])
def test_a_column_whose_effect_differs_is_named_with_the_test_that_says_so(assessment, p, words):
    made = assessment(EVEN, UNEVEN, adverse=(0.8, 0.3), p_value=p)
    found = "The effect of tint on the label differs between sites, by a test at the 5 % level"
    number = f" ({words}, corrected for the number of columns)" if words else ""
    assert f"{found}{number}. " in sentences(made)
    assert "chance" not in sentences(made)


def test_what_erm_relies_on_is_named_with_the_site_where_it_misleads(assessment):
    text = sentences(assessment(EVEN, UNEVEN))
    assert "ERM relies on tint: when it is shuffled, 40 % of ERM's predictions change, and 2 % of this model's." in text
    assert "It helps ERM at Lyon and misleads it at Graz." in text


def test_a_headline_reads_as_english(assessment):
    assert verdict(assessment(EVEN, UNEVEN, adverse=(0.79, 0.2))).headline == (
        "Expect an accuracy of 80 % at a new site, an environment that is not in the training data, if it differs from "
        "these sites as they differ from each other (95 % range: 77 % to 83 %). Where the effect of tint turns against "
        "the model, it would be about 79 %. For ERM, the ordinary model, expect 65 %. At its worst site, IRMv1 has "
        "79 % (Graz), ERM 30 % (Graz). Where effects turn, ERM trained on all sites would have 20 %. IRMv1 is better "
        "on average over these sites and at its worst site and where effects turn."
    )


def test_sentences_begin_with_a_capital_letter(grid):
    for assessment in grid:
        assert not re.findall(r"[.?!] [a-z]", sentences(assessment))


def test_numbers_have_the_right_noun():
    assert [count(n, "site") for n in (1, 2, 3, 1234)] == ["one site", "two sites", "three sites", "1,234 sites"]


def test_a_share_is_never_rounded_to_all():
    shown = [Headline().show(share) for share in (0, 0.123, 0.994, 0.9991, 1)]
    assert shown == ["0 %", "12 %", "99 %", "99.9 %", "100 %"]
