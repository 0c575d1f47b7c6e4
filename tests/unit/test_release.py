"""The checks of `.ci/release.py` before distributions are published."""

from __future__ import annotations

import importlib.util
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "release.py"


@pytest.fixture(scope="module")
def release() -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("release_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_wheel(folder: Path, *, metadata: str) -> Path:
    """Write a wheel that contains nothing but its metadata."""
    path = folder / "ragstone-1.2.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("ragstone-1.2.0.dist-info/METADATA", f"Metadata-Version: 2.4\nName: ragstone\n{metadata}")
    return path


def test_a_release_without_addresses_is_refused(release, tmp_path, capsys):
    """A wheel without `Project-URL` is an error before publishing, and a warning otherwise. A link in its text does not count."""
    wheel = make_wheel(tmp_path, metadata="Version: 1.2.0\n\nReadme\nProject-URL: Source, https://example.org\n")
    with pytest.raises(SystemExit, match=r"ragstone-1\.2\.0-py3-none-any\.whl: \[project\.urls\] is missing"):
        release.check_addresses([wheel], required=True)
    release.check_addresses([wheel], required=False)
    assert "warning: ragstone-1.2.0-py3-none-any.whl: [project.urls] is missing" in capsys.readouterr().out


def test_a_release_with_addresses_is_accepted(release, tmp_path, capsys):
    """A wheel with an address is accepted without a message."""
    wheel = make_wheel(tmp_path, metadata="Project-URL: Source, https://example.org\n\nReadme\n")
    release.check_addresses([wheel], required=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("citation", ["version: 1.1.0\n", "title: Ragstone\n"])
def test_the_citation_has_the_version_of_the_release(release, citation):
    """CITATION.cff with another version, or without one, is an error."""
    release.check_citation("1.2.0", "title: Ragstone\nversion: 1.2.0\n")
    with pytest.raises(SystemExit, match=r"expected 1\.2\.0"):
        release.check_citation("1.2.0", citation)


@pytest.mark.parametrize(
    "heading", ["## 1.1.0 (2026-12-01)", "## 1.2.0", "## 1.2.0 (soon)", "## 11210 (unreleased)", ""]
)
@pytest.mark.parametrize("dated", [True, False])
def test_the_newest_entry_of_the_changelog_is_about_the_release(release, heading, dated):
    """A changelog that begins with the entry of another version, or whose heading has no date or "unreleased", is an error."""
    with pytest.raises(SystemExit, match=r"docs/changelog\.md .* expected the heading '## 1\.2\.0 \("):
        release.check_changelog("1.2.0", f"# Changelog\n\n{heading}\n\n- `Monitor` is new.\n", dated=dated)


def test_a_version_is_published_with_a_date(release):
    """An entry without a date is accepted before a release, and is an error if the version is to be published."""
    open_entry = "# Changelog\n\n## 1.2.0 (unreleased)\n\n## 1.1.0 (2026-12-01)\n"
    release.check_changelog("1.2.0", open_entry, dated=False)
    with pytest.raises(SystemExit, match=r"'1\.2\.0 \(unreleased\)', expected the heading '## 1\.2\.0 \(YYYY-MM-DD\)'"):
        release.check_changelog("1.2.0", open_entry, dated=True)
    for dated in (True, False):
        release.check_changelog("1.2.0", open_entry.replace("unreleased", "2027-01-31"), dated=dated)


def test_the_changelog_of_this_tree_fits_its_version(release):
    """The newest entry of `docs/changelog.md` is about the version of the core."""
    project = tomllib.loads((SCRIPT.parents[1] / "packages/ragstone/pyproject.toml").read_text(encoding="utf-8"))[
        "project"
    ]
    changelog = (SCRIPT.parents[1] / "docs" / "changelog.md").read_text(encoding="utf-8")
    release.check_changelog(project["version"], changelog, dated=False)
