"""An assessment in plain words: what to expect, what to do, and when an invariant model is not the answer.

Every sentence is true of the assessment that it is made from, whatever that is; a test goes through a grid of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from scipy.stats import binom

from invariance.fitting.assess import AssessedModel, Assessment
from invariance.fitting.by_environment import Headline, mean_of, worst_of
from invariance.fitting.importance import PermutationImportance, largest_differences

NEW_SITE = "at a new site, an environment that is not in the training data"
"""In the headline, which is where a reader learns what a site is."""
LIKE_THESE = "if it differs from these sites as they differ from each other"
"""What a forecast assumes."""
MIN_ENVIRONMENTS = 4
"""With fewer environments, there is a warning."""
MAX_WIDTH = 0.3
"""A forecast of a share that is wider has a warning; of other metrics, one that is wider than this part of the mean."""
MIN_DIFFERENCE = 0.02
"""The smallest difference that is mentioned: of a share, or as a part of another metric."""
MAX_DROP = 0.15
"""A larger drop in ERM's headline from known to new sites, in the same unit, is more than overfitting."""
MAX_OVERCONFIDENCE = 0.05
"""The largest difference between confidence and accuracy without a warning."""
LEVEL = 0.05
CALIBRATION_TEST = f"a binomial test at the {100 * LEVEL:.0f} % level, corrected for the number of sites"
"""That as many predictions are correct as confidence says: one-sided and exact, p-values times the number of tests."""
MIN_IMPORTANCE = 0.03
"""The smallest difference in permutation importance that is mentioned."""
TEST = "a test at the 5 % level"
"""That no effect of a column varies between sites (`estimators/adverse.py`)."""
MAX_COLUMNS = 3
"""The largest number of columns that the advice names."""


@dataclass(frozen=True)
class Verdict:
    """One paragraph that sums up the assessment, and advice, the most important first."""

    headline: str
    advice: tuple[str, ...]


def verdict(assessment: Assessment) -> Verdict:
    """What a practitioner should read first."""
    advice = [
        *_environments(assessment),
        *_varying(assessment),
        *_worst(assessment),
        *_erm_suffices(assessment),
        *_columns(assessment),
        *_overconfidence(assessment),
    ]
    return Verdict(" ".join(_headline(assessment)), tuple(advice))


def _headline(assessment: Assessment) -> Iterator[str]:
    model, baseline = assessment.model, assessment.baseline
    if model.title == "ERM":
        chosen = "No invariant method is clearly better here, so this" if assessment.reason else "This"
        yield f"{chosen} is ERM, the ordinary model."
    yield from _expected(assessment)
    if baseline and assessment.same:
        other = "ERM, the ordinary model," if baseline.title == "ERM" else baseline.title
        yield f"{model.title} and {other} predict the same for all {assessment.unit} here: all their scores are equal."
    elif model.title != "ERM" and baseline:
        yield from _beside_erm(assessment, baseline)


def _expected(assessment: Assessment) -> Iterator[str]:
    """The forecast with its assumption, or why there is none."""
    model, headline = assessment.model, assessment.headline
    at, metric = assessment.forecast(model), headline.metric.title
    adverse = ""
    if model.adverse is not None:
        shown = headline.show(model.adverse)
        no_worse = at and (headline.gain(model.adverse, at.mean) >= 0 or shown == headline.show(at.mean))
        adverse = f"it would be {'no worse, ' if no_worse else ''}about {shown}"
    effects = _effects(assessment)
    if not at:
        yield (
            f"{model.title} was trained on {count(assessment.environments, 'environment')}. That is too few to "
            f"estimate its {metric} {NEW_SITE}."
        )
        if adverse:
            yield f"Where {effects} against the model, {adverse}."
    elif assessment.supported(model):
        range_ = f"95 % range: {headline.show(at.low)} to {headline.show(at.high)}"
        yield f"Expect {_a(metric)} of {headline.show(at.mean)} {NEW_SITE}, {LIKE_THESE} ({range_})."
        if adverse:
            yield f"Where {effects} against the model, {adverse}."
    else:
        yield (
            f"Expect {_a(metric)} of {headline.show(at.mean)} {NEW_SITE}, {LIKE_THESE}. No range can be given beyond "
            f"that: where {effects} against the model, {adverse}."
        )


def _effects(assessment: Assessment) -> str:
    names = assessment.varying or ()
    if not names:
        return "the effects that vary between sites turn"
    listed = ", ".join(names[:MAX_COLUMNS]) + (
        f" and {len(names) - MAX_COLUMNS} more" if len(names) > MAX_COLUMNS else ""
    )
    return f"the effect of {listed} turns" if len(names) == 1 else f"the effects of {listed} turn"


def _beside_erm(assessment: Assessment, erm: AssessedModel) -> Iterator[str]:
    """The same numbers of ERM, and where each of the two is better."""
    headline, model = assessment.headline, assessment.model
    aspects = []
    if (at := assessment.forecast(model)) and (beside := assessment.forecast(erm)):
        low, other = worst_of(model.new, headline), worst_of(erm.new, headline)
        yield (
            f"For ERM, the ordinary model, expect {headline.show(beside.mean)}. At its worst site, {model.title} has "
            f"{headline.show(low.headline)} ({low.name}), ERM {headline.show(other.headline)} ({other.name})."
        )
        aspects += [("on average over these sites", at.mean, beside.mean)]
        aspects += [("at its worst site", low.headline, other.headline)]
    if model.adverse is not None and erm.adverse is not None:
        yield f"Where effects turn, ERM trained on all sites would have {headline.show(erm.adverse)}."
        aspects.append(("where effects turn", model.adverse, erm.adverse))
    if aspects:
        judged = "; ".join(_judged(headline, model.title, aspects))
        yield f"{judged[:1].upper()}{judged[1:]}."


def _judged(headline: Headline, title: str, aspects: list[tuple[str, float, float]]) -> Iterator[str]:
    """Who is better at what."""
    sides: dict[str, list[str]] = {title: [], "ERM": [], "": []}
    for where, own, other in aspects:
        gain = headline.gain(own, other)
        small = MIN_DIFFERENCE * (1 if headline.share else max(abs(own), abs(other)))
        sides["" if abs(gain) < small else title if gain > 0 else "ERM"].append(where)
    for side, places in sides.items():
        if places:
            yield f"{f'{side} is better' if side else 'the two are about equally good'} {' and '.join(places)}"


def _environments(assessment: Assessment) -> Iterator[str]:
    """Few environments, or a wide forecast."""
    headline = assessment.headline
    if assessment.environments < MIN_ENVIRONMENTS:
        yield (
            f"{count(assessment.environments, 'environment').capitalize()} cannot show much about what changes between "
            "environments: an invariant method may mistake a coincidence for a law. Add environments before you trust "
            f"it. More {assessment.unit} from the same {'one' if assessment.environments == 1 else 'ones'} do not help."
        )
    at = assessment.forecast(assessment.model)
    if at and assessment.supported(assessment.model):
        if at.high - at.low > MAX_WIDTH * (1 if headline.share else abs(at.mean)):
            range_ = f"{headline.show(at.low)} and {headline.show(at.high)}"
            yield (
                f"Sites are too few or differ too much for a precise estimate: the {headline.metric.title} at a new "
                f"one may lie anywhere between {range_}. {_try_first(assessment)}"
            )
    elif assessment.varying is not None:
        yield f"What holds at these sites need not hold at the next. {_try_first(assessment)}"


def _try_first(assessment: Assessment) -> str:
    return (
        f"Before you use the model at a new site, test it on some labelled {assessment.unit} from there, with "
        "invariance evaluate."
    )


def _varying(assessment: Assessment) -> Iterator[str]:
    names = assessment.varying
    if not names:
        return
    one = len(names) == 1
    it, means = ("it", "it means") if one else ("them", "they mean")
    found = (
        f"The {'effect' if one else 'effects'} of {', '.join(names)} on the label {'differs' if one else 'differ'} "
        f"between sites, by {TEST}{_p_value(assessment)}."
    )
    if set(names) <= set(assessment.left_out):
        yield f"{found} This model does not use {it}. If you know that {means} the same everywhere, use --method erm."
    else:
        columns = "its column" if one else "their columns"
        yield f"{found} Ask whether {means} the same everywhere; if not, leave {columns} out with --ignore."


def _p_value(assessment: Assessment) -> str:
    p = assessment.p_value
    if p is None:
        return ""
    return f" (p {'< 0.001' if p < 0.001 else f'= {p:.2g}'}, corrected for the number of columns)"


def _worst(assessment: Assessment) -> Iterator[str]:
    model, headline = assessment.model, assessment.headline
    if not model.new:
        return
    low, mean = worst_of(model.new, headline), mean_of(model.known)
    side = "worse" if headline.gain(mean, low.headline) > 0 else "no worse"
    yield (
        f"{model.title}'s worst site is {low.name}: {headline.metric.title} {headline.show(low.headline)} when it was "
        f"left out of training, {side} than its mean at known sites ({headline.show(mean)})."
    )
    if headline.gain(low.headline, low.constant) <= 0:
        yield f"There it is no better than always predicting the same ({headline.show(low.constant)})."


def _erm_suffices(assessment: Assessment) -> Iterator[str]:
    headline, erm = assessment.headline, assessment.erm
    if erm.title != "ERM" or not erm.new or assessment.varying is not None:
        return
    scale = 1 if headline.share else abs(mean_of(erm.new))
    values = [score.headline for score in erm.new]
    noise = max(score.high - score.low for score in erm.new)
    least = MIN_DIFFERENCE * scale
    steady = max(values) - min(values) < max(noise, least)
    if not steady or headline.gain(mean_of(erm.known), mean_of(erm.new)) >= MAX_DROP * scale:
        return
    others = [model for model in assessment.both if model is not erm and model.new]
    if all(headline.gain(mean_of(erm.new), mean_of(other.new)) > -MIN_DIFFERENCE * scale for other in others):
        points = f"{100 * least:.0f} points" if headline.share else headline.show(least)
        limit = "the widest 95 % interval of a site" if noise >= least else points
        yield (
            f"ERM's {headline.metric.title} differs between sites by less than {limit}, and {TEST} finds no effect "
            "that varies: there is no sign of a cue that changes between sites and misleads. Then ERM is the better "
            "choice, and the simpler one."
        )


def _columns(assessment: Assessment) -> Iterator[str]:
    """Columns that ERM relies on and the invariant model does not."""
    if assessment.model.title == "ERM" or not assessment.baseline:
        return
    pairs = largest_differences(assessment.model.importances, assessment.baseline.importances, MAX_COLUMNS)
    yield from (_column(model, erm) for model, erm in pairs if erm.changed - model.changed >= MIN_IMPORTANCE)


def _column(model: PermutationImportance, erm: PermutationImportance) -> str:
    drop = erm.drop_by_environment
    helps, hurts = max(drop, key=drop.__getitem__), min(drop, key=drop.__getitem__)
    text = (
        f"ERM relies on {erm.column}: when it is shuffled, {100 * erm.changed:.0f} % of ERM's predictions change, and "
        f"{100 * model.changed:.0f} % of this model's."
    )
    if drop[hurts] < -MIN_DIFFERENCE / 2 and drop[helps] > 0:
        text += f" It helps ERM at {helps} and misleads it at {hurts}."
    return text


def _overconfidence(assessment: Assessment) -> Iterator[str]:
    """The site where confidence exceeds accuracy most, or all together, where more than chance is at work."""
    scores = [score for score in assessment.model.new or assessment.model.known if "confidence" in score.values]
    tested = [(f"at {s.name}", s.rows, s.values["confidence"], s.values["accuracy"]) for s in scores]
    rows = sum(score.rows for score in scores)
    if rows:
        sure, right = (sum(s.rows * s.values[name] for s in scores) / rows for name in ("confidence", "accuracy"))
        tested.append(("over all these sites", rows, sure, right))
    found = [(where, sure, right) for where, n, sure, right in tested if _is_overconfident(n, sure, right, len(tested))]
    if found:
        where, sure, right = max(found, key=lambda one: one[1] - one[2])
        yield (
            f"The model is overconfident: {where} its mean confidence is {100 * sure:.0f} % and its accuracy "
            f"{100 * right:.0f} %, which is more than chance ({CALIBRATION_TEST}). Do not set thresholds on its "
            f"probabilities without labelled {assessment.unit} from the site where it is used."
        )


def _is_overconfident(rows: int, confidence: float, accuracy: float, tests: int) -> bool:
    """Whether accuracy is lower than confidence by ``MAX_OVERCONFIDENCE``, and by ``CALIBRATION_TEST``."""
    p_value = float(binom.cdf(round(rows * accuracy), rows, confidence))
    return confidence - accuracy > MAX_OVERCONFIDENCE and p_value * tests < LEVEL


def count(number: int, noun: str) -> str:
    """A number and its noun, small numbers in words."""
    word = {1: "one", 2: "two", 3: "three"}.get(number, f"{number:,}")
    return f"{word} {noun}{'' if number == 1 else 's'}"


def _a(metric: str) -> str:
    return f"{'an' if metric[0] in 'aAR' else 'a'} {metric}"
