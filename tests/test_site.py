"""The site: every public name is documented and in the reference, and pages are made of what the code says."""

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import invariance
from invariance.core.catalogue import defaults
from invariance.core.text import markdown_escape
from invariance.methods import METHODS
from invariance.methods.profile import profile
from invariance.recipes.presets import PRESETS

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def generators() -> Iterator[ModuleType]:
    """The package that writes pages of the site."""
    pytest.importorskip("sphinx", reason="needs Sphinx: pip install '.[docs]'")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs")
        for name in ("methods", "reference", "commands", "catalogue", "docstrings"):
            importlib.import_module(f"generators.{name}")
        yield sys.modules["generators"]
    for name in [name for name in sys.modules if name.split(".")[0] == "generators"]:
        del sys.modules[name]


def public(name: str) -> Iterator[tuple[str, object]]:
    """A public name, and if it is a class, what it defines for others to call."""
    value = getattr(invariance, name)
    yield name, value
    if inspect.isclass(value):
        for member, found in vars(value).items():
            kinds = (property, classmethod, staticmethod)
            if not member.startswith("_") and (inspect.isfunction(found) or isinstance(found, kinds)):
                yield f"{name}.{member}", getattr(value, member)


@pytest.mark.parametrize("name", invariance.__all__)
def test_every_public_name_has_a_docstring(name):
    assert [path for path, value in public(name) if not (inspect.getdoc(value) or "").strip()] == []


def test_the_reference_has_a_page_for_every_export_and_no_other(generators):
    pages = dict(generators.reference.pages())
    index = pages.pop("api/index.md")
    assert {Path(path).stem for path in pages} == set(invariance.__all__)
    for name in invariance.__all__:
        kind = "class" if inspect.isclass(getattr(invariance, name)) else "function"
        assert f".. auto{kind}:: invariance.{name}\n" in pages[f"api/{name}.md"]
        assert f"[`{name}`]({name}.md)" in index
        assert f"\n{name}\n" in index  # in the table of contents, too


@pytest.mark.parametrize("name", METHODS.classes)
def test_a_page_of_a_method_shows_its_fields_as_they_are_used(generators, name):
    page = dict(generators.methods.pages({}))[f"methods/{name}.md"]
    cls, used = METHODS[name], profile(name).method
    for field, default in defaults(cls).items():
        (row,) = re.findall(rf"^\| `{field}` \| `(.*?)` \| `(.*?)` \| (.+) \|$", page, re.MULTILINE)
        for shown, value in zip(row, (default, getattr(used, field)), strict=False):
            assert shown == (f"{value:.6g}" if isinstance(value, float) else str(value))
    assert all(f"{i}. " in page for i, _ in enumerate(cls.differs, 1))
    assert "\\begin{aligned}" in page
    assert "There are no published runs of this method yet." in page


def test_every_command_and_every_recipe_is_listed(generators):
    import typer

    from invariance.cli import app

    (page,) = dict(generators.commands.pages()).values()
    for name in typer.main.get_command(app).commands:
        assert f"## `invariance {name}`" in page
    recipes = generators.catalogue._recipes()
    assert all(f"| `{name}`" in recipes for name in PRESETS)
    for name, preset in PRESETS.items():
        assert all(f"- `{name}`: {markdown_escape(sentence)}\n" in recipes for sentence in preset.differs)


def test_a_dead_link_is_found(tmp_path):
    check = importlib.util.spec_from_file_location("check_links", ROOT / "docs" / "check_links.py")
    module = importlib.util.module_from_spec(check)
    check.loader.exec_module(module)
    (tmp_path / "a.html").write_text(
        '<h1 id="top"></h1><a href="b.html#here">b</a> <a href="https://example.org">x</a>'
    )
    (tmp_path / "b.html").write_text('<a id="here" href="a.html#top">a</a>')
    assert list(module.dead(tmp_path)) == []
    (tmp_path / "b.html").write_text('<a href="a.html#gone">a</a> <img src="c.png">')
    assert sorted(module.dead(tmp_path)) == ["a.html: b.html#here", "b.html: a.html#gone", "b.html: c.png"]


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for path in (ROOT / "docs").rglob("*.md"):
        for body in re.findall(r"```\{toctree\}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            entries = [line for line in body.splitlines() if line and not line.startswith(":")]
            listed |= {(path.parent / entry).resolve() for entry in entries}
    pages = [p for p in (ROOT / "docs").rglob("*.md") if not {"generated", "_build"} & set(p.parts)]
    left_out = [p.name for p in pages if p.with_suffix("").resolve() not in listed]
    assert sorted(left_out) == ["benchmarks.template.md", "index.md", "results.template.md"]
