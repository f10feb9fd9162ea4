"""A study in every version that a reader may ask for: by scale, by selection rule, with collapsed seeds and without."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from invariance.core.artefacts import Artefact
from invariance.core.errors import BadValue
from invariance.experiments.stored_runs import StoredRuns
from invariance.report.drawings import spectra
from invariance.report.page import Block, Choice
from invariance.report.settings import Setting
from invariance.studies.support.base import Plan, Results
from invariance.studies.support.results import results
from invariance.studies.support.scales import SCALES
from invariance.training.selection import RULES, label

Options = dict[str, Sequence[object]]
"""What there is to choose, and between what; the first of each is shown at first."""
FINISHED, EVERY = "finished", "all, collapsed included"


@dataclass(frozen=True)
class Asked:
    """What is shown at first: the selection rule, and whether collapsed seeds are averaged too."""

    selection: str = "invariant"
    with_collapsed: bool = False

    @property
    def rules(self) -> list[str]:
        """Every rule that studies have the runs for, this one first."""
        return sorted((name for name, rule in RULES.items() if not rule.holds_out), key=lambda n: n != self.selection)

    @property
    def seeds(self) -> list[bool]:
        """Without collapsed seeds and with them, as it is asked first."""
        return [self.with_collapsed, not self.with_collapsed]


@dataclass(frozen=True)
class ShownStudy:
    """A study at the scales that have runs: its results as they are asked for, the most complete scale first."""

    results: tuple[Results, ...]
    block: Block

    @property
    def first(self) -> Results:
        """What is shown at first."""
        return self.results[0]


def study_block(stored: StoredRuns, plans: Sequence[Plan], asked: Asked) -> ShownStudy:
    """The study of these plans, which differ in scale."""
    study = plans[0].study
    made: dict[tuple[str, str, bool], Results] = {}
    for plan, rule, collapsed in product(plans, asked.rules, asked.seeds):
        try:
            made[plan.scale, rule, collapsed] = results(plan, stored, rule, with_collapsed=collapsed)
        except BadValue:  # runs of an earlier version, which did not measure what this rule looks at
            if rule == asked.selection:
                raise
    first = tuple(made[plan.scale, asked.selection, asked.with_collapsed] for plan in plans)
    options: Options = {
        "scale": [plan.scale for plan in plans],
        "checkpoint": [rule for rule in asked.rules if all((p.scale, rule, False) in made for p in plans)],
        "seeds": asked.seeds if any(row.collapsed for each in made.values() for row in each.rows.values()) else [],
    }
    if not any(each.rows for each in first):
        options = dict.fromkeys(options, ())
    scale_names = {plan.scale: _scale_name(plan) for plan in plans}

    def version(chosen: dict[str, object]) -> tuple[Artefact, ...]:
        scale, rule = chosen.get("scale", plans[0].scale), chosen.get("checkpoint", asked.selection)
        return study.show(made[str(scale), str(rule), bool(chosen.get("seeds", asked.with_collapsed))])

    block = versions(study.name, study.full_title, options, version, scale_names)
    return ShownStudy(first, block)


def curve_blocks(stored: StoredRuns, settings: Sequence[Setting], asked: Asked) -> tuple[tuple[Block, ...], str]:
    """Accuracy over environments by every rule, a block for each data set; and what was left out."""
    by_rule: dict[str, list[Setting]] = {}
    for rule in asked.rules:
        try:
            by_rule[rule] = [setting.selected_by(stored, rule) for setting in settings]
        except BadValue:
            continue
    some = any(row.collapsed for own in by_rule.values() for setting in own for row in setting.rows.values())
    seeds = asked.seeds if some else asked.seeds[:1]
    made = {}
    for rule, collapsed in product(by_rule, seeds):
        own = [setting.with_collapsed(collapsed) for setting in by_rule[rule]]
        included = ", collapsed seeds included" if collapsed else ""
        made[rule, collapsed] = spectra(own, f"checkpoint: {label(rule)}{included}")
    figures, left_out = made[asked.selection, asked.with_collapsed]
    blocks = []
    for figure in figures:

        def version(chosen: dict[str, object], name: str = figure.name) -> tuple[Artefact, ...]:
            shown, _ = made[str(chosen["checkpoint"]), bool(chosen["seeds"])]
            return tuple(other for other in shown if other.name == name)

        options: Options = {"checkpoint": list(by_rule), "seeds": seeds}
        blocks.append(versions(figure.name, figure.title, options, version, {}))
    return tuple(blocks), left_out


def versions(
    name: str,
    title: str,
    options: Options,
    version: Callable[[dict[str, object]], tuple[Artefact, ...]],
    names: dict[str, str],
) -> Block:
    """A block of every combination of options; what has one option only is no choice."""
    real = {choice: own for choice, own in options.items() if len(own) > 1}

    def named(choice: str, option: object) -> str:
        if choice == "seeds":
            return EVERY if option else FINISHED
        return label(str(option)) if choice == "checkpoint" else names[str(option)]

    combinations = [dict(zip(real, chosen, strict=True)) for chosen in product(*real.values())]
    shown = {tuple(named(c, o) for c, o in each.items()): version(_fixed(options) | each) for each in combinations}
    choices = tuple(Choice(choice, tuple(named(choice, option) for option in own)) for choice, own in real.items())
    return Block(name, title, shown, choices)


def _fixed(options: Options) -> dict[str, object]:
    return {choice: own[0] for choice, own in options.items() if len(own) == 1}


def _scale_name(plan: Plan) -> str:
    """The scale; where others have the same runs, all of them."""
    return " = ".join(sorted((plan.scale, *plan.alike), key=list(SCALES).index))


def with_runs(studies: Iterable[ShownStudy]) -> list[ShownStudy]:
    """Those that the store has a run of."""
    return [study for study in studies if any(each.rows for each in study.results)]
