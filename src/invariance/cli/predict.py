"""``invariance predict``: classes and probabilities for every row of a table, or every image."""

from pathlib import Path
from typing import Annotated

import typer

from invariance.cli.options import Json, errors, out, print_json, progress
from invariance.cli.own import Broken, needed, opened


def predict(
    folder: Annotated[Path, typer.Argument(help="A folder that 'invariance fit' wrote.")],
    data: Annotated[
        Path, typer.Argument(help="What to predict: a table as it was trained on; a folder of images, or one image.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Where to: ends in .csv, .tsv or .parquet, also .gz.")
    ] = Path("predictions.csv"),
    broken: Broken = None,
    as_json: Json = False,
) -> None:
    """Predict every row of a table, in its order: the columns prediction and probability_CLASS.

    Images are predicted in the order of their names, however deep their folder is, with their file in the first column.
    Samples are read and written some at a time, so there may be more of them than fit into memory.
    """
    needed()
    from invariance.tabular.sink import claim, sink

    claim(output)
    fitted = opened(folder, broken)
    unit, notes = fitted.reader.unit, list[str]()
    with progress() as bar, sink(output, fitted.classes, fitted.reader.name) as written:
        task = bar.add_task(unit, total=None)
        for probabilities, names in fitted.predict(data, notes):
            written.write(probabilities, names)
            bar.update(task, completed=written.rows)
    if as_json:
        print_json({"file": str(output), unit: written.rows, "notes": notes})
        return
    for note in notes:
        errors().print(f"Note: {note}.", highlight=False, markup=False)
    out().print(f"{written.rows:,} {unit}: {output}", highlight=False, markup=False, soft_wrap=True)
