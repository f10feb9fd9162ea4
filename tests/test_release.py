"""What belongs to a release says the same everywhere."""

import re
from pathlib import Path

import yaml

import invariance

ROOT = Path(__file__).parents[1]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_citation_has_the_version_of_the_package():
    assert yaml.safe_load(text("CITATION.cff"))["version"] == invariance.__version__


def test_the_citation_has_the_date_of_the_release_in_the_changelog():
    released = yaml.safe_load(text("CITATION.cff"))["date-released"]
    assert f"## [{invariance.__version__}] - {released}" in text("CHANGELOG.md")


def test_pre_commit_runs_what_make_lint_runs():
    lint = re.search(r"^lint: .*\n((?:\t.*\n)+)", text("Makefile"), re.MULTILINE).group(1)
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in lint.splitlines()]
    hooks = [
        hook["entry"] for repo in yaml.safe_load(text(".pre-commit-config.yaml"))["repos"] for hook in repo["hooks"]
    ]
    assert hooks == commands


def test_issue_forms_ask_for_what_is_needed():
    forms = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"))
    assert [form.stem for form in forms] == ["bug", "idea", "numbers"]
    for form in forms:
        plain = yaml.safe_load(form.read_text(encoding="utf-8"))
        assert plain.keys() == {"name", "description", "labels", "body"}
        assert any(part.get("validations", {}).get("required") for part in plain["body"])
    assert "invariance doctor" in text(".github/ISSUE_TEMPLATE/bug.yml")


def test_every_page_that_a_release_needs_is_here():
    for name in ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md"):
        assert len(text(name)) > 200
    for page in ("stability-policy", "command-line"):
        assert page in text("docs/index.md").split()


def test_supported_interpreters_are_those_that_are_tested():
    listed = re.findall(r"Python :: (3\.\d+)", text("pyproject.toml"))
    tried = re.search(r"for python in (.*);", text("Makefile")).group(1).split()
    assert tried == [f"python{version}" for version in listed]


def test_the_wheel_as_installed_the_versions_and_the_site_are_checked_on_every_push():
    (job,) = yaml.safe_load(text(".github/workflows/checks.yml"))["jobs"].values()
    targets = re.findall(r"^([\w-]+):", text("Makefile"), re.MULTILINE)
    assert {"test", "test-wheel", "test-versions", "docs"} <= {*job["strategy"]["matrix"]["target"]} <= {*targets}
