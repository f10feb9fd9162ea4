"""``invariance calibrate``: a model of the user's data, recalibrated for one site by a few labelled rows of it."""

from pathlib import Path
from typing import Annotated

import typer

from invariance.cli.options import Device, Json, errors, out, print_json, print_notes
from invariance.cli.user_data import Broken, load_fitted


def calibrate(
    folder: Annotated[Path, typer.Argument(help="A folder that 'invariance fit' wrote.")],
    data: Annotated[
        Path,
        typer.Argument(help="Labelled data of one site: a table, or a folder of images. A hundred rows are enough."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The folder to save the new model to.")] = Path(
        "calibrated"
    ),
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a model that is already in the folder.")
    ] = False,
    broken: Broken = None,
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Recalibrate a model for one site: its confidence and base rate become those of the site's rows.

    Outputs are scaled and shifted; which columns the model relies on does not change. Nothing is written where that
    does not help, by cross-validation on the given rows.
    """
    from invariance.core.model_folder import claim
    from invariance.core.text import clean
    from invariance.estimators.saved import read
    from invariance.fitting.recalibration import recalibrate

    claim(output, overwrite=overwrite)
    notes: list[str] = []
    fitted = load_fitted(folder, broken, device)
    new = recalibrate(fitted, data, notes)
    card = read(folder).card
    about = card["about"] | {"recalibrated on": f"{new.rows} {fitted.reader.unit} of {data.name}"}
    new.fitted.save(output, licence=card["licence"], about=about)
    if as_json:
        print_json(
            {"folder": str(output), "rows": new.rows, "loss_before": new.before, "loss": new.after, "notes": notes}
        )
        return
    print_notes(notes, errors())
    out().print(
        f"Mean loss at {clean(data.name)}: {new.before:.4f} before, {new.after:.4f} after (by cross-validation); "
        f"model: {clean(output)}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
