"""An assessment in plain words: what to expect, what to do, and when an invariant model is not the answer."""

from collections.abc import Iterator
from dataclasses import dataclass

from invariance.fitting.assess import Assessment
from invariance.fitting.by_environment import EnvironmentScore
from invariance.fitting.importance import PermutationImportance, largest_differences

MIN_ENVIRONMENTS = 4
"""With fewer environments, the verdict warns."""
MAX_FORECAST_WIDTH = 0.3
"""A wider forecast of the accuracy at a new site gets a warning."""
MIN_DIFFERENCE = 0.02
"""The smallest difference in accuracy that is mentioned."""
MAX_DROP = 0.15
"""From known to new sites: a larger drop in ERM's accuracy is more than overfitting."""
MAX_OVERCONFIDENCE = 0.05
"""The largest difference between confidence and accuracy without a warning."""
MIN_IMPORTANCE = 0.03
"""The smallest difference in permutation importance that is mentioned."""
MAX_COLUMNS = 3
"""Columns that the advice names."""


@dataclass(frozen=True)
class Verdict:
    """One sentence that sums up the assessment, and advice, the most important first."""

    headline: str
    advice: tuple[str, ...]


def verdict(found: Assessment) -> Verdict:
    """What a practitioner should read first."""
    advice = [*_environments(found), *_worst(found), *_erm_suffices(found), *_columns(found), *_overconfidence(found)]
    return Verdict(_headline(found), tuple(advice))


def percent(share: float) -> str:
    """A share in percent, rounded, and never rounded up to 100 %."""
    return f"{100 * share:.0f} %" if share < 0.995 or share == 1 else f"{100 * share:.1f} %"


def worst(scores: tuple[EnvironmentScore, ...]) -> EnvironmentScore:
    """The environment of lowest accuracy."""
    return min(scores, key=lambda score: score.accuracy)


def _headline(found: Assessment) -> str:
    model, at = found.model, found.model.forecast
    if not at:
        return (
            f"{model.title} was trained in {_many(found.environments, 'environment')}. Its accuracy in another one "
            "cannot be estimated from so few."
        )
    range_ = f"{percent(at.low)} to {percent(at.high)}"
    expected = f"Expect an accuracy of {percent(at.mean)} at a new site ({range_})."
    if model.title == "ERM":
        return f"Nothing is gained by an invariant method here: this is ERM, the ordinary model. {expected}"
    return _compared(found, expected)


def _compared(found: Assessment, expected: str) -> str:
    """The accuracy of the model at a new site beside that of its baseline."""
    model, baseline, at = found.model, found.baseline, found.model.forecast
    beside = baseline.forecast if baseline else None
    if not at or not baseline or not beside:
        return expected
    low, other = worst(model.new), worst(baseline.new)
    if at.mean - beside.mean >= MIN_DIFFERENCE:
        return (
            f"{expected} ERM, the ordinary model, would have an accuracy of {percent(beside.mean)} there, and of "
            f"{percent(other.accuracy)} at its worst site; {model.title} of {percent(low.accuracy)} at its worst site."
        )
    if low.accuracy - other.accuracy >= MIN_DIFFERENCE:
        return (
            f"{expected} ERM, the ordinary model, is as good on average but worse at its worst site: its accuracy at "
            f"{other.name} is {percent(other.accuracy)}, while that of {model.title} is nowhere below "
            f"{percent(low.accuracy)}."
        )
    return f"{model.title} is about as good as ERM at sites that it was not trained at. {expected}"


def _environments(found: Assessment) -> Iterator[str]:
    """Few environments, or a wide forecast."""
    if found.environments < MIN_ENVIRONMENTS:
        yield (
            f"{_many(found.environments, 'environment')} cannot show much about what changes between environments: an "
            "invariant method may take a coincidence for a law. Add sites before trusting this; more "
            f"{found.unit} do not help."
        )
    at = found.model.forecast
    if at and at.high - at.low > MAX_FORECAST_WIDTH:
        yield (
            f"Sites differ so much that the accuracy at a new one may lie anywhere between {percent(at.low)} and "
            f"{percent(at.high)}. Test the model on some labelled {found.unit} of a new site before using it there: "
            "invariance evaluate."
        )


def _worst(found: Assessment) -> Iterator[str]:
    if not found.model.new:
        return
    low, mean = worst(found.model.new), _mean(found.model.known)
    compared = (
        f"{100 * (mean - low.accuracy):.0f} points less than at known sites ({percent(mean)})"
        if mean > low.accuracy
        else f"no less than at known sites ({percent(mean)})"
    )
    yield (
        f"Its worst site is {low.name}: accuracy {percent(low.accuracy)} when that site was left out of training, "
        f"{compared}."
    )
    if low.accuracy <= low.majority + MIN_DIFFERENCE / 2:
        yield f"At {low.name} it is no better than always predicting the most frequent class ({percent(low.majority)})."


def _erm_suffices(found: Assessment) -> Iterator[str]:
    erm = found.erm
    if not found.model.new or not erm.new:
        return
    spread = max(score.accuracy for score in erm.new) - worst(erm.new).accuracy
    noise = max(score.high - score.low for score in erm.new)
    if spread < max(noise, MIN_DIFFERENCE) and _mean(erm.known) - _mean(erm.new) < MAX_DROP:
        yield (
            "ERM does about as well at every site: there is no sign of a cue that changes between sites and misleads. "
            "Then the ordinary model is the better choice, and the simpler one."
        )


def _mean(scores: tuple[EnvironmentScore, ...]) -> float:
    return sum(score.accuracy for score in scores) / len(scores)


def _columns(found: Assessment) -> Iterator[str]:
    """Columns that ERM leans on and the invariant model does not."""
    if found.model.title == "ERM" or not found.baseline:
        return
    pairs = largest_differences(found.model.importances, found.baseline.importances, MAX_COLUMNS)
    yield from (_column(model, erm) for model, erm in pairs if erm.changed - model.changed >= MIN_IMPORTANCE)


def _column(model: PermutationImportance, erm: PermutationImportance) -> str:
    drop = erm.drop_by_environment
    helps, hurts = max(drop, key=drop.__getitem__), min(drop, key=drop.__getitem__)
    text = (
        f"ERM leans on {erm.column}: {percent(erm.changed)} of its predictions depend on it, and "
        f"{percent(model.changed)} of this model's."
    )
    if drop[hurts] < -MIN_DIFFERENCE / 2:
        text += f" It helps ERM at {helps} and misleads it at {hurts}: ask why it should mean the same everywhere."
    return text


def _overconfidence(found: Assessment) -> Iterator[str]:
    scores = found.model.new or found.model.known
    low = max(scores, key=lambda score: score.confidence - score.accuracy)
    if low.confidence - low.accuracy > MAX_OVERCONFIDENCE:
        yield (
            f"It is overconfident: at {low.name} its mean confidence is {percent(low.confidence)} and its accuracy "
            f"{percent(low.accuracy)}. Do not set thresholds on its probabilities without labelled {found.unit} from "
            "the site."
        )


def _many(number: int, what: str) -> str:
    words = {1: "One", 2: "Two", 3: "Three"}
    return f"{words.get(number, str(number))} {what}{'' if number == 1 else 's'}"
