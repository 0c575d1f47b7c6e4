"""The examples in docstrings hold: each is run, and gives what stands under it."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import ragstone

ROOT = Path(ragstone.__file__).parent
MODULES = [
    ".".join(("ragstone", *file.relative_to(ROOT).with_suffix("").parts))
    for file in sorted(ROOT.rglob("*.py"))
    if ">>> " in file.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("module", MODULES)
def test_examples(module):
    """Every example of a module gives what its docstring says."""
    found = doctest.testmod(importlib.import_module(module.removesuffix(".__init__")))
    assert found.attempted > 0
    assert 0 == found.failed


def test_there_are_examples():
    """The search finds the files it is meant for."""
    assert len(MODULES) > 30
