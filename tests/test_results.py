"""The page of results says what the published runs say. Runs of studies are two-bit runs under the study's spec."""

import csv
import importlib.util
import re
import sys
from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev

import pytest

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'invariance[report]'")

from invariance.core.artefacts import Column, Difference, Line, Table
from invariance.core.errors import UnknownName
from invariance.core.text import markdown_escape
from invariance.experiments.published import FILE, publish, published_store
from invariance.experiments.run import execute
from invariance.experiments.spec import Spec
from invariance.experiments.store import Store
from invariance.recipes.presets import PRESETS
from invariance.studies import STUDIES
from invariance.studies.support.scales import SCALES, differences

ROOT = Path(__file__).parents[1]
SMALL = {"data": {"samples": 100}, "recipe": {"epochs": 4, "batch_size": 50}, "evaluation": {"checkpoints": 2}}
NUMBER = "{{ table-a5 / quick / IRMv1 / Colored-MNIST / α 0.1, β 0.2, 0.25 / average }}"
TEMPLATE = "\n\n".join(("{{ runs }}", "{{ studies }}", "{{ table-a5 }}", f"IRMv1 has {NUMBER} %.", "{{ others }}"))


def tool():
    """tools/results.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("results", ROOT / "tools" / "results.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


results = tool()


def page(file, template=TEMPLATE):
    """What is generated from a file of published runs."""
    with published_store(file) as store:
        return results.generated(results.Published(store), template)


@pytest.fixture(scope="module")
def runs():
    """Three seeds of Table A5, of which IRMv1's last collapsed; one of Figure A2, and one of PACS."""
    made = [execute(Spec.of("two-bit", "irmv1", "short", seed, SMALL)).run for seed in range(3)]
    specs = [arm.spec.with_seed(seed) for arm in STUDIES["table-a5"]().arms("quick") for seed in range(3)]
    found = [replace(made[spec.seed], spec=spec, status="finished") for spec in specs]
    last = next(i for i, run in enumerate(found) if (run.spec.method_name, run.spec.seed) == ("irmv1", 2))
    history = tuple(replace(checkpoint, collapsed=True) for checkpoint in found[last].history)
    found[last] = replace(found[last], status="collapsed", history=history)
    surface = STUDIES["figure-a2"]().arms("quick")[0].spec
    found.append(replace(made[0], spec=surface, status="finished", landscape=((0.1, 0.2), (0.3, 0.4))))
    pacs = next(arm.spec for arm in STUDIES["table-5"]().arms("quick") if arm.data == "PACS")
    return [*found, replace(made[0], spec=pacs, status="finished")]


@pytest.fixture(scope="module")
def published(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    with Store(folder / "runs.db") as store:
        for run in runs:
            store.add(run)
        publish(store, {run.spec.trial.key for run in runs}, folder / "runs.jsonl.xz")
    return folder / "runs.jsonl.xz"


@pytest.fixture(scope="module")
def shown(published):
    with published_store(published) as store:
        return results.Published(store)


@pytest.fixture(scope="module")
def files(shown):
    return results.generated(shown, TEMPLATE)


def test_the_page_in_the_repository_is_what_the_published_runs_say():
    files = page(FILE, (ROOT / "docs" / results.TEMPLATE).read_text(encoding="utf-8"))
    assert results.outdated(files, ROOT / "docs") == [], "the page is not up to date: make results"


def test_an_edited_number_a_missing_figure_and_a_stray_file_are_noticed(files, tmp_path):
    (tmp_path / "images").mkdir()
    results.write(files, tmp_path)
    assert results.outdated(files, tmp_path) == []
    for path in ("results.md", "results/table-a5-quick.csv"):
        text = (tmp_path / path).read_text(encoding="utf-8")
        place = max(i for i, letter in enumerate(text) if letter.isdigit())
        (tmp_path / path).write_text(
            f"{text[:place]}{(int(text[place]) + 1) % 10}{text[place + 1 :]}", encoding="utf-8"
        )
    (tmp_path / "images/results-figure-a2-quick.png").unlink()
    (tmp_path / "results/old.csv").touch()
    edited = ["images/results-figure-a2-quick.png", "results.md", "results/old.csv", "results/table-a5-quick.csv"]
    assert results.outdated(files, tmp_path) == edited
    results.write(files, tmp_path)
    assert results.outdated(files, tmp_path) == []
    assert not (tmp_path / "results/old.csv").exists()


def test_a_table_has_the_mean_and_deviation_of_the_runs_whose_keys_stand_beside_it(files, runs):
    rows = list(csv.DictReader(files.texts["results/table-a5-quick.csv"].splitlines()))
    own = {run.spec.key: run for run in runs if run.spec.data_name == "colored-mnist" and not run.landscape}
    assert {row["key"] for row in rows} == own.keys()
    for row in rows:
        test = own[row["key"]].history[-1].test
        assert (float(row["average"]), float(row["gap"])) == pytest.approx((100 * test.mean, 100 * test.gap), abs=1e-4)
    text = files.texts["results.md"]
    for method in ("ERM", "BLOC-IRM"):
        values = [float(row["average"]) for row in rows if row["method"] == method]
        assert f"| {method} | {fmean(values):.1f} ± {pstdev(values):.1f} |" in text
    assert "scale quick" in text
    assert "· recipe short · 3 seeds (± population standard deviation) · checkpoint: invariant" in text
    assert "(results/table-a5-quick.csv)" in text


def test_a_collapsed_run_is_listed_and_counted_and_not_averaged(files):
    rows = list(csv.DictReader(files.texts["results/table-a5-quick.csv"].splitlines()))
    irm = [row for row in rows if row["method"] == "IRMv1"]
    assert [row["status"] for row in irm] == ["finished", "finished", "collapsed"]
    text = files.texts["results.md"]
    values = [float(row["average"]) for row in irm[:2]]
    assert f"IRMv1 has {fmean(values):.1f} ± {pstdev(values):.1f} %." in text
    assert "collapsed 1 of 3" in text
    assert "14 published runs (13 finished, 1 collapsed)" in text


def test_every_study_is_listed_with_what_is_published_of_it(files):
    text = files.texts["results.md"]
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| `")}
    assert rows["table-a5"].endswith("| scale quick: 4 of 4 places, 12 runs |")
    assert rows["figure-a2"].endswith("| scale quick: 1 of 2 places, 1 run |")
    (waiting,) = [line for line in text.splitlines() if line.startswith("No published run yet: `")]
    assert "`table-4`" in waiting
    listed = {*rows, *re.findall(r"`([\w-]+)`", waiting)}
    assert listed == STUDIES.classes.keys() - {"audit"}  # which needs none
    assert "![Figure A2: the loss around the trained weights](<images/results-figure-a2-quick.png>)" in text
    assert "## Table 4" not in text


def test_where_recipes_and_scales_differ_from_the_paper_is_listed(shown):
    text = results.generated(shown, "{{ differs }}").texts["results.md"]
    listed = [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]
    of_recipes = [sentence for preset in PRESETS.values() for sentence in preset.differs]
    assert listed == [markdown_escape(sentence) for sentence in (*differences(SCALES), *of_recipes)]
    assert "{{ differs }}" in (ROOT / "docs" / results.TEMPLATE).read_text(encoding="utf-8")


def test_a_table_names_the_columns_that_have_no_run(files):
    text = files.texts["results.md"]
    assert "No published run yet: Colored-Object; CIFAR-MNIST; CelebA; VLCS." in text
    assert "**Colored-Object**" not in text


def test_differences_of_which_no_pair_has_a_seed_are_named_and_not_shown():
    nothing = Difference(note="no seed that both have")
    lines = (Line("ERM", (Difference((1.0,)), nothing)), Line("REx", (nothing, nothing)))
    columns = (Column("average", "PACS"), Column("average", "VLCS"))
    shown = results._with_runs(Table("differences", "", "", "method", columns, lines, ""))
    assert [column.group for column in shown.columns] == ["PACS"]
    assert [line.cells for line in shown.lines] == [(Difference((1.0,)),), (nothing,)]
    assert shown.notes == ("No seed that both have: VLCS.",)


def test_the_page_is_the_same_where_the_data_are_not(files, published, tmp_path, monkeypatch):
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path))
    assert page(published) == files


def test_without_runs_every_study_waits(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        publish(store, set(), tmp_path / "published")
    files = page(tmp_path / "published")
    assert (files.texts.keys(), files.figures) == ({"results.md"}, {})
    text = files.texts["results.md"]
    assert "There are no published runs yet." in text
    (waiting,) = [line for line in text.splitlines() if line.startswith("No published run yet: ")]
    assert waiting.count("`") == 2 * (len(STUDIES.classes) - 1)
    assert "IRMv1 has no run yet %." in text


@pytest.mark.parametrize(
    ("place", "complaint"),
    [
        ("table-44", "no study is called 'table-44'. Did you mean 'table-4'"),
        ("table-4 / ours / IRMv1", "is no study / scale / method / data / setting / metric"),
        ("table-4 / ours / IRMv7 / Colored-MNIST / small batch / gap", "table-4 has no IRMv7 on Colored-MNIST"),
    ],
)
def test_a_place_that_does_not_exist_is_refused(shown, place, complaint):
    with pytest.raises(UnknownName, match=complaint):
        results.generated(shown, f"{{{{ {place} }}}}")
