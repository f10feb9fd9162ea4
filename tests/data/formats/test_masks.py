import json

import numpy as np
import pytest

from invariance.core.errors import DataError
from invariance.data.formats.masks import mask, unpacked


def drawn(*rows: str) -> np.ndarray:
    return np.array([[pixel == "#" for pixel in row] for row in rows])


SQUARE = drawn("....", ".##.", ".##.", "....")


def packed(runs: list[int]) -> str:
    """COCO's text for run lengths, written from its description."""
    text = ""
    for i, run in enumerate(runs):
        number = run - runs[i - 2] if i > 2 else run
        while True:
            digit, number = number & 31, number >> 5
            last = number == (-1 if digit & 16 else 0)
            text += chr(48 + digit + (0 if last else 32))
            if last:
                break
    return text


def runs(covered: np.ndarray) -> list[int]:
    """Run lengths down the columns, counted one by one."""
    counts, now = [0], False
    for pixel in covered.T.flatten().tolist():
        if pixel != now:
            counts.append(0)
            now = pixel
        counts[-1] += 1
    return counts


def shoelace(points: list[float]) -> float:
    x, y = np.array(points).reshape(-1, 2).T
    return abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2


def test_a_square_is_the_same_in_every_notation():
    assert np.array_equal(mask([[1, 1, 3, 1, 3, 3, 1, 3]], 4, 4), SQUARE)
    assert np.array_equal(mask({"size": [4, 4], "counts": [5, 2, 2, 2, 5]}, 4, 4), SQUARE)
    assert np.array_equal(mask({"size": [4, 4], "counts": "52203"}, 4, 4), SQUARE)


def test_runs_go_down_the_columns():
    tall = drawn("#..", "#..")
    assert np.array_equal(mask({"size": [2, 3], "counts": [0, 2, 4]}, 2, 3), tall)
    assert np.array_equal(mask([[0, 0, 1, 0, 1, 2, 0, 2]], 2, 3), tall)


def test_a_triangle_covers_the_pixels_whose_centre_it_holds():
    assert np.array_equal(mask([[0, 0, 4.2, 0, 0, 4.2]], 4, 4), drawn("####", "###.", "##..", "#..."))
    assert np.array_equal(mask([[0, 0, 3.8, 0, 0, 3.8]], 4, 4), drawn("###.", "##..", "#...", "...."))


@pytest.mark.parametrize("order", [1, -1])
def test_a_polygon_may_run_either_way_and_start_anywhere(order):
    corners = [(1, 1), (3, 1), (3, 3), (1, 3)][::order]
    for start in range(4):
        points = [c for corner in corners[start:] + corners[:start] for c in corner]
        assert np.array_equal(mask([points], 4, 4), SQUARE)


def test_a_dent_is_not_covered():
    u = [0, 0, 1, 0, 1, 2, 2, 2, 2, 0, 3, 0, 3, 3, 0, 3]
    assert np.array_equal(mask([u], 3, 3), drawn("#.#", "#.#", "###"))


def test_several_polygons_are_their_union_where_they_overlap_too():
    left, right = [0, 0, 2, 0, 2, 1, 0, 1], [1, 0, 4, 0, 4, 1, 1, 1]
    assert np.array_equal(mask([left, right], 2, 4), drawn("####", "...."))


def test_what_lies_outside_the_image_is_cut_off():
    assert mask([[-5, -5, 50, -5, 50, 50, -5, 50]], 3, 5).all()
    assert np.array_equal(mask([[2, -9, 9, -9, 9, 9, 2, 9]], 2, 3), drawn("..#", "..#"))


def test_the_area_of_a_random_polygon_is_the_one_the_formula_gives():
    rng = np.random.default_rng(0)
    for corners in (3, 5, 40):
        angles = np.sort(rng.uniform(0, 2 * np.pi, corners))
        radius = rng.uniform(60, 140, corners)
        points = np.stack([150 + radius * np.cos(angles), 150 + radius * np.sin(angles)], 1).flatten().tolist()
        assert mask([points], 300, 300).sum() == pytest.approx(shoelace(points), rel=0.01)


def test_numbers_of_several_digits_and_of_either_sign_are_unpacked():
    assert unpacked("T3") == [100]
    assert unpacked("52203") == [5, 2, 2, 2, 5]
    counts = [0, 100_000, 15, 3, 16, 70_000, 31, 32, 1, 1023, 1024]
    assert unpacked(packed(counts)) == counts


def test_a_random_mask_comes_back_from_its_runs():
    covered = np.random.default_rng(1).random((37, 53)) < 0.4
    for counts in (runs(covered), packed(runs(covered))):
        assert np.array_equal(mask({"size": [37, 53], "counts": counts}, 37, 53), covered)


def test_a_line_among_polygons_covers_nothing():
    square = [1, 1, 3, 1, 3, 3, 1, 3]
    assert np.array_equal(mask([square, [0, 0, 4, 4]], 4, 4), mask([square], 4, 4))


@pytest.mark.parametrize(
    ("segmentation", "message"),
    [
        ([[0, 0, 1, 1]], "4 coordinates"),
        ([[0, 0, 1, 1, 2]], "5 coordinates"),
        ({"size": [4, 4], "counts": [5, 2]}, "do not add up"),
        ({"size": [4, 4], "counts": [20, -4]}, "do not add up"),
        ({"size": [4, 4], "counts": "5 2"}, "character ' '"),
        ({"size": [4, 4], "counts": "T"}, "within a number"),
        ({"size": [9, 4], "counts": [16]}, "4×9 pixels on an image of 4×4"),
        ({"counts": [16]}, "neither"),
        (None, "neither"),
    ],
)
def test_a_broken_mask_is_refused_in_one_line(segmentation, message):
    with pytest.raises(DataError, match=message) as caught:
        mask(segmentation, 4, 4)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("folder", "file"),
    [("coco", "annotations/instances_train2017.json"), ("eth80-coco", "annotations/instances.json")],
)
def test_masks_have_the_area_and_the_box_that_their_annotation_names(given_folder, folder, file):
    whole = json.loads((given_folder(folder) / file).read_text())
    images = {image["id"]: image for image in whole["images"]}
    for annotation in whole["annotations"][::20] if len(whole["annotations"]) > 500 else whole["annotations"]:
        image = images[annotation["image_id"]]
        covered = mask(annotation["segmentation"], image["height"], image["width"])
        exact = isinstance(annotation["segmentation"], dict)
        assert covered.sum() == pytest.approx(annotation["area"], rel=0 if exact else 0.01)
        rows, columns = np.nonzero(covered)
        left, top, width, height = annotation["bbox"]
        found = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
        assert found == pytest.approx((left, top, left + width, top + height), abs=0 if exact else 5)  # thin tips
