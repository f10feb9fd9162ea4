"""CelebA: groups, noise, splits, and a folder that holds only a part."""

import shutil
from pathlib import Path

import pytest
import torch

from invariance.core.environment import Benchmark
from invariance.core.errors import BadValue, DataError
from invariance.core.seeding import generator
from invariance.data.celeba import ATTRIBUTES, IMAGES, PARTITION, CelebA, faces

SMALL = {"image_size": 8}


@pytest.fixture
def root(given_folder) -> Path:
    return given_folder("celeba")


def clean(root: Path, x) -> tuple[torch.Tensor, torch.Tensor]:
    """Who smiles and who is blond, by the official file."""
    found = faces(root, None).faces
    return found.smiling[x.rows], found.blond[x.rows]


@pytest.mark.parametrize("alpha", [0.0, 0.25])
def test_hair_agrees_with_the_label_as_asked_and_labels_are_as_noisy(root, alpha, assert_share):
    betas = (0.1, 0.2, 0.4)
    benchmark = CelebA(**SMALL, alpha=alpha, betas=betas).load(0)
    assert [e.name for e in benchmark.train] == [f"β={beta:g}" for beta in betas]
    for e, beta in zip(benchmark.train, betas, strict=True):
        smiling, blond = clean(root, e.x)
        assert_share(blond == e.y, 1 - beta)
        assert_share(smiling == e.y, 1 - alpha)
        assert_share(e.y == 1, 0.5)
        assert abs(int(e.y.sum()) * 2 - len(e)) <= 4
    for e, beta in zip(benchmark.validation, betas, strict=True):
        smiling, blond = clean(root, e.x)
        assert_share(blond == e.y, 1 - beta)
        assert_share(smiling == e.y, 1 - alpha)


def test_environments_have_one_size_and_the_smallest_group_is_used_up(root):
    benchmark = CelebA(**SMALL).load(0)
    assert max(len(e) for e in benchmark.train) - min(len(e) for e in benchmark.train) <= 8
    found = faces(root, None).faces
    used = torch.cat([e.x.rows for e in benchmark.train])
    left = {group: len(rows) - int(torch.isin(rows, used).sum()) for group, rows in found.pools(0, set()).items()}
    assert min(left.values()) <= 4
    assert abs(CelebA().size().samples - len(used)) == 0


def test_no_face_is_used_twice_in_training_and_none_is_in_training_and_test(root):
    benchmark = CelebA(**SMALL).load(0)
    train = torch.cat([e.x.rows for e in benchmark.train]).tolist()
    held = set(torch.cat([e.x.rows for e in benchmark.validation]).tolist())
    test = {row for look in benchmark.mechanism.inputs for row in look.rows.tolist()}
    assert len(set(train)) == len(train)
    assert not set(train) & test
    assert not set(train) & held
    assert not held & test


def test_test_faces_come_in_pairs_of_the_same_smile_black_and_blond_and_all_take_part(root):
    mechanism = CelebA(**SMALL).load(0).mechanism
    for hair, look in enumerate(mechanism.inputs):
        smiling, blond = clean(root, look)
        assert (blond == hair).all()
        assert torch.equal(smiling.bool(), mechanism.t)
    found = faces(root, None).faces
    rows = torch.cat([look.rows for look in mechanism.inputs])
    assert set(rows.tolist()) == set((found.part == 2).nonzero().flatten().tolist())
    assert mechanism.t.float().mean() == 0.5
    counts = rows.bincount()[found.pools(2, set())[0, 0]]
    assert counts.max() - counts.min() <= 1


def test_a_drawn_test_environment_shows_the_hair_that_its_bit_says(root, assert_share):
    e = CelebA(**SMALL, alpha=0).load(0).mechanism.environment(0.9, generator(0, "test"))
    smiling, blond = clean(root, e.x)
    assert torch.equal(smiling.float(), e.y)
    assert_share(blond == e.y, 0.1)


def rewritten(root: Path, folder: Path, monkeypatch, *, names=None, partition: dict[str, int] | None = None) -> Path:
    """A CelebA with links to some of the images, under other names if so asked."""
    monkeypatch.setenv("INVARIANCE_DATA", str(folder))
    place = folder / "celeba"
    (place / IMAGES).mkdir(parents=True)
    _, header, *lines = (root / ATTRIBUTES).read_text().splitlines()
    names = names or {line.split()[0]: line.split()[0] for line in lines[:400]}
    for old, new in names.items():
        (place / IMAGES / new).symlink_to(root / IMAGES / old)
    kept = [line.replace(line.split()[0], names[line.split()[0]]) for line in lines if line.split()[0] in names]
    (place / ATTRIBUTES).write_text("\n".join([str(len(kept)), header, *kept]) + "\n")
    if partition:
        (place / PARTITION).write_text("".join(f"{name} {part}\n" for name, part in partition.items()))
    return place


def test_official_numbers_split_officially(root, tmp_path, monkeypatch):
    """Images 1 to 600 under numbers of the official training, validation and test images."""
    starts = {0: 1, 1: 162_771, 2: 182_638}
    names = {f"{i:06d}.jpg": f"{starts[i % 3] + i:06d}.jpg" for i in range(1, 600)}
    place = rewritten(root, tmp_path, monkeypatch, names=names)
    found = faces(place, None)
    assert found.official
    for name, part in zip(found.faces.files.names, found.faces.part.tolist(), strict=True):
        number = int(Path(name).stem)
        assert part == (number > 162_770) + (number > 182_637)
    CelebA(**SMALL).load(0)


def test_a_partition_file_is_followed(root, tmp_path, monkeypatch):
    partition = {f"{i:06d}.jpg": i % 3 for i in range(1, 401)}
    found = faces(rewritten(root, tmp_path, monkeypatch, partition=partition), None)
    assert found.official
    assert found.faces.part.tolist() == [int(Path(name).stem) % 3 for name in found.faces.files.names]


def test_a_part_of_the_data_set_says_so_and_works_with_what_is_there(root):
    state = CelebA().availability()
    assert state.here == "partial"
    assert state.about.endswith(
        "10000 of 202599 images; without official test images of every group, the last fifth tests"
    )
    found = faces(root, None)
    assert not found.official
    part = found.faces.part
    assert torch.equal(part, part.sort().values)
    assert (part.bincount() / len(part)).tolist() == pytest.approx([0.7, 0.1, 0.2], abs=0.001)


def test_fewer_images_can_be_asked_for(root):
    benchmark = CelebA(**SMALL, images=300).load(0)
    assert len({row for look in benchmark.mechanism.inputs for row in look.rows.tolist()}) <= 60
    with pytest.raises(DataError, match=r"data\.images=8 leaves 8 faces of blond or black hair: too few"):
        faces(root, 8)


def test_other_tables_are_refused_in_one_line(root, tmp_path, monkeypatch):
    place = rewritten(root, tmp_path, monkeypatch)
    (place / ATTRIBUTES).write_text("3\nSmiling Bald\n000001.jpg 1 1\n")
    with pytest.raises(DataError, match="cannot be read as CelebA's table of attributes"):
        CelebA(**SMALL).load(0)
    (place / ATTRIBUTES).unlink()
    with pytest.raises(DataError, match=f"there is no {place / ATTRIBUTES}.* get it from https://mmlab"):
        CelebA(**SMALL).load(0)
    assert CelebA().availability().here == "missing"
    shutil.rmtree(place)
    with pytest.raises(DataError, match="there is no folder celeba"):
        CelebA(**SMALL).load(0)
    assert CelebA().fingerprint() == "missing"
    assert CelebA().size().samples > 1000


def test_a_broken_face_is_left_out_of_every_group(root, tmp_path, monkeypatch):
    place = rewritten(root, tmp_path, monkeypatch)
    found = faces(place, None).faces
    broken = Path(found.files.names[0]).name
    (place / IMAGES / broken).unlink()
    (place / IMAGES / broken).write_bytes(b"no image")
    with pytest.raises(DataError, match=broken):
        CelebA(**SMALL).load(0)
    benchmark: Benchmark = CelebA(**SMALL, broken="skip").load(0)
    assert not any((e.x.rows == 0).any() for e in benchmark.train)


def test_a_group_without_a_readable_test_face_is_refused(root, tmp_path, monkeypatch):
    found = faces(place := rewritten(root, tmp_path, monkeypatch), None).faces
    for row in found.pools(2, set())[1, 1]:
        (path := place / found.files.names[row]).unlink()
        path.write_bytes(b"no image")
    with pytest.raises(DataError, match="too few to train, validate and test"):
        CelebA(**SMALL, broken="skip").load(0)


def test_a_name_that_is_no_number_needs_a_partition(root, tmp_path, monkeypatch):
    rewritten(root, tmp_path, monkeypatch, names={f"{i:06d}.jpg": f"face{i}.jpg" for i in range(1, 400)})
    with pytest.raises(DataError, match=f"not named by numbers .* put {PARTITION} there"):
        CelebA(**SMALL).load(0)
    assert CelebA().availability().here == "missing"


def test_hair_cannot_be_taken_out(root):
    with pytest.raises(BadValue, match="there is no oracle on CelebA"):
        CelebA(**SMALL).load(0, oracle=True)
