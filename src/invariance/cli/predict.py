"""``invariance predict``: classes with probabilities, or numbers, for every row of a table, or every image."""

from pathlib import Path
from typing import Annotated

import typer

from invariance.cli.options import Device, Json, counting, errors, out, print_json, print_notes
from invariance.cli.user_data import Broken, load_fitted
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
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", help="Table: a column to copy beside predictions, e.g. a case number. May be repeated."),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Table: copy all its columns beside the predictions.")] = False,
    contributions: Annotated[
        bool,
        typer.Option("--contributions", help="Linear models of tables: also write what each column adds."),
    ] = False,
    broken: Broken = None,
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Predict the label of every row of a table, or the class of every image in a folder.

    The output has the columns prediction and probability_CLASS, in the order of the rows; for numbers, prediction
    alone. For images its first column is the file, in sorted order, at any depth of folders. Data are read and written
    in batches, so they may be larger than memory. A note says so where inputs are unlike those of the training sites.
    """
    from invariance.core.errors import BadValue
    from invariance.tabular.prediction_writer import check_writable, prediction_writer

    check_writable(output)
    if output.exists() and data.exists() and output.samefile(data):
        raise BadValue(f"cannot write {output}: it holds the rows to predict; give another file with -o")
    fitted = load_fitted(folder, broken, device)
    unit, notes = fitted.reader.unit, list[str]()
    kept = fitted.reader.kept(data, None if keep else ids or [])
    explained = fitted.explained() if contributions else ()
    with (
        counting(unit, fitted.reader.size(data)) as count,
        prediction_writer(output, fitted.classes, kept, explained) as writer,
    ):
        for answers, copied, parts in fitted.predict(data, notes, tuple(kept), explain=contributions):
            writer.write(answers, copied, parts)
            count(writer.rows)
    if as_json:
        print_json({"file": str(output), unit: writer.rows, "notes": notes})
        return
    print_notes(notes, errors())
    out().print(
        f"Predictions for {writer.rows:,} {unit}: {clean(output)}", highlight=False, markup=False, soft_wrap=True
    )
