"""Sphinx configuration. Everything that a page needs comes with the installed packages: no network is used."""

import sys
from importlib.metadata import files
from pathlib import Path

from sphinx_gallery.sorting import FileNameSortKey

import invariance

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "invariance"
author = "The invariance developers"
copyright = "2026, the invariance developers. BSD-3-Clause"  # noqa: A001
version = release = invariance.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "generators.docstrings",
]
exclude_patterns = [
    "_build",
    "results.template.md",
    "benchmarks.template.md",
    "generators",
    "generated/gallery/*.ipynb",
]
suppress_warnings = ["config.cache"]

html_theme = "furo"
html_title = "invariance"
html_favicon = "_static/mark.svg"
html_logo = "_static/mark.svg"
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
templates_path: list[str] = []

myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE / "_build" / "notebooks")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
autodoc_preserve_defaults = True

mathjax_file = next(file for file in files("sphinx-mathjax-offline") or () if file.name == "tex-svg.js")
html_static_path = ["_static", str(mathjax_file.locate())]
mathjax_path = "tex-svg.js"
mathjax3_config = {"options": {"enableMenu": False}, "svg": {"fontCache": "none"}}

copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = ">>> "

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"\.py$",
    "ignore_pattern": "lightning",  # which this site does not install; the page on other loops shows it
    "within_subsection_order": FileNameSortKey,
    "download_all_examples": False,
    "notebook_extensions": set(),
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "plot_gallery": True,
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "reset_modules": ("matplotlib", "generators.docstrings.plain_sklearn"),
    "backreferences_dir": None,
    "thumbnail_size": (480, 320),
}
