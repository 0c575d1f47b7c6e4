"""What the project files of the three distributions say together."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
CORE, *INTEGRATIONS = (
    tomllib.loads((ROOT / project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for project in ("packages/ragstone", "integrations/langchain", "integrations/llama-index")
)


@pytest.mark.parametrize("integration", INTEGRATIONS, ids=lambda project: project["name"])
def test_all_distributions_have_one_version(integration):
    """They are released together, and an integration accepts the core of its own version."""
    assert CORE["version"] == integration["version"]
    (core,) = [Requirement(text) for text in integration["dependencies"] if Requirement(text).name == "ragstone"]
    assert Version(CORE["version"]) in core.specifier


@pytest.mark.parametrize("key", ["requires-python", "license", "classifiers", "authors"])
def test_all_distributions_state_the_same(key):
    """License, Python versions and classifiers do not differ."""
    assert [CORE[key]] * 2 == [project[key] for project in INTEGRATIONS]
