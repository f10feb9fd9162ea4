"""What every format holds to, whatever it writes."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from invariance.core.artefacts import Artefact
from invariance.core.errors import BadValue
from invariance.report.export import Folder
from invariance.report.formats import FORMATS
from invariance.report.formats.base import FileFormat, FolderFormat
from invariance.report.render.palette import palette

KINDS = ("table", "lines", "boxes", "surface", "histories")
OF_FILES = [name for name, cls in FORMATS.classes.items() if issubclass(cls, FolderFormat)]

every_format = pytest.mark.parametrize("form", [cls() for cls in FORMATS.classes.values()], ids=list(FORMATS.classes))


@every_format
def test_a_format_says_what_it_writes_and_where_to(form):
    assert form.about
    assert form.output
    assert isinstance(form, FileFormat | FolderFormat)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OF_FILES)
def test_every_kind_of_table_and_figure_becomes_a_file_of_its_name(name, kind, request, tmp_path):
    artefact = request.getfixturevalue(kind)
    folder = Folder(tmp_path / "files", palette([artefact]))
    FORMATS[name]().add(artefact, folder)
    files = list(folder.path.iterdir())
    assert len(files) == folder.files >= 1
    assert {path.stem for path in files} == {artefact.name}
    assert all(path.stat().st_size for path in files)


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(cls(), id=name, marks=pytest.mark.slow if name in ("pdf", "svg") else ())  # drawn as PNG is
        for name, cls in FORMATS.classes.items()
    ],
)
@pytest.mark.parametrize("names", ["hostile"], indirect=True)
def test_a_whole_page_is_written_whatever_its_names_are(form, page, tmp_path):
    path = tmp_path / form.output
    form.check(path)
    assert str(path) in form.write(page, path)
    files = [path] if path.is_file() else list(path.iterdir())
    assert all(each.stat().st_size for each in files)
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("name", OF_FILES)
def test_a_figure_in_which_nothing_is_drawn_is_left_out(name, boxes, tmp_path):
    class TwoFigures:
        """As much of a page as is written to files."""

        def artefacts(self, *, folded: bool) -> Iterator[Artefact]:
            yield from (boxes, replace(boxes, name="empty", panels=()))

    FORMATS[name]().write(TwoFigures(), tmp_path / "files")
    stems = {path.stem for path in (tmp_path / "files").iterdir()}
    assert boxes.name in stems
    assert "empty" not in stems


@every_format
def test_a_path_that_cannot_be_written_is_refused_beforehand(form, tmp_path):
    (tmp_path / "file").touch()
    wrong = tmp_path if isinstance(form, FileFormat) else tmp_path / "file"
    for path in (wrong, tmp_path / "nowhere" / form.output):
        with pytest.raises(BadValue, match="cannot write"):
            form.check(path)
