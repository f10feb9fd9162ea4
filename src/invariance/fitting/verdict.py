"""An assessment in plain words: what to expect, what to do, and when an invariant model is not the answer."""

from collections.abc import Iterator
from dataclasses import dataclass

from invariance.fitting.assess import Assessment
from invariance.fitting.by_environment import EnvironmentScore
from invariance.fitting.importance import PermutationImportance, largest_differences

NEW_SITE = "at a new site, an environment that is not in the training data"
"""In the headline, which is where a reader learns what a site is."""
MIN_ENVIRONMENTS = 4
"""With fewer environments, there is a warning."""
MAX_FORECAST_WIDTH = 0.3
"""With a wider forecast of the accuracy at a new site, there is a warning."""
MIN_DIFFERENCE = 0.02
"""The smallest difference in accuracy that is mentioned, as a share."""
MAX_DROP = 0.15
"""A larger drop in ERM's accuracy from known to new sites is more than overfitting."""
MAX_OVERCONFIDENCE = 0.05
"""The largest difference between confidence and accuracy without a warning."""
MIN_IMPORTANCE = 0.03
"""The smallest difference in permutation importance that is mentioned."""
MAX_COLUMNS = 3
"""The largest number of columns that the advice names."""


@dataclass(frozen=True)
class Verdict:
    """One sentence that sums up the assessment, and advice, the most important first."""

    headline: str
    advice: tuple[str, ...]


def verdict(assessment: Assessment) -> Verdict:
    """What a practitioner should read first."""
    advice = [
        *_environments(assessment),
        *_worst(assessment),
        *_erm_suffices(assessment),
        *_columns(assessment),
        *_overconfidence(assessment),
    ]
    return Verdict(_headline(assessment), tuple(advice))


def percent(share: float) -> str:
    """A share in percent, rounded, and never rounded up to 100 %."""
    return f"{100 * share:.0f} %" if share < 0.995 or share == 1 else f"{100 * share:.1f} %"


def worst(scores: tuple[EnvironmentScore, ...]) -> EnvironmentScore:
    """The environment of lowest accuracy."""
    return min(scores, key=lambda score: score.accuracy)


def _headline(assessment: Assessment) -> str:
    model, at = assessment.model, assessment.model.forecast
    if not at:
        return (
            f"{model.title} was trained on {_count(assessment.environments)}. That is too few to estimate its accuracy "
            f"{NEW_SITE}."
        )
    range_ = f"{percent(at.low)} to {percent(at.high)}"
    expected = f"Expect an accuracy of {percent(at.mean)} {NEW_SITE} (95 % range: {range_})."
    if model.title == "ERM":
        chosen = "No invariant method is clearly better here, so this" if assessment.reason else "This"
        return f"{chosen} is ERM, the ordinary model. {expected}"
    return _compared(assessment, expected)


def _compared(assessment: Assessment, expected: str) -> str:
    """The accuracy of the model at a new site beside that of its baseline, and which of them is better."""
    model, baseline, at = assessment.model, assessment.baseline, assessment.model.forecast
    beside = baseline.forecast if baseline else None
    if not at or not baseline or not beside:
        return expected
    low, other = worst(model.new), worst(baseline.new)
    numbers = (
        f"{expected} For ERM, the ordinary model, expect {percent(beside.mean)}. At its worst site, {model.title} has "
        f"an accuracy of {percent(low.accuracy)} ({low.name}), ERM of {percent(other.accuracy)} ({other.name})."
    )
    gains = (at.mean - beside.mean, low.accuracy - other.accuracy)
    if max(gains) >= MIN_DIFFERENCE:
        return numbers
    return f"{numbers} {'ERM is better here' if min(gains) <= -MIN_DIFFERENCE else 'The two are about equally good'}."


def _environments(assessment: Assessment) -> Iterator[str]:
    """Few environments, or a wide forecast."""
    if assessment.environments < MIN_ENVIRONMENTS:
        yield (
            f"{_count(assessment.environments).capitalize()} cannot show much about what changes between environments: "
            "an invariant method may mistake a coincidence for a law. Add environments before you trust it. More "
            f"{assessment.unit} from the same ones do not help."
        )
    at = assessment.model.forecast
    if at and at.high - at.low > MAX_FORECAST_WIDTH:
        yield (
            "Sites are too few or differ too much for a precise estimate: the accuracy at a new one may lie anywhere "
            f"between {percent(at.low)} and {percent(at.high)}. Before you use the model there, test it on some "
            f"labelled {assessment.unit} from the site, with invariance evaluate."
        )


def _worst(assessment: Assessment) -> Iterator[str]:
    if not assessment.model.new:
        return
    low, mean = worst(assessment.model.new), _mean(assessment.model.known)
    compared = (
        f"{100 * (mean - low.accuracy):.0f} points below its mean at known sites ({percent(mean)})"
        if mean > low.accuracy
        else f"not below its mean at known sites ({percent(mean)})"
    )
    yield (
        f"{assessment.model.title}'s worst site is {low.name}: accuracy {percent(low.accuracy)} when it was left out "
        f"of training, {compared}."
    )
    if low.accuracy <= low.majority + MIN_DIFFERENCE / 2:
        yield f"There it is no better than always predicting the most frequent class ({percent(low.majority)})."


def _erm_suffices(assessment: Assessment) -> Iterator[str]:
    erm = assessment.erm
    if not assessment.model.new or not erm.new:
        return
    spread = max(score.accuracy for score in erm.new) - worst(erm.new).accuracy
    noise = max(score.high - score.low for score in erm.new)
    if spread < max(noise, MIN_DIFFERENCE) and _mean(erm.known) - _mean(erm.new) < MAX_DROP:
        yield (
            "ERM's accuracy differs between sites by no more than chance can explain: there is no sign of a cue that "
            "changes between sites and misleads. Then ERM is the better choice, and the simpler one."
        )


def _mean(scores: tuple[EnvironmentScore, ...]) -> float:
    return sum(score.accuracy for score in scores) / len(scores)


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
        f"ERM relies on {erm.column}: when it is shuffled, {percent(erm.changed)} of ERM's predictions change, and "
        f"{percent(model.changed)} of this model's."
    )
    if drop[hurts] < -MIN_DIFFERENCE / 2:
        text += f" It helps ERM at {helps} and misleads it at {hurts}: ask whether it means the same everywhere."
    return text


def _overconfidence(assessment: Assessment) -> Iterator[str]:
    scores = assessment.model.new or assessment.model.known
    low = max(scores, key=lambda score: score.confidence - score.accuracy)
    if low.confidence - low.accuracy > MAX_OVERCONFIDENCE:
        yield (
            f"The model is overconfident: at {low.name} its mean confidence is {percent(low.confidence)} and its "
            f"accuracy {percent(low.accuracy)}. Do not set thresholds on its probabilities without labelled "
            f"{assessment.unit} from the site where it is used."
        )


def _count(environments: int) -> str:
    number = {1: "one", 2: "two", 3: "three"}.get(environments, str(environments))
    return f"{number} environment{'' if environments == 1 else 's'}"
