"""An image that is replaced in place, by one of the same name, size and time, makes other runs of every collection."""

import json
import os
from pathlib import Path

import pytest

from invariance.data.celeba import ATTRIBUTES, IMAGES, CelebA
from invariance.data.colored_object import ColoredObject
from invariance.data.pacs import PACS
from invariance.data.vlcs import VLCS
from invariance.experiments.spec import Spec

BOX = [0, 0, 7, 0, 7, 7, 0, 7]


def domains(root: Path) -> list[Path]:
    return [root / domain / label / "0.jpg" for domain in ("photo", "sketch") for label in ("cat", "dog")]


def celeba(root: Path) -> list[Path]:
    root.mkdir()
    (root / ATTRIBUTES).write_text("2\nSmiling Blond_Hair Black_Hair\n1.jpg 1 1 -1\n2.jpg -1 -1 1\n")
    return [root / IMAGES / name for name in ("1.jpg", "2.jpg")]


def coco(root: Path) -> list[Path]:
    (annotations := root / "annotations").mkdir(parents=True)
    names = [name for names in ColoredObject()._classes() for name in names]
    plain = {
        "categories": [{"id": i, "name": name} for i, name in enumerate(names)],
        "images": [{"id": 0, "file_name": "0.jpg", "height": 8, "width": 8}],
        "annotations": [{"id": 0, "image_id": 0, "category_id": 0, "area": 1e6, "iscrowd": 0, "segmentation": [BOX]}],
    }
    (annotations / "instances_train2017.json").write_text(json.dumps(plain))
    return [root / "train2017" / "0.jpg"]


COLLECTIONS = {
    "pacs": (PACS, "PACS", domains),
    "vlcs": (VLCS, "VLCS", domains),
    "celeba": (CelebA, "celeba", celeba),
    "colored-object": (ColoredObject, "coco", coco),
}


@pytest.mark.parametrize("name", COLLECTIONS)
def test_a_replaced_image_makes_another_run(name, tmp_path, monkeypatch):
    data, folder, made = COLLECTIONS[name]
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path))
    paths = made(tmp_path / folder)
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"one image")
    before, key = data().fingerprint(), Spec.of(name, "erm", "short").key
    assert before != "missing"
    for path in paths:
        stat = path.stat()
        path.write_bytes(b"two image")
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert data().fingerprint() != before
    assert Spec.of(name, "erm", "short").key != key
    for path in paths:
        path.write_bytes(b"one image")
    assert data().fingerprint() == before
