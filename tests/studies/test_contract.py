"""What every study holds to, whatever it shows."""

import json
import math
from collections import Counter

import pytest

from invariance.core.artefacts import Boxes, Figure, Lines, Quantity, Surface, Table
from invariance.studies import STUDIES
from invariance.studies.support.base import Results
from invariance.studies.support.printed import everything
from invariance.studies.support.scales import SCALES

PAPER = {"table-3", "table-4", "table-5", *(f"table-a{i}" for i in range(1, 6))}
PAPER |= {"figure-1", "figure-2", "figure-4", *(f"figure-a{i}" for i in range(1, 6))}

every_study = pytest.mark.parametrize("study", [cls() for cls in STUDIES.classes.values()], ids=list(STUDIES.classes))
every_scale = pytest.mark.parametrize("scale", SCALES)


def check(artefacts):
    """Artefacts whose parts fit together."""
    assert artefacts
    assert len({a.name for a in artefacts}) == len(artefacts)
    for artefact in artefacts:
        assert artefact.name
        assert artefact.title
        assert artefact.caption
        assert artefact.provenance
        if isinstance(artefact, Table):
            assert all(len(line.cells) == len(artefact.columns) for line in artefact.lines)
        else:
            for panel in artefact.panels:
                check_panel(panel)


def check_panel(panel):
    match panel:
        case Lines():
            assert len({c.label for c in panel.curves}) == len(panel.curves)
            for curve in panel.curves:
                assert len(curve.x) == len(curve.y)
                assert curve.x or curve.flags
                assert list(curve.x) == sorted(curve.x)
                assert len(curve.low) == len(curve.high)
                assert len(curve.low) in (0, len(curve.x))
                assert all(map(math.isfinite, (*curve.x, *curve.y, *curve.low, *curve.high)))
                assert not panel.log_x or min(curve.x, default=1) > 0
                assert not panel.log_y or min(curve.y, default=1) > 0
        case Boxes():
            assert all(panel.groups.values())
        case Surface():
            assert len(panel.z) == len(panel.y)
            assert all(len(row) == len(panel.x) for row in panel.z)


def shown(artefacts):
    """The printed numbers beside which ours are shown."""
    cells = [c for a in artefacts if isinstance(a, Table) for line in a.lines for c in line.cells]
    return Counter(c.printed for c in cells if isinstance(c, Quantity) and c.printed)


def test_every_table_and_figure_of_the_paper_is_a_study():
    assert STUDIES.classes.keys() >= PAPER


def test_every_printed_number_belongs_to_a_study():
    assert len(everything()) == 523
    assert {place.study for place in everything()} <= PAPER


@every_study
@every_scale
def test_arms_have_places_of_their_own_and_a_spec_or_a_reason(study, scale):
    arms = study.arms(scale)
    places = [(a.method, a.data, a.setting, a.x) for a in arms]
    assert len(set(places)) == len(places)
    assert all(a.spec or a.waits for a in arms)


@every_study
@every_scale
def test_different_arms_are_different_runs(study, scale):
    specs = [a.spec for a in study.arms(scale) if a.spec]
    if study.name != "tuned":  # two searches may find the same
        assert len({spec.key for spec in specs}) == len(specs)
    assert all(json.loads(json.dumps(spec.to_json())) for spec in specs)
    assert all(spec.seed == 0 and spec.hold_out is None for spec in specs)


@every_study
@every_scale
def test_a_study_can_be_shown_before_anything_is_run(study, scale):
    artefacts = study.show(Results(study.plan(scale), "last", {}))
    check(artefacts)
    assert Counter(v for p, v in everything().items() if p.study == study.name) <= shown(artefacts)


@every_study
@pytest.mark.parametrize(("scale", "seeds"), [("smoke", 1), *((scale, 3) for scale in SCALES)])
def test_a_finished_study_shows_our_numbers_beside_every_printed_one(study, scale, seeds, results):
    made = results(study, scale, seeds)
    artefacts = study.show(made)
    check(artefacts)
    assert Counter(v for p, v in everything().items() if p.study == study.name) <= shown(artefacts)
    waiting = any(a.waits for a in study.arms(scale))
    for artefact in artefacts:
        if isinstance(artefact, Figure):
            assert artefact.panels
            missing = [note for note in artefact.notes if not note.startswith("Updates of ")]
            assert not missing or study.name == "figure-a2"
        if study.name != "audit":
            assert f"{seeds} seed" in artefact.provenance or waiting
            assert f"scale {scale}" in artefact.provenance
            assert "checkpoint: last" in artefact.provenance or study.name == "rules"


@every_study
@pytest.mark.parametrize("status", ["failed", "diverged", "collapsed"])
def test_a_study_none_of_whose_runs_ended_well_says_so(study, status, results):
    artefacts = study.show(results(study, "smoke", status=lambda arm, seed: status))
    check(artefacts)
    if any(a.spec for a in study.arms("smoke")):
        cells = [c for a in artefacts if isinstance(a, Table) for line in a.lines for c in line.cells]
        notes = {c.note for c in cells if isinstance(c, Quantity)} | {n for a in artefacts for n in a.notes}
        assert any(f"{status} 2 of 2" in note for note in notes)


@every_study
@every_scale
def test_a_study_with_gaps_shows_what_there_is(study, scale, results):
    def status(arm: int, seed: int) -> str:
        return ("finished", "collapsed", "diverged", "failed", "finished")[(arm + seed) % 5]

    first = min((a.setting for a in study.arms(scale)), default="")
    check(study.show(results(study, scale, 3, status=status)))
    check(study.show(results(study, scale, 2, having=lambda arm: arm.setting == first)))
