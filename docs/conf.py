"""Sphinx configuration."""

project = "invariance"
author = "The invariance developers"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "invariance"
exclude_patterns = ["_build", "results.template.md"]
myst_heading_anchors = 2
