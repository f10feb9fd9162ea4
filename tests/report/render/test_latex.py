import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from invariance.core.artefacts import Formula, Line
from invariance.report.render.latex import document, escape, latex


def compiled(folder: Path, artefacts) -> str:
    """What pdflatex says about a document of these artefacts."""
    pdflatex = shutil.which("pdflatex")
    if not pdflatex:
        pytest.skip("needs pdflatex: apt-get install texlive-latex-base texlive-latex-recommended")
    for artefact in artefacts:
        (folder / f"{artefact.name}.tex").write_text(latex(artefact), encoding="utf-8")
    (folder / "report.tex").write_text(document(artefact.name for artefact in artefacts), encoding="utf-8")
    command = [pdflatex, "-interaction=nonstopmode", "-halt-on-error", "report.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    said = done.stdout.decode(errors="replace")
    assert done.returncode == 0, said[-2000:]
    assert (folder / "report.pdf").stat().st_size > 10_000
    return said


@pytest.mark.parametrize("names", ["ordinary", "hostile"], indirect=True)
def test_it_compiles_whatever_the_names(artefacts, tmp_path):
    assert "undefined" not in compiled(tmp_path, artefacts).lower()


def test_groups_of_columns_get_rules(table):
    text = latex(table)
    assert r" & \multicolumn{3}{c}{average} & \multicolumn{3}{c}{gap} \\" in text
    assert r"\cmidrule(lr){2-4} \cmidrule(lr){5-7}" in text
    assert text.count(r"\begin{table}") == 1
    assert text.count(r"\toprule") == text.count(r"\bottomrule") == 3
    assert r"GrayScale & 68.3 $\pm$ 0.3 & 68.33 $\pm$ 0.31 & 0.0" in text


def test_a_table_that_is_longer_than_a_page_goes_on_on_the_next(table):
    long = replace(table, columns=table.columns[:1], lines=tuple(Line(str(i), (float(i),)) for i in range(100)))
    text = latex(long)
    assert text.count(r"\begin{longtable}") == text.count(r"\toprule") == text.count(r"\endhead") == 1
    assert text.count(r"\label") == text.count(r"\caption") == 1
    assert r"99 & 99 \\" in text


def test_the_number_of_the_paper_is_in_the_label_and_not_in_the_caption(table):
    text = latex(replace(table, number="Table 4", title="large and small batches"))
    assert r"\caption{Large and small batches. Average" in text
    assert r"\label{table:table-4}" in text
    assert "Table 4" not in text


def test_a_formula_is_set_as_mathematics(histories):
    panel = replace(histories.panels[0], y_label=Formula("‖∇_w R^e‖²"))
    text = latex(replace(histories, caption="‖∇_w R^e‖² over updates.", panels=(panel,)), "x.pdf")
    assert r"$\| \nabla _{w} R^{e}\| {}^2 $ over updates." in text


def test_a_figure_shows_its_picture(lines):
    text = latex(lines, "curves-1.pdf")
    assert r"\includegraphics[width=\linewidth,height=0.7\textheight,keepaspectratio]{curves-1.pdf}" in text
    assert text.count(r"\begin{figure}") == 1
    assert "tabular" not in text


@pytest.mark.parametrize(
    ("text", "tex"),
    [
        ("50 % of_A & B #1", r"50 \% of\_A \& B \#1"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("γ ± − ²", r"$\gamma$ $\pm$ $-$ $^2$"),
        ("Zoë Łódź Süß", r"Zo\"{e} \L{}\'{o}d\'{z} S\"{u}\ss{}"),
        ("中", r"\texttt{U+4E2D}"),
        ("[x]", "{[}x{]}"),
        ("$x^2$~", r"\$x\textasciicircum{}2\$\textasciitilde{}"),
    ],
)
def test_characters(text, tex):
    assert escape(text) == tex


def test_every_formula_and_title_of_a_method_has_its_characters():
    from invariance.methods import METHODS

    for cls in METHODS.classes.values():
        assert "U+" not in escape(cls.title + cls.formula + cls.citation)
