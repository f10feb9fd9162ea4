"""Images in folders: read from a cache for training, and from their files in batches for prediction."""

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from invariance.core.errors import BadValue, DataError
from invariance.core.fields import STRICT
from invariance.core.inputs import Pixels
from invariance.core.provenance import cores
from invariance.core.rows import Rows
from invariance.data.base import PHOTOGRAPHS
from invariance.data.constructions.domains import images_of, tree
from invariance.data.images.cache import MAX_NAMES, Broken, Picture
from invariance.data.images.image_files import ImageSize, pictures, read, require_utf8
from invariance.estimators.base import Invariant
from invariance.estimators.classifier import InvariantClassifier
from invariance.fitting.frozen_features import embedded, linear_classifier, of_images
from invariance.fitting.labels import few_rows, test_rows
from invariance.fitting.reader import TABLE_SUFFIXES, FitTask, Reader, SampleBatch
from invariance.models.base import Architecture
from invariance.models.edges import Edges
from invariance.models.resnet import ResNet
from invariance.recipes.presets import recipe
from invariance.recipes.recipe import Recipe

FILE = "file"
"""The column of predictions that names each image."""
BATCH_IMAGES = 256
"""Images that are decoded and predicted together."""
SINGLE_DOMAIN = "with one domain there is nothing to be invariant across, so the model is ERM; give several domains"
WIDTH = 16
"""Channels of the first layer of a ResNet that is trained from scratch."""
FEW_IMAGES = 2000
"""Fewer cannot teach a network."""
FEW = (
    f"with fewer than {FEW_IMAGES:,} images, the model is linear, of edges and a small grey image; --weights FILE uses "
    "the features of a ResNet-18 with published weights, --epochs or --width train one from scratch"
)
MIN_UPDATES, MIN_EPOCHS = 200, 8
"""Training makes at least this number of updates, and of passes over the images."""


class _Decoded(NamedTuple):
    """The images that could be decoded, and the indices of their files."""

    pixels: Pixels
    rows: NDArray[np.int64]


@final
@dataclass(frozen=True, config=STRICT)
class ImageFolderReader(Reader):
    """The middle square of each image, resized to ``image_size``; ``broken`` files are refused, or left out."""

    image_size: ImageSize = 64
    broken: Broken = "refuse"

    kind: ClassVar[str] = "pictures"
    unit: ClassVar[str] = "images"

    @classmethod
    def from_json(cls, plain: object) -> "ImageFolderReader":
        """What :meth:`to_json` gave."""
        try:
            return TypeAdapter(cls).validate_python(plain)
        except ValidationError as error:
            raise BadValue.of(error, "a reader of images") from None

    def to_json(self) -> dict[str, Any]:
        plain: dict[str, Any] = TypeAdapter(ImageFolderReader).dump_python(self, mode="json")
        return plain

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one image."""
        return (3, self.image_size, self.image_size)

    def fits(self, estimator: Invariant) -> bool:
        return estimator.input_shape_ == self.input_shape

    def kept(self, path: Path, columns: Sequence[str] | None) -> dict[str, pa.DataType]:
        """The names of the files; there is nothing else to copy."""
        if columns:
            raise BadValue(f"{path} holds images and no columns; leave out --id: the column file names each image")
        return {FILE: pa.string()}

    def size(self, path: Path) -> int:
        return len(_below(path)) if path.is_dir() else 1

    def batches(self, path: Path, notes: list[str], kept: Sequence[str] = (FILE,)) -> Iterator[SampleBatch]:
        """Every file below a folder, sorted by name; or one file."""
        names = _below(path) if path.is_dir() else [_file(path).name]
        for start, (pixels, rows) in self._decoded(path if path.is_dir() else path.parent, names, notes):
            yield SampleBatch(pixels, {FILE: pa.array([names[start + row] for row in rows], pa.string())})

    def labelled(self, path: Path, environment: str | None, notes: list[str]) -> Iterator[Rows]:
        if environment is not None:
            raise BadValue(f"the environments of {path} are its folders; leave out --environment")
        listed = tree(images_of(_folder(path)))
        labels, domain = np.array(listed.classes, dtype=object)[listed.label.numpy()], listed.domain.numpy()
        names = np.array(listed.domains, dtype=object)
        for start, (pixels, rows) in self._decoded(path, listed.files.names, notes):
            yield Rows(pixels, labels[start + rows], domain[start + rows], names)

    def read(self, path: Path) -> Rows:
        """All images with a label at once; their bytes stay in the cache's file."""
        listed = tree(images_of(_folder(path)))
        images, broken = pictures(listed.files, self.image_size, title=path.absolute().name or "images", broken=None)
        for i, reason in broken.items():
            if self.broken == "refuse" or len(broken) == len(images):
                raise _unreadable(path / listed.files.names[i], reason, len(broken))
        readable = np.ones(len(images), dtype=bool)
        readable[list(broken)] = False
        labels = np.array(listed.classes, dtype=object)[listed.label.numpy()]
        domains = np.array(listed.domains, dtype=object)
        rows = Rows(Pixels.of(images), labels, listed.domain.numpy(), domains).take(readable)
        return replace(rows, notes=_left_out([listed.files.names[i] for i in broken]))

    def _decoded(self, root: Path, names: Sequence[str], notes: list[str]) -> Iterator[tuple[int, _Decoded]]:
        """Images of files below ``root`` in their order, and the index of the first file of each batch."""
        unreadable: list[str] = []
        with ThreadPoolExecutor(cores()) as pool:
            for start in range(0, len(names), BATCH_IMAGES):
                batch = names[start : start + BATCH_IMAGES]
                images = list(pool.map(self._image, [root / name for name in batch]))
                rows = np.array([i for i, image in enumerate(images) if not isinstance(image, str)], dtype=np.int64)
                unreadable += [name for name, image in zip(batch, images, strict=True) if isinstance(image, str)]
                if len(rows):
                    yield start, _Decoded(Pixels.of(np.stack([images[i] for i in rows])), rows)
        notes += _left_out(unreadable)

    def _image(self, path: Path) -> Picture | str:
        """The image in a file, or why it cannot be read."""
        try:
            return read(path, self.image_size)
        except Exception as error:  # a decoder may raise anything
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            if self.broken == "refuse":
                raise _unreadable(path, reason) from None
            return reason


def image_folder_task(
    path: Path,
    reader: ImageFolderReader,
    *,
    test: Path | None,
    width: int | None = None,
    epochs: int | None = None,
    weights: Path | None = None,
    seed: int = 0,
) -> FitTask:
    """Training images and perhaps test images, read before anything is trained, so that a mistake shows at once."""
    rows = reader.read(path)
    tested = test_rows(reader.read(test), np.unique(rows.y), test) if test else None
    notes = (*rows.notes, *few_rows(rows), *(tested.notes if tested else ()))
    network: Architecture | None = ResNet(weights=str(weights)) if weights else None
    if not weights and not width and not epochs and len(rows) < FEW_IMAGES:
        network, notes = Edges(), (*notes, FEW)
    estimator = InvariantClassifier(
        recipe=_recipe(len(rows), reader.image_size, epochs), features=ResNet(width=width or WIDTH), random_state=seed
    )
    if network:
        estimator, rows = linear_classifier(seed), embedded(rows, network)
        tested = embedded(tested, network) if tested else None
    return FitTask(
        path,
        reader,
        rows,
        tested,
        estimator,
        "the class of an image",
        "its domain",
        {"images": path.absolute().name},
        notes if len(rows.names) > 1 else (*notes, SINGLE_DOMAIN),
        network=network,
    )


def saved_estimator(task: FitTask, estimator: Invariant) -> Invariant:
    """The fitted estimator that takes what the reader gives: images, where it was fitted to features of them."""
    if task.network is None or not isinstance(task.reader, ImageFolderReader):
        return estimator
    return of_images(estimator, task.network, task.reader.input_shape)


def _recipe(images: int, image_size: int, epochs: int | None) -> Recipe:
    """The default recipe for photographs, with shifts of up to a sixteenth of the image size."""
    updates_per_epoch = math.ceil(images / (recipe("default", PHOTOGRAPHS).batch_size or images))
    epochs = epochs or max(MIN_EPOCHS, math.ceil(MIN_UPDATES / updates_per_epoch))
    changes = {"epochs": epochs, "augment": {"shift": image_size // 16}}
    return recipe("default", PHOTOGRAPHS, changes=changes)


def _unreadable(path: Path, reason: str, files: int = 1) -> DataError:
    more = f", the first of {files:,} such files" if files > 1 else ""
    return DataError(
        f"{path} holds no readable image ({reason}){more}; repair it, or leave such files out: --broken skip"
    )


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise DataError(f"{path} is not a folder, and the model was fitted to images: give images in domain/class/")
    return path


def _file(path: Path) -> Path:
    if not path.is_file():
        raise DataError(f"there is no file or folder {path}; check its name")
    if path.suffix.lower() in TABLE_SUFFIXES:
        raise DataError(
            f"{path} is not an image, and the model was fitted to images: give a folder of images or one image, or a "
            "model that was fitted to a table"
        )
    return path


def _below(root: Path) -> list[str]:
    """Every file below a folder, sorted; hidden ones do not count."""
    names = []
    for place, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        paths = [Path(place) / name for name in files if not name.startswith(".")]
        names += [path.relative_to(root).as_posix() for path in paths if not _is_device(path)]
    if not names:
        raise DataError(f"{root} and the folders below it hold no images")
    require_utf8(root, names)
    return sorted(names)


def _is_device(path: Path) -> bool:
    """Whether a file would keep its reader waiting: a pipe, a socket, a device."""
    return path.exists() and not path.is_file()


def _left_out(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return ()
    more = f" and {len(names) - MAX_NAMES:,} more" if len(names) > MAX_NAMES else ""
    return (f"left out as not readable: {', '.join(names[:MAX_NAMES])}{more}",)
