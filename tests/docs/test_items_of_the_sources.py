"""The items of the five sources: their commands, metrics and tests exist. The page of the metrics shows them."""

from __future__ import annotations

import ast
import contextlib
import itertools
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
import typer

from command_line import app
from ragstone.errors import MissingExtraError
from ragstone.metrics import resolve_metrics
from ragstone.settings import TABLES

ROOT = Path(__file__).parents[2]
ROWS = tomllib.loads((ROOT / "tests" / "docs" / "items.toml").read_text(encoding="utf-8"))["item"]
FILES = ("criterion", "composite", "udcg_theta")


@cache
def names_in(name):
    """The names of the tests in a file of that name."""
    (path,) = (ROOT / "tests").rglob(name)
    return {
        node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)
    }


def test_all_sources_have_items():
    """The items have unique names, and each of the sources has some."""
    assert {"CCRS", "UDCG", "CRUX", "VERA", "the guide"} == {row["source"] for row in ROWS}
    assert len(ROWS) > 60
    assert len(ROWS) == len({row["item"] for row in ROWS})


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["item"])
def test_a_row_names_a_test_or_says_no(row):
    """The test exists. Without one, the row says why there is nothing to test."""
    assert row["place"]
    if "test" not in row:
        assert row["how"].startswith("no"), row["how"]
        assert len(row["how"].partition(": ")[2]) > 20
    else:
        file, _, name = row["test"].partition("::")
        assert name in names_in(file)


def command_of(words):
    """The command of a line without `ragstone`, and the rest of its words."""
    command, words = typer.main.get_command(app), [*words]
    while words and hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    return command, words


@pytest.mark.parametrize("code", [code for row in ROWS for code in re.findall("`([^`]+)`", row["how"])], ids=str)
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
