import xml.etree.ElementTree as ET

import pytest
from PIL import Image

pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'invariance[report]'")

from invariance.core.artefacts import Boxes, Figure, Lines, Surface, Table
from invariance.report.render.matplotlib_figures import draw


@pytest.mark.parametrize(
    ("names", "how"),
    [
        pytest.param("ordinary", "png", marks=pytest.mark.slow),
        *(("hostile", how) for how in ("png", "svg", "pdf")),
    ],
    indirect=["names"],
)
def test_every_artefact_is_drawn(artefacts, tmp_path, how):
    for artefact in artefacts:
        draw(artefact, path := tmp_path / f"{artefact.name}.{how}", how)
        if how == "png":
            with Image.open(path) as picture:
                picture.load()
                assert min(picture.size) > 300
                assert len(picture.convert("RGB").getcolors(1 << 20)) > 10
        elif how == "svg":
            assert ET.parse(path).getroot().tag.endswith("svg")
        else:
            assert path.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("how", ["png", "svg", "pdf"])
def test_the_same_artefact_gives_the_same_file(boxes, tmp_path, how):
    one, two = tmp_path / f"1.{how}", tmp_path / f"2.{how}"
    draw(boxes, one, how)
    draw(boxes, two, how)
    assert one.read_bytes() == two.read_bytes()


def test_nothing_is_drawn_without_an_error(tmp_path):
    empty = Figure("f", "", "", (Lines("", "x", "y", ()), Boxes("", "y", {"a": ()})))
    draw(empty, tmp_path / "f.png", "png")
    draw(Table("t", "", "", "method", (), ()), tmp_path / "t.png", "png")
    for name in ("f.png", "t.png"):
        with Image.open(tmp_path / name) as picture:
            assert min(picture.size) > 0


def test_a_flat_surface_is_drawn(tmp_path):
    flat = Surface("", "x", "y", "z", (0.0, 1.0), (0.0, 1.0), ((1.0, 1.0), (1.0, 1.0)))
    draw(Figure("f", "", "", (flat,)), tmp_path / "f.png", "png")
    with Image.open(tmp_path / "f.png") as picture:
        assert min(picture.size) > 100
