"""The page of benchmarks says what was measured."""

import importlib.util
import json
from pathlib import Path

ROOT = Path(__file__).parents[1]


def tool():
    """tools/benchmarks.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("benchmarks_page", ROOT / "tools" / "benchmarks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


benchmarks = tool()


def test_the_page_is_the_template_with_the_measured_tables():
    expected = benchmarks.page()
    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == expected, "write it: tools/benchmarks.py"


def test_a_table_names_its_processor_its_date_and_the_load(tmp_path):
    rows = [{"method": "ERM", "ms": 12.345, "share": 0.9}, {"method": "REx", "ms": 250.0, "share": None}]
    measured = {"processor": "AMD EPYC", "cores": 2, "vectors": "AVX2", "torch": "2.13", "date": "2026-11-17"}
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "step.json").write_text(
        json.dumps({**measured, "load": 0.5, "rows": rows, "note": "A."})
    )
    (tmp_path / "benchmarks.template.md").write_text("Before.\n\n{{ step }}\n\nAfter.")
    text = benchmarks.page(tmp_path)
    assert "| method | ms | share |\n| --- | --: | --: |\n| ERM | 12.3 | 0.90 |\n| REx | 250 |  |" in text
    assert "*AMD EPYC, 2 cores, AVX2, torch 2.13, 17 November 2026, load 0.5 at the end. A.*" in text
    assert text.index("Before.") < text.index("AMD EPYC") < text.index("After.")
