"""CIFAR-10's binary format: records of a label byte and 32×32 red, green and blue bytes."""

import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from filelock import FileLock
from torch import Tensor

from invariance.core.atomic import atomic_write
from invariance.core.errors import DataError
from invariance.data.formats.downloads import File, data_folders, find

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32
EACH = 6000
"""Images of a class."""
FOLDER = "cifar-10-batches-bin"
ARCHIVE = File(
    "cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
)


class Records(NamedTuple):
    """Images [n, 3, 32, 32] of bytes and their classes [n], numbers into ``NAMES``."""

    pixels: Tensor
    classes: Tensor


class Batches(NamedTuple):
    """The files that train, and those that test."""

    train: tuple[Path, ...]
    test: tuple[Path, ...]


def located() -> Batches | None:
    """The files of a folder that is there; it may hold part of the images only."""
    for place in data_folders():
        if (folder := place / FOLDER).is_dir():
            found = Batches(tuple(sorted(folder.glob("data_batch_*.bin"))), tuple(folder.glob("test_batch.bin")))
            if not all(found):
                raise DataError(f"{folder} lacks data_batch_*.bin or test_batch.bin; unpack {ARCHIVE.name} again")
            return found
    return None


def batches() -> Batches:
    """The files, fetched and unpacked if need be."""
    return located() or _unpacked(find(ARCHIVE))


def _unpacked(archive: Path) -> Batches:
    target = data_folders()[-1]
    folder = target / FOLDER
    try:
        with FileLock(f"{folder}.lock"):
            if not folder.exists():  # another process may have been faster
                with atomic_write(folder, sync=True) as part, tarfile.open(archive) as packed:
                    packed.extractall(part, filter="data")
                    for file in list((part / FOLDER).iterdir()):
                        file.rename(part / file.name)
                    (part / FOLDER).rmdir()
    except (OSError, tarfile.TarError) as error:
        raise DataError(f"cannot unpack {archive} into {target} ({error}); unpack it there yourself") from None
    return batches()


def read(files: Sequence[Path]) -> Records:
    """All records of some files, however many there are."""
    pixels, classes = zip(*(_records(path) for path in files), strict=True)
    return Records(torch.cat(pixels), torch.cat(classes))


def _records(path: Path) -> Records:
    try:
        raw = np.fromfile(path, np.uint8)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    if not len(raw) or len(raw) % RECORD:
        raise DataError(
            f"{path} has {len(raw)} bytes, which is no multiple of {RECORD}: it is cut short or not in CIFAR-10's "
            f"binary format; unpack {ARCHIVE.name} again"
        )
    records = torch.from_numpy(raw).view(-1, RECORD)
    classes = records[:, 0].long()
    if (highest := int(classes.max())) >= len(NAMES):
        raise DataError(
            f"{path} has the label {highest} where CIFAR-10 has 0 to 9: it is not in its binary format; "
            f"unpack {ARCHIVE.name} again"
        )
    return Records(records[:, 1:].reshape(-1, *SHAPE), classes)
