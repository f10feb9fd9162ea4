"""Objects in folders of COCO's layout."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from filelock import FileLock
from PIL import Image

from invariance.core.atomic import atomic_write
from invariance.core.errors import DataError
from invariance.data.formats.digest import digest
from invariance.data.formats.downloads import cache_folder
from invariance.data.formats.masks import mask
from invariance.data.images.cache import Picture
from invariance.data.images.image_files import room_for

FORMAT = 1
"""Raised whenever the same annotations would give other objects than before."""


class Object(NamedTuple):
    """One object: its image's file, its class, what it must not be parted from, and its mask on an image of a size."""

    file: str
    name: str
    group: str
    height: int
    width: int
    segmentation: Any

    def __str__(self) -> str:
        return self.file


def objects(annotations: Path, names: tuple[str, ...], min_area: float) -> list[Object]:
    """The largest object of the named classes in every image, if it covers ``min_area`` pixels or more.

    Crowds, annotated as one, do not count. An annotation that tells which physical ``object`` it shows (ETH-80) puts
    all images of it into one group; elsewhere an image is a group of its own. The list is kept in the cache, since
    COCO's annotations take a while to read.
    """
    place = cache_folder() / "images" / f"objects-{_name(annotations, names, min_area)}.json"
    try:
        return [Object(*entry) for entry in json.loads(place.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):  # not there yet, or not whole
        found = _objects(annotations, names, min_area)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{place}.lock"), atomic_write(place) as part:
            part.write_text(json.dumps(found), encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"cannot write {place} ({error.strerror}); free some space there, or set INVARIANCE_CACHE to another folder"
        ) from None
    return found


def _name(annotations: Path, names: tuple[str, ...], min_area: float) -> str:
    decided = json.dumps([FORMAT, digest([annotations]), sorted(names), min_area])
    return hashlib.blake2b(decided.encode(), digest_size=8).hexdigest()


def _objects(annotations: Path, names: tuple[str, ...], min_area: float) -> list[Object]:
    try:
        whole = json.loads(annotations.read_text(encoding="utf-8"))
        wanted = {entry["id"]: entry["name"] for entry in whole["categories"] if entry["name"] in names}
        if missing := sorted(set(names) - set(wanted.values())):
            classes = ", ".join(sorted(entry["name"] for entry in whole["categories"]))
            raise DataError(
                f"{annotations} has no {missing[0]}; it has {classes}: choose data.super_classes among them"
            )
        largest: dict[int, dict[str, Any]] = {}
        for entry in whole["annotations"]:
            if entry["category_id"] in wanted and entry["area"] >= min_area and not entry.get("iscrowd"):
                before = largest.get(entry["image_id"])
                if before is None or entry["area"] > before["area"]:
                    largest[entry["image_id"]] = entry
        return [
            Object(
                image["file_name"],
                wanted[(entry := largest[image["id"]])["category_id"]],
                str(entry.get("object", image["file_name"])),
                image["height"],
                image["width"],
                entry["segmentation"],
            )
            for image in sorted(whole["images"], key=lambda image: image["file_name"])
            if image["id"] in largest
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(f"{annotations} cannot be read as COCO annotations ({reason}); fetch it again") from None


def pasted(item: Object, folder: Path, backgrounds: Sequence[Sequence[int]], pixels: int) -> Picture:
    """An object's image, each of k backgrounds in place of what surrounds it, resized; [k, 3, pixels, pixels]."""
    with Image.open(folder / item.file) as image, room_for(image):
        if image.size != (item.width, item.height):
            raise DataError(f"{image.width}×{image.height} pixels, not {item.width}×{item.height} as annotated")
        covered = mask(item.segmentation, item.height, item.width)
        colours = np.asarray(image.convert("RGB"))
    looks = [np.where(covered[:, :, None], colours, np.array(background, np.uint8)) for background in backgrounds]
    small = [Image.fromarray(look).resize((pixels, pixels), Image.Resampling.BILINEAR) for look in looks]
    return np.stack([np.asarray(look).transpose(2, 0, 1) for look in small])


def fingerprint(annotations: Path, folder: Path, names: tuple[str, ...], min_area: float) -> str:
    """What changes when an object or its image does: a hash of annotations and of what the files hold."""
    files = [folder / item.file for item in objects(annotations, names, min_area)]
    there = [path.is_file() for path in files]
    held = digest([path for path, is_there in zip(files, there, strict=True) if is_there])
    decided = json.dumps([_name(annotations, names, min_area), there, held])
    return hashlib.blake2b(decided.encode(), digest_size=16).hexdigest()
