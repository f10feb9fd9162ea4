from invariance.core.artefacts import Column, Formula, Line, Sparkline, Table
from invariance.report.render.csv_files import records
from invariance.report.render.latex import latex
from invariance.report.render.markdown import markdown
from invariance.report.render.sheets import sheets


def test_formulas_bars_and_sentences_are_words_in_every_format():
    cells = (Formula("min_θ R^e"), Sparkline((0.0, 100.0)), ("It is averaged.", "It is new."))
    table = Table("t", "T", "", "method", tuple(map(Column, "abc")), (Line("one", cells),))
    (row,) = sheets(table)[0].rows
    assert [entry.text for entry in row.entries] == ["min_θ R^e", "▁█", "1. It is averaged. 2. It is new."]
    assert [entry.formula for entry in row.entries] == [True, False, False]
    assert row.entries[2].sentences == cells[2]
    assert "| one | min\\_θ R^e | ▁█ | 1. It is averaged. 2. It is new. |" in markdown(table)
    assert r"\rule{2pt}{1pt}\rule{2pt}{8pt}" in latex(table)
    assert [record["text"] for record in records(table)] == [
        "min_θ R^e",
        "0.0 100.0",
        "1. It is averaged. 2. It is new.",
    ]
