"""Trees domain/class/image: the real PACS and VLCS at a small size, and trees with something wrong in them."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from invariance.core.environment import Benchmark
from invariance.core.errors import BadValue, DataError, UnknownName
from invariance.core.inputs import Pixels, loaded
from invariance.data.constructions.domains import images_of, tree
from invariance.data.folder import Folder
from invariance.data.images.image_files import read
from invariance.data.pacs import PACS
from invariance.data.vlcs import VLCS

SMALL = {"images": 60, "image_size": 8}


def rows(benchmark: Benchmark, part: str) -> dict[str, set[int]]:
    """Which files are in every environment."""
    return {e.name: set(e.x.rows.tolist()) for e in getattr(benchmark, part)}


@pytest.fixture
def pacs(given_folder) -> Benchmark:
    given_folder("PACS")
    return PACS(**SMALL).load(0)


@pytest.fixture
def own(tmp_path) -> Path:
    """Two domains of two classes with ten images each, of one grey an image."""
    for d, domain in enumerate(("day", "night")):
        for c, label in enumerate(("cat", "dog")):
            (tmp_path / domain / label).mkdir(parents=True)
            for i in range(10):
                grey = 100 * d + 20 * c + i
                Image.new("RGB", (12, 12), (grey, grey, grey)).save(tmp_path / domain / label / f"{i}.png")
    return tmp_path


def test_all_domains_are_tested_and_the_unseen_one_is_not_trained_on(pacs):
    assert [e.name for e in pacs.train] == [e.name for e in pacs.validation] == ["art_painting", "cartoon", "sketch"]
    assert [e.name for e in pacs.test] == ["art_painting", "cartoon", "photo", "sketch"]
    assert pacs.family.outputs == 7
    assert pacs.input_shape == (3, 8, 8)


def test_no_image_has_two_purposes_and_none_is_lost(pacs):
    every = [files for part in ("train", "validation", "test") for files in rows(pacs, part).values()]
    counted = torch.cat([e.x.rows for e in (*pacs.train, *pacs.validation, *pacs.test)])
    assert len(set().union(*every)) == len(counted)
    assert len(counted) == 60 * 3 + 60 // 5  # of the unseen domain only the test


def test_shares_are_as_asked_and_classes_in_proportion(given_folder):
    given_folder("PACS")
    benchmark = PACS(images=300, image_size=8, test=0.3, validation=0.2).load(0)
    found = tree(images_of(PACS().root(), 300))
    for part, share in (("train", 0.5), ("validation", 0.2), ("test", 0.3)):
        for e in getattr(benchmark, part):
            own = found.label[found.domain == found.domains.index(e.name)]
            assert abs(len(e) - share * len(own)) <= 1
            off = torch.bincount(e.y, minlength=7) - share * torch.bincount(own, minlength=7)
            assert off.abs().max() <= 1.5


def test_the_seed_decides_the_split_and_rows_are_mixed(given_folder, pacs):
    given_folder("PACS")
    again, other = (PACS(**SMALL).load(seed) for seed in (0, 1))
    assert rows(again, "train") == rows(pacs, "train")
    assert rows(other, "train") != rows(pacs, "train")
    assert not torch.equal(pacs.train[0].y, pacs.train[0].y.sort().values)


def test_labels_and_images_belong_together(own):
    benchmark = Folder(path=str(own), image_size=4).load(0)
    for e in (*benchmark.train, *benchmark.validation, *benchmark.test):
        assert isinstance(e.x, Pixels)
        grey = loaded(e.x)[:, 0, 0, 0].long()
        assert torch.equal((grey % 100) // 20, e.y)
        assert torch.equal(grey // 100, torch.full_like(grey, ["day", "night"].index(e.name)))


def test_every_domain_is_left_out_once(given_folder):
    given_folder("PACS")
    folds = PACS(**SMALL).folds()
    assert [fold.unseen for fold in folds] == ["art_painting", "cartoon", "photo", "sketch"]
    for fold in folds:
        assert fold.unseen not in [e.name for e in fold.load(0).train]


def test_without_an_unseen_domain_all_are_trained_on(own):
    assert [e.name for e in Folder(path=str(own), image_size=4).load(0).train] == ["day", "night"]


def test_an_unknown_domain_is_refused_with_the_ones_there_are(own):
    with pytest.raises(UnknownName, match="Did you mean 'night'"):
        Folder(path=str(own), unseen="nigth").load(0)


def test_a_part_of_vlcs_works_and_says_what_is_missing(given_folder):
    given_folder("VLCS")
    data = VLCS(image_size=8)
    state = data.availability()
    assert state.here == "partial"
    assert "LabelMe 77 of 2656, SUN09 55 of 3282, VOC2007 0 of 3376 images" in state.about
    benchmark = data.load(0)
    assert [e.name for e in benchmark.train] == ["Caltech101", "LabelMe"]
    assert [e.name for e in benchmark.test] == ["Caltech101", "LabelMe", "SUN09"]
    assert benchmark.family.outputs == 5  # LabelMe has no person here, its numbers stay the same
    assert 4 not in benchmark.train[1].y


def test_the_whole_of_pacs_is_complete_and_as_large_as_it_says(given_folder):
    given_folder("PACS")
    assert PACS().availability().here == "complete"
    size = PACS(**SMALL).size()
    assert abs(size.samples - sum(len(e) for e in PACS(**SMALL).load(0).train)) <= 3
    assert size.shape == (3, 8, 8)


def test_without_files_there_is_a_size_a_fingerprint_and_a_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("INVARIANCE_DATA", str(tmp_path))
    assert PACS().size().samples == round(0.7 * (2048 + 2344 + 3929))
    assert PACS().fingerprint() == "missing"
    assert PACS().availability().here == "missing"
    with pytest.raises(DataError, match="there is no folder PACS in"):
        PACS().load(0)


def test_the_fingerprint_changes_with_the_files_and_not_with_their_place(own, tmp_path_factory):
    first = Folder(path=str(own)).fingerprint()
    shutil.copytree(own, copy := tmp_path_factory.mktemp("copy") / "tree")
    assert Folder(path=str(copy)).fingerprint() == first
    (own / "day/cat/0.png").unlink()
    assert Folder(path=str(own)).fingerprint() != first


def test_a_changed_file_is_read_again(own):
    data = Folder(path=str(own), image_size=4)
    for light in (255, 7):
        Image.new("RGB", (12, 12), (light, light, light)).save(own / "day/cat/0.png")
        benchmark = data.load(0)
        assert any(light in loaded(e.x) for e in (*benchmark.train, *benchmark.validation, *benchmark.test))


def test_two_trees_that_differ_in_pixels_alone_are_not_taken_for_one_another(tmp_path):
    for light in (7, 255):
        for place in ("day/cat", "day/dog"):
            (folder := tmp_path / str(light) / place).mkdir(parents=True)
            for i in range(5):
                Image.new("L", (4, 4), light).save(path := folder / f"{i}.bmp")
                os.utime(path, (0, 0))
        assert (loaded(Folder(path=str(tmp_path / str(light)), image_size=4).load(0).train[0].x) == light).all()


@pytest.fixture
def wrong(own) -> list[str]:
    """Files of a tree that hold no image: empty, of text, cut off, and nearly an image."""
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(own / "day/dog/cut.jpg")
    whole = (own / "day/dog/cut.jpg").read_bytes()
    Image.fromarray(noise).save(own / "day/dog/cut.png")
    png = (own / "day/dog/cut.png").read_bytes()
    contents = {"empty.jpg": b"", "notes.txt": b"not an image\n", "cut.jpg": whole[:200], "cut.png": png[:300]}
    contents["damaged.png"] = png[:30] + bytes(40) + png[70:]
    for name, content in contents.items():
        (own / "day/dog" / name).write_bytes(content)
    (own / "day/dog/.hidden").write_bytes(b"")
    (own / "notes.md").write_text("beside the domains, which nobody looks at")
    return sorted(contents)


@pytest.mark.usefixtures("wrong")
def test_files_without_an_image_are_counted_and_refused(own):
    with pytest.raises(DataError, match=r"5 of 45 images of Folder cannot be read, the first is .*cut.jpg") as error:
        Folder(path=str(own), image_size=4).load(0)
    assert "\n" not in str(error.value)
    assert "damaged.png" in str(error.value)
    assert "set data.broken=skip" in str(error.value)


def test_or_they_are_named_and_left_out_if_so_asked(own, wrong, caplog):
    benchmark = Folder(path=str(own), image_size=4, broken="skip").load(0)
    files = images_of(own).names
    used = {files[row] for e in (*benchmark.train, *benchmark.validation, *benchmark.test) for row in e.x.rows.tolist()}
    assert len(used) == 40
    assert all(f"day/dog/{name}" in caplog.text for name in wrong)
    assert not [name for name in used if Path(name).name in wrong]


def test_links_that_lead_nowhere_and_folders_among_images_are_broken_too(own, caplog):
    (own / "day/cat/loop.png").symlink_to("loop.png")
    (own / "day/cat/gone.png").symlink_to("nowhere.png")
    (own / "day/cat/deeper").mkdir()
    with pytest.raises(DataError, match=r"3 of 43 .*they are .*deeper, .*gone\.png, .*loop\.png; put them right"):
        Folder(path=str(own), image_size=4).load(0)
    Folder(path=str(own), image_size=4, broken="skip").load(0)
    assert "left out" in caplog.text


def test_a_domain_that_cannot_be_entered_or_has_no_proper_name_is_refused_by_name(own):
    (own / "dusk").symlink_to("dusk")
    with pytest.raises(DataError, match=r"cannot read .*/dusk: Too many levels"):
        Folder(path=str(own)).load(0)
    (own / "dusk").unlink()
    (own / os.fsdecode(b"caf\xe9")).mkdir()
    with pytest.raises(DataError, match=r"holds 'caf\\udce9', whose name is not UTF-8; rename it"):
        Folder(path=str(own)).load(0)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"test": 0.04}, "day has 20 images, too few to keep the share data.test=0.04 of them"),
        ({"test": 0}, "raise data.test"),
        ({"test": 1}, r"data.test=1 and data.validation=0.1 leave no image of day to train on; lower them"),
        ({"test": 0.6, "validation": 0.6}, "leave no image of day to train on"),
        ({"images": 4, "unseen": "night"}, "day has 4 images, too few"),
    ],
)
def test_shares_that_leave_a_domain_out_of_training_or_test_are_refused(own, fields, message):
    with pytest.raises(DataError, match=message):
        Folder(path=str(own), image_size=4, **fields).load(0)


def test_a_domain_or_class_of_which_nothing_is_left_is_refused(own):
    for path in own.glob("*/dog/*"):
        path.write_bytes(b"")
    data = Folder(path=str(own), image_size=4, broken="skip")
    with pytest.raises(DataError, match="trains on one class alone, cat"):
        data.load(0)
    for path in own.glob("night/cat/*"):
        path.write_bytes(b"")
    with pytest.raises(DataError, match="no image of night can be read"):
        data.load(0)


def test_every_kind_of_image_becomes_three_colours_of_its_middle(tmp_path):
    wide = Image.new("RGB", (30, 10), "black")
    wide.paste((200, 100, 50), (10, 0, 20, 10))
    kinds = {"alpha.png": "RGBA", "grey.bmp": "L", "palette.gif": "P", "rgb.png": "RGB"}
    for name, mode in kinds.items():
        wide.convert(mode).save(tmp_path / name)
    alpha, grey, palette, rgb = (torch.tensor(read(tmp_path / name, 4)) for name in kinds)
    assert rgb[:, 2, 2].tolist() == alpha[:, 2, 2].tolist() == [200, 100, 50]
    assert (palette[:, 2, 2].int() - rgb[:, 2, 2].int()).abs().max() < 30
    assert grey[:, 2, 2].unique().numel() == 1
    assert (rgb == rgb[:, :1, :1]).all()  # nothing of the black sides


def test_a_photograph_is_turned_as_the_camera_noted(tmp_path):
    image = Image.new("RGB", (8, 8), "black")
    image.paste("white", (0, 0, 8, 4))  # the upper half
    noted = Image.Exif()
    noted[0x0112] = 6  # to be turned by a quarter, clockwise
    image.save(path := tmp_path / "turned.png", exif=noted)
    assert read(path, 8)[0, :, 0].max() == 0
    assert read(path, 8)[0, :, 7].min() == 255


def test_sixteen_bits_a_pixel_keep_their_contrast(tmp_path):
    Image.fromarray(np.array([[0, 64 << 8], [128 << 8, 65535]], np.uint16)).save(path := tmp_path / "deep.png")
    assert read(path, 2)[1].tolist() == [[0, 64], [128, 255]]


@pytest.mark.parametrize("kind", [np.float32, np.int32])
def test_numbers_of_no_known_range_are_no_image(tmp_path, kind):
    Image.fromarray(np.ones((2, 2), kind)).save(path := tmp_path / "raw.tif")
    with pytest.raises(DataError, match="8 or 16 bits"):
        read(path, 2)


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("", BadValue, "say where the images are"),
        ("nowhere", DataError, "cannot read nowhere: No such file"),
        ("empty", DataError, "holds no images; expected folders domain/class/ with images in them"),
    ],
)
def test_a_path_without_a_tree_is_refused_in_one_line(tmp_path, monkeypatch, path, error, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty/day/cat/deeper").mkdir(parents=True)
    with pytest.raises(error, match=message):
        Folder(path=path).load(0)
    assert Folder(path=path).availability().here == "missing"


def test_there_is_no_oracle_for_real_domains(own):
    with pytest.raises(BadValue, match="there is no oracle"):
        Folder(path=str(own)).load(0, oracle=True)
