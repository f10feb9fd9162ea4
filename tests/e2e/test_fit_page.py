"""The page of ``invariance fit`` in a real browser, where names are long."""

import csv
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

LONG = "a_measurement_whose_name_has_no_blanks_and_goes_on_for_much_longer_than_any_column_is_wide"


@pytest.fixture(scope="module")
def page(invariance, tmp_path_factory) -> Path:
    """The page on a table with long names of columns."""
    folder, rng = tmp_path_factory.mktemp("long"), np.random.default_rng(0)
    with (folder / "long.csv").open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow([f"{LONG}_one", f"{LONG}_two", "site", "sick"])
        for i in range(200):
            one, two, noise = rng.normal(size=3)
            out.writerow([f"{one:.3f}", f"{two:.3f}", f"site {i % 4}", "yes" if one + two + noise > 0 else "no"])
    done = invariance("fit", folder / "long.csv", "--label", "sick", "--environment", "site", "-o", folder / "model")
    assert done.code == 0, done.err
    return folder / "model" / "report.html"


@pytest.mark.parametrize("width", [1280, 400])
def test_a_long_name_without_blanks_stays_in_its_cell(page, visit, width):
    seen = visit(page, width)
    beyond = """names => names.map(name => {
        const text = document.createRange();
        text.selectNodeContents(name);
        return text.getBoundingClientRect().right - name.closest("th").getBoundingClientRect().right;
    })"""
    for table in ("#importance", "#roles"):
        names = seen.page.locator(f"{table} tbody th .words")
        assert any(LONG in text for text in names.all_text_contents())
        assert max(names.evaluate_all(beyond)) <= 0
    assert seen.overflow() <= 0


@pytest.mark.parametrize("width", [1280, 400, 360])
def test_an_option_is_not_broken_over_two_lines(page, visit, width):
    options = visit(page, width).page.locator("#roles p code")
    assert options.all_text_contents() == ["--numeric", "--categorical", "--ignore"]
    assert options.evaluate_all("all => all.map(one => one.getClientRects().length)") == [1, 1, 1]
