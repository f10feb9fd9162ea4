"""The tutorial notebooks run from the first cell to the last, and are stored without outputs."""

import ast
import os
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs nbformat: pip install '.[docs]'")

import invariance  # noqa: E402

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def test_a_notebook_is_stored_without_outputs_and_imports_what_is_there(notebook):
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not [cell for cell in cells if cell.outputs or cell.execution_count]
    for node in ast.walk(ast.parse("\n".join(cell.source for cell in cells))):
        if isinstance(node, ast.ImportFrom) and node.module == "invariance":
            assert {name.name for name in node.names} <= set(dir(invariance))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # those of the kernel's own machinery
def test_a_notebook_runs_to_its_end(notebook, tmp_path, monkeypatch):
    from nbclient import NotebookClient

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "1")
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not [output for output in shown if output.output_type == "error"]
    assert any("text/html" in output.get("data", {}) for output in shown)


BAR = """
from invariance.core.progress import progress_bar
with progress_bar() as bar:
    task = bar.add_task("preparing <b>images</b>", total=4)
    for _ in range(4):
        bar.advance(task)
"""


@pytest.mark.filterwarnings("default")  # those of the kernel's own machinery
def test_a_progress_bar_is_shown_in_a_notebook_and_ends_full(tmp_path, monkeypatch):
    from nbclient import NotebookClient

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(BAR)])
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    (shown,) = notebook.cells[0].outputs
    assert shown.data["text/html"] == (
        '<div>preparing &lt;b&gt;images&lt;/b&gt; <progress value="4" max="4"></progress> 100 %</div>'
    )
