"""``invariance predict``: classes and probabilities for every row of a table."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from invariance.cli.options import Json, errors, out, print_json, progress
from invariance.cli.tables import needed


def predict(
    folder: Annotated[Path, typer.Argument(help="A folder that 'invariance fit' wrote.")],
    data: Annotated[Path, typer.Argument(help="Rows to predict: .csv, .tsv or .parquet, also .gz.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where to: ends in .csv, .tsv or .parquet, also .gz.")
    ] = Path("predictions.csv"),
    as_json: Json = False,
) -> None:
    """Predict every row of a table, in its order: the columns prediction and probability_<class>.

    Rows are read and written some at a time, so the file may be larger than memory.
    """
    needed(data)
    from invariance.fitted import Fitted
    from invariance.tables.sink import claim, sink
    from invariance.tables.source import Source

    claim(output)
    source = Source.open(data)
    fitted = Fitted.load(folder)
    strange: Counter[str] = Counter()
    with progress() as bar, sink(output, fitted.classes) as written:
        task = bar.add_task("rows", total=None)
        for probabilities in fitted.predict(source, strange):
            written.write(probabilities)
            bar.update(task, completed=written.rows)
    notes = fitted.encoder.notes(strange)
    if as_json:
        print_json({"file": str(output), "rows": written.rows, "notes": list(notes)})
        return
    for note in notes:
        errors().print(f"Note: {note}.", highlight=False, markup=False)
    out().print(f"{written.rows:,} rows: {output}", highlight=False, markup=False, soft_wrap=True)
