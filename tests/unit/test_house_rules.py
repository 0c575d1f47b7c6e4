"""Rules of the house that no linter knows: rooms are entered through their door, and tests say what they expect."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = tuple(
    ROOT / f"{project}/src" for project in ("packages/ragstone", "integrations/langchain", "integrations/llama-index")
)
OURS = ("ragstone", "langchain_ragstone", "llama_index.observability.ragstone", "llama_index.evaluation.ragstone")
MODULES = [(source, path) for source in SOURCES for path in sorted(source.rglob("*.py"))]


def _imported(tree: ast.AST):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _private_owner(name: str) -> str | None:
    """The package that owns the first private part of a dotted name; None when there is none."""
    parts = name.split(".")
    for position, part in enumerate(parts):
        # `ragstone._util` is a room of its own: its floor keeps strangers out, not its name.
        if part.startswith("_") and not part.startswith("__") and (position > 1 or parts[0] != "ragstone"):
            return ".".join(parts[:position])
    return None


@pytest.mark.parametrize(("source", "path"), MODULES, ids=[str(path.relative_to(source)) for source, path in MODULES])
def test_no_import_past_a_door(source, path):
    """A private name of ours is imported only inside the package that holds it."""
    here = ".".join(path.relative_to(source).with_suffix("").parts)
    trespasses = [
        name
        for name in _imported(ast.parse(path.read_text(encoding="utf-8")))
        if any(f"{name}.".startswith(f"{package}.") for package in OURS)
        and (owner := _private_owner(name)) is not None
        and not f"{here}.".startswith(f"{owner}.")
    ]
    assert trespasses == []


def test_integrations_use_public_names_only():
    """An integration knows the core as a stranger does: no private room, no private file."""
    trespasses = [
        (str(path.relative_to(source)), name)
        for source, path in MODULES
        if source != SOURCES[0]
        for name in _imported(ast.parse(path.read_text(encoding="utf-8")))
        if name.startswith("ragstone.") and "._" in name
    ]
    assert trespasses == []


def test_integrations_are_strangers():
    """No integration imports the other, or its framework."""
    trespasses = [
        (str(path.relative_to(source)), name)
        for source, others in zip(SOURCES[1:], (("llama_index",), ("langchain", "langgraph", "langsmith")), strict=True)
        for path in sorted(source.rglob("*.py"))
        for name in _imported(ast.parse(path.read_text(encoding="utf-8")))
        if name.startswith(others)
    ]
    assert trespasses == []


def test_every_source_is_looked_at():
    """A rule that finds no files keeps nobody out."""
    assert set(SOURCES) == {source for source, _ in MODULES}


@pytest.mark.parametrize("path", sorted((ROOT / "tests").rglob("test_*.py")), ids=lambda path: path.stem)
def test_every_test_says_what_it_expects(path):
    """A failing test's docstring tells a stranger what should have been."""
    silent = [
        node.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node)
    ]
    assert [] == silent
