import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from invariance.core.errors import DataError
from invariance.data.images.coco import Object, fingerprint, objects, pasted

RED, BLUE, GREEN = (255, 0, 0), (0, 0, 255), (0, 128, 0)
LEFT = [[0, 0, 4, 0, 4, 8, 0, 8]]
"""The left half of an image of 8×8."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("INVARIANCE_CACHE", str(tmp_path / "cache"))


def annotation(image: int, category: int, area: float, **more: object) -> dict:
    return {"image_id": image, "category_id": category, "area": area, "segmentation": LEFT, "iscrowd": 0, **more}


def written(folder: Path, *annotations: dict, images: int = 3) -> Path:
    whole = {
        "categories": [{"id": 10, "name": "dog"}, {"id": 20, "name": "car"}, {"id": 30, "name": "person"}],
        "images": [{"id": i, "file_name": f"{i}.jpg", "height": 8, "width": 8} for i in range(images)],
        "annotations": list(annotations),
    }
    (path := folder / "instances.json").write_text(json.dumps(whole))
    return path


def found(path: Path, *names: str, min_area: float = 0) -> list[tuple[str, str]]:
    return [(item.file, item.name) for item in objects(path, names, min_area)]


def test_an_image_gives_the_largest_object_of_the_named_classes(tmp_path):
    path = written(
        tmp_path,
        annotation(1, 10, 50),
        annotation(1, 20, 60),
        annotation(1, 30, 999),
        annotation(0, 20, 40),
        annotation(0, 10, 30),
        annotation(2, 30, 70),
    )
    assert found(path, "dog", "car") == [("0.jpg", "car"), ("1.jpg", "car")]
    assert found(path, "dog") == [("0.jpg", "dog"), ("1.jpg", "dog")]


def test_small_objects_and_crowds_do_not_count(tmp_path):
    path = written(tmp_path, annotation(0, 10, 49.9), annotation(1, 10, 50), annotation(2, 10, 99, iscrowd=1))
    assert found(path, "dog", min_area=50) == [("1.jpg", "dog")]


def test_images_of_one_physical_object_are_one_group(tmp_path):
    path = written(tmp_path, *(annotation(i, 10, 50, object=f"dog{i // 2}") for i in range(3)))
    assert [item.group for item in objects(path, ("dog",), 0)] == ["dog0", "dog0", "dog1"]
    path = written(tmp_path, *(annotation(i, 10, 50) for i in range(3)))
    assert [item.group for item in objects(path, ("dog",), 0)] == ["0.jpg", "1.jpg", "2.jpg"]


def test_what_is_kept_is_what_was_read_and_follows_the_annotations(tmp_path):
    path = written(tmp_path, annotation(0, 10, 50))
    first, again = (objects(path, ("dog",), 0) for _ in range(2))
    assert first == again
    assert len(list((tmp_path / "cache" / "images").glob("*.json"))) == 1
    written(tmp_path, annotation(0, 10, 50), annotation(1, 10, 50))
    assert len(objects(path, ("dog",), 0)) == 2
    for kept in (tmp_path / "cache" / "images").glob("*.json"):
        kept.write_text("[[1")
    assert len(objects(path, ("dog",), 0)) == 2


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"categories": 3}', '{"categories": [{}]}'])
def test_annotations_that_cannot_be_read_are_refused_in_one_line(tmp_path, text):
    (path := tmp_path / "instances.json").write_text(text)
    with pytest.raises(DataError, match="cannot be read as COCO annotations") as caught:
        objects(path, ("dog",), 0)
    assert "\n" not in str(caught.value)


def test_a_class_that_is_not_there_is_named_with_those_that_are(tmp_path):
    with pytest.raises(DataError, match="has no cow; it has car, dog, person"):
        objects(written(tmp_path), ("dog", "cow"), 0)


def test_an_object_keeps_its_pixels_and_loses_what_surrounds_it(tmp_path):
    Image.new("RGB", (8, 8), RED).save(tmp_path / "0.png")
    item = Object("0.png", "dog", "", 8, 8, LEFT)
    looks = pasted(item, tmp_path, (BLUE, GREEN), 8)
    assert looks.shape == (2, 3, 8, 8)
    for look, background in zip(looks, (BLUE, GREEN), strict=True):
        assert (look[:, :, :4] == np.array(RED).reshape(3, 1, 1)).all()
        assert (look[:, :, 4:] == np.array(background).reshape(3, 1, 1)).all()


def test_looks_are_resized_and_mix_at_the_edge_of_the_object_alone(tmp_path):
    Image.new("L", (8, 8), 200).save(tmp_path / "0.png")
    small = pasted(Object("0.png", "dog", "", 8, 8, LEFT), tmp_path, ((0, 0, 0),), 4)[0]
    assert small.shape == (3, 4, 4)
    assert (small[:, :, 0] == 200).all()
    assert (small[:, :, 3] == 0).all()


def test_an_image_of_another_size_than_annotated_is_refused(tmp_path):
    Image.new("RGB", (9, 8)).save(tmp_path / "0.png")
    with pytest.raises(DataError, match="9×8 pixels, not 8×8"):
        pasted(Object("0.png", "dog", "", 8, 8, LEFT), tmp_path, (BLUE,), 8)


def test_the_fingerprint_follows_annotations_and_files(tmp_path):
    path = written(tmp_path, annotation(0, 10, 50))
    (photographs := tmp_path / "photographs").mkdir()
    seen = [fingerprint(path, photographs, ("dog",), 0)]
    (photographs / "0.jpg").write_bytes(b"some")
    seen.append(fingerprint(path, photographs, ("dog",), 0))
    written(tmp_path, annotation(0, 10, 51))
    seen.append(fingerprint(path, photographs, ("dog",), 0))
    assert len(set(seen)) == 3
    assert fingerprint(path, photographs, ("dog",), 0) == seen[-1]
