"""MNIST's file format, IDX."""

import gzip
import zlib

import numpy as np
import torch
from torch import Tensor

from invariance.core.errors import DataError
from invariance.data.formats.downloads import File, find


def read(file: File) -> Tensor:
    """The array in a gzipped IDX file of unsigned bytes."""
    path = find(file)
    try:
        raw = gzip.decompress(path.read_bytes())
        shape = np.frombuffer(raw, ">u4", count=raw[3], offset=4)
        return torch.from_numpy(np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape).copy())
    except (OSError, EOFError, zlib.error, ValueError, IndexError) as error:
        raise DataError(f"{path} cannot be read as a gzipped IDX file ({error})") from None


def published(folder: str, mirrors: tuple[str, ...], hashes: tuple[str, str, str, str]) -> tuple[File, ...]:
    """The four files of an MNIST-like data set: training images and labels, test images and labels."""
    names = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    return tuple(
        File(f"{folder}/{name}", sha256, tuple(mirror + name for mirror in mirrors))
        for name, sha256 in zip(names, hashes, strict=True)
    )
