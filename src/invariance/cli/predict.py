"""``invariance predict``: classes and probabilities for every row of a table, or every image."""

from pathlib import Path
from typing import Annotated

import typer

from invariance.cli.options import Device, Json, errors, out, print_json, print_notes, progress
from invariance.cli.user_data import Broken, load_fitted, require_pyarrow
from invariance.core.text import clean


def predict(
    folder: Annotated[Path, typer.Argument(help="A folder that 'invariance fit' wrote.")],
    data: Annotated[
        Path,
        typer.Argument(
            help="What to predict: a table with the columns of the training table, or a folder of images, or one image."
        ),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="The file to write: .csv, .tsv, .parquet, .csv.gz or .tsv.gz.")
    ] = Path("predictions.csv"),
    broken: Broken = None,
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Predict the class of every row of a table, or of every image in a folder.

    The output has the columns prediction and probability_CLASS, in the order of the rows. For images its first column
    is the file, in sorted order, at any depth of folders. Data are read and written in batches, so they may be larger
    than memory.
    """
    require_pyarrow()
    from invariance.tabular.prediction_writer import check_writable, prediction_writer

    check_writable(output)
    fitted = load_fitted(folder, broken, device)
    unit, notes = fitted.reader.unit, list[str]()
    with progress() as bar, prediction_writer(output, fitted.classes, fitted.reader.name_column) as writer:
        task = bar.add_task(unit, total=None)
        for probabilities, names in fitted.predict(data, notes):
            writer.write(probabilities, names)
            bar.update(task, completed=writer.rows)
    if as_json:
        print_json({"file": str(output), unit: writer.rows, "notes": notes})
        return
    print_notes(notes, errors())
    out().print(
        f"Predictions for {writer.rows:,} {unit}: {clean(output)}", highlight=False, markup=False, soft_wrap=True
    )
