"""``invariance export``: a trained model as a file of another program."""

from pathlib import Path
from typing import Annotated

import typer

from invariance.cli import completion
from invariance.cli.options import Json, out, print_json
from invariance.core.text import clean


def export(
    folder: Annotated[Path, typer.Argument(help="A folder that 'invariance fit' or 'invariance train' wrote.")],
    how: Annotated[
        str, typer.Option("--format", help="onnx or torchscript.", autocompletion=completion.exports)
    ] = "onnx",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file to write (default: FOLDER.onnx or FOLDER.pt).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a trained model as ONNX or TorchScript, for programs that do not have this package.

    An ONNX file of a table takes its columns as they are: numbers with gaps, categories as text, dates as seconds. Free
    text is the exception; a note says so. The file is read again and its predictions are compared with the model's;
    where they differ by more than 1e-5, no file is written.
    """
    from invariance.exports import EXPORTS
    from invariance.exports import export as exported

    path = output or folder.absolute().with_name(folder.absolute().name + EXPORTS[how].suffix)
    written = exported(folder, path, format=how)
    if as_json:
        plain = {"file": str(path), "format": how, "difference": written.difference, "notes": list(written.notes)}
        inputs = [each._asdict() for each in written.inputs]
        print_json(plain | {"inputs": inputs, "outputs": [each._asdict() for each in written.outputs]})
        return
    lines = [f"takes {each.name or 'x'}: {each.type}, {each.about}" for each in written.inputs]
    lines += [f"gives {each.name}: {each.type}, {each.about}".replace(" : ", ": ") for each in written.outputs]
    lines += [f"Note: {note}." for note in written.notes]
    lines += [f"{path}: the largest difference from the model's predictions is {written.difference:.1e}"]
    for line in lines:
        out().print(clean(line), highlight=False, markup=False, soft_wrap=True)
