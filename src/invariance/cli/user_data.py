"""What the commands on a user's own data share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from invariance.fitting.model import Fitted

Broken = Annotated[
    Literal["refuse", "skip"] | None,
    typer.Option(
        "--broken", help="Images: what to do with unreadable files: stop with an error, or skip and name them."
    ),
]


def load_fitted(folder: Path, broken: Literal["refuse", "skip"] | None, device: str) -> "Fitted":
    """The model in a folder, on a device; ``broken`` says what to do with unreadable images, if not as in training."""
    from dataclasses import replace

    from invariance.core import model_folder
    from invariance.core.device import resolved
    from invariance.core.errors import BadValue
    from invariance.fitting.image_folder import ImageFolderReader
    from invariance.fitting.model import Fitted

    if model_folder.read(folder).kind == "run":
        raise BadValue(
            f"{folder} holds a model of a benchmark, which reads no files: use invariance evaluate {folder}, "
            "or open it in Python with invariance.load"
        )
    fitted = Fitted.load(folder)
    fitted.estimator.module_.to(resolved(device))
    if broken is None:
        return fitted
    if not isinstance(fitted.reader, ImageFolderReader):
        refuse_options(f"the model in {folder} was fitted to a table", broken=broken)
        return fitted
    return replace(fitted, reader=replace(fitted.reader, broken=broken))


def refuse_options(reason: str, **options: Any) -> None:
    """Raise an error where options are given that do not apply."""
    from invariance.core.errors import BadValue

    names = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
    if names:
        verb, it = ("does", "it") if len(names) == 1 else ("do", "them")
        raise BadValue(f"{reason}, to which {' and '.join(names)} {verb} not apply; leave {it} out")
