"""What the numbers say, in plain words: what to expect, what to do, and when an invariant model is not the answer."""

from collections.abc import Iterator
from dataclasses import dataclass

from invariance.fitting.assess import Assessment
from invariance.fitting.by_environment import Site
from invariance.fitting.importance import most_apart

FEW_SITES = 4
WIDE = 0.3
"""A range of accuracies at a new site that says little."""
POINTS = 0.02
"""A difference in accuracy that matters."""
FALLS = 0.15
"""From known to new sites: what is lost beyond this is not only what rows known by heart are worth."""
TOO_SURE = 0.05
LEANS = 0.03
"""A share of answers that hang on a column."""


@dataclass(frozen=True)
class Verdict:
    """One sentence that says it all, and more of them in the order of their weight."""

    headline: str
    advice: tuple[str, ...]


def verdict(found: Assessment) -> Verdict:
    """What a practitioner should read first."""
    advice = [*_sites(found), *_worst(found), *_columns(found), *_sureness(found)]
    return Verdict(_headline(found), tuple(advice))


def percent(share: float) -> str:
    """A share as people read it."""
    return f"{100 * share:.0f} %" if share < 0.995 or share == 1 else f"{100 * share:.1f} %"


def worst(found: tuple[Site, ...]) -> Site:
    """Where the model does worst."""
    return min(found, key=lambda site: site.right)


def _headline(found: Assessment) -> str:
    model, rival = found.model, found.rival
    at = model.forecast
    if not at:
        return (
            f"{model.title} was trained in {_many(found.environments, 'environment')}. How well it does in another one "
            "cannot be estimated from so few."
        )
    range_ = f"{percent(at.low)} to {percent(at.high)}"
    expected = f"Expect {percent(at.mean)} right answers at a new site ({range_})."
    if model.title == "ERM":
        return f"Nothing is gained by an invariant method here: this is ERM, the ordinary model. {expected}"
    beside = rival.forecast if rival else None
    if not rival or not beside:
        return expected
    low, other = worst(model.new), worst(rival.new)
    if at.mean - beside.mean >= POINTS:
        return (
            f"{expected} ERM, the ordinary model, would be right on {percent(beside.mean)} there, and on "
            f"{percent(other.right)} at its worst; {model.title} at its worst on {percent(low.right)}."
        )
    if low.right - other.right >= POINTS:
        return (
            f"{expected} ERM, the ordinary model, is as good on average, and worse where it does worst: right on "
            f"{percent(other.right)} at {other.name}, while {model.title} is nowhere below {percent(low.right)}."
        )
    return f"{model.title} is about as good as ERM at sites that it was not trained at. {expected}"


def _sites(found: Assessment) -> Iterator[str]:
    """Few environments, and little known about the next one."""
    if found.environments < FEW_SITES:
        yield (
            f"{_many(found.environments, 'environment')} cannot show much about what changes between environments: an "
            "invariant method may take a coincidence for a law. Add sites before trusting this; more "
            f"{found.unit} do not help."
        )
    at = found.model.forecast
    if at and at.high - at.low > WIDE:
        yield (
            f"Sites differ so much that a new one may lie anywhere between {percent(at.low)} and {percent(at.high)}. "
            f"Try the model on some labelled {found.unit} of a new site before using it there: invariance evaluate."
        )


def _worst(found: Assessment) -> Iterator[str]:
    new = found.model.new
    if not new:
        return
    low, known = worst(new), found.model.known
    mean = _mean(known)
    yield (
        f"It does worst at {low.name}: {percent(low.right)} right when it was trained without it, "
        f"{100 * (mean - low.right):.0f} points less than at sites it knows ({percent(mean)})."
        if mean > low.right
        else f"It does worst at {low.name}: {percent(low.right)} right when it was trained without it, no less than at "
        f"sites it knows ({percent(mean)})."
    )
    if low.right <= low.chance + POINTS / 2:
        yield f"At {low.name} that is no better than always giving the most frequent answer ({percent(low.chance)})."
    erm = found.erm
    if not erm.new:
        return
    spread = max(site.right for site in erm.new) - worst(erm.new).right
    noise = max(site.high - site.low for site in erm.new)
    if spread < max(noise, POINTS) and _mean(erm.known) - _mean(erm.new) < FALLS:
        yield (
            "ERM does about as well at every site: no sign of anything that changes between sites and misleads. "
            "Then the ordinary model is the better choice, and the simpler one."
        )


def _mean(sites: tuple[Site, ...]) -> float:
    return sum(site.right for site in sites) / len(sites)


def _columns(found: Assessment) -> Iterator[str]:
    """What ERM leans on and the invariant model does not."""
    if found.model.title == "ERM" or not found.rival:
        return
    for model, erm in most_apart(found.model.leanings, found.rival.leanings, 3):
        if erm.changed - model.changed < LEANS:
            continue
        helps = max(erm.drop_by_site, key=lambda name: erm.drop_by_site[name])
        hurts = min(erm.drop_by_site, key=lambda name: erm.drop_by_site[name])
        text = (
            f"ERM leans on {erm.column}: {percent(erm.changed)} of its answers hang on it, and "
            f"{percent(model.changed)} of this model's."
        )
        if erm.drop_by_site[hurts] < -POINTS / 2:
            text += f" It helps ERM at {helps} and misleads it at {hurts}: ask why it should mean the same everywhere."
        yield text


def _sureness(found: Assessment) -> Iterator[str]:
    places = found.model.new or found.model.known
    low = max(places, key=lambda site: site.sure - site.right)
    if low.sure - low.right > TOO_SURE:
        yield (
            f"Its probabilities promise too much: at {low.name} it is {percent(low.sure)} sure on average and "
            f"{percent(low.right)} right. Do not set thresholds on them without labelled {found.unit} from the site."
        )


def _many(number: int, what: str) -> str:
    words = {1: "One", 2: "Two", 3: "Three"}
    return f"{words.get(number, str(number))} {what}{'' if number == 1 else 's'}"
