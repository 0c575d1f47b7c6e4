"""The tables of the items of the five sources: their commands, metrics and tests exist."""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
from functools import cache
from pathlib import Path

import pytest
import typer

from command_line import app
from ragstone.errors import MissingExtraError
from ragstone.metrics import resolve_metrics
from ragstone.settings import TABLES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Items of the sources\n")[2]
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split(" | "))
    for line in SECTION.splitlines()
    if line.startswith("| ") and not line.startswith("| item ")
]
FILES = ("criterion", "composite", "udcg_theta")


@cache
def names_in(name):
    """The names of the tests in a file of that name."""
    (path,) = (ROOT / "tests").rglob(name)
    return {
        node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)
    }


def test_all_sources_have_a_table():
    """A table for each source, with unique items."""
    assert ["CCRS", "UDCG", "CRUX", "VERA", "the guide"] == re.findall(r"^### Items of (.*)$", SECTION, re.MULTILINE)
    assert len(ROWS) > 60
    assert len(ROWS) == len({row[0] for row in ROWS})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_names_a_test_or_says_no(row):
    """The test exists. Without one, the row says why there is nothing to test."""
    _, place, how, test = row
    assert place
    if test == "–":
        assert how.startswith("no"), how
        assert len(how.partition(": ")[2]) > 20
    else:
        file, _, name = test.strip("`").partition("::")
        assert name in names_in(file)


def command_of(words):
    """The command of a line without `ragstone`, and the rest of its words."""
    command, words = typer.main.get_command(app), [*words]
    while words and hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    return command, words


@pytest.mark.parametrize("code", [code for row in ROWS for code in re.findall("`([^`]+)`", row[2])], ids=str)
def test_what_a_row_tells_to_type_exists(code):
    """Commands with their options, metrics with their arguments, and settings."""
    command, words = command_of(code.split()[1:] if code.startswith("ragstone ") else ["evaluate", *code.split()])
    if not code.startswith(("ragstone ", "--")):
        pytest.skip("a name of Python or of a file")
    known = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
    assert not hasattr(command, "commands"), "a group, not a command"
    for option, value in itertools.pairwise([*words, ""]):
        if option == "--set":
            table, _, key = value.partition("=")[0].partition(".")
            assert key in TABLES[table].model_fields
        elif option == "--metrics":
            for name in value.split(","):
                if name.partition("@")[0] not in FILES:
                    with contextlib.suppress(MissingExtraError):
                        assert resolve_metrics(name)
        elif option.startswith("--"):
            assert option in known
