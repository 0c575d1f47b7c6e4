"""The commands: groups of the help, purposes, examples, and the name that an error suggests."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import watched_store
from command_line import app, run_command, run_in_new_process
from ragstone.cli._commands import PANELS, all_tables, example_of
from ragstone.demo import sample_file
from ragstone.judges import ReplyCache
from ragstone.store import open_store

NOT_RUN = {
    "view": "it serves until it is stopped",
    "repair": "it needs an application",
    "lab dataset apply-review": "it needs a dataset of a judge",
}


def all_commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """All commands and groups by their paths."""
    for name, command in group.commands.items():
        yield before + name, command
        if hasattr(command, "commands"):
            yield from all_commands(command, f"{before}{name} ")


GROUPS, COMMANDS = all_tables()
FOUND = dict(all_commands(typer.main.get_command(app)))


def test_the_top_level_has_17_commands_in_five_groups():
    """The order within a group is that of the table, and nothing else is at the top."""
    assert ["Measure", "Production", "Reuse", "Trust", "Keep"] == list(PANELS)
    assert [name for names in PANELS.values() for name in names] == list(typer.main.get_command(app).commands)
    assert 17 == sum(map(len, PANELS.values()))
    assert set(FOUND) == {*COMMANDS, *GROUPS}


@pytest.mark.parametrize("group", ["", "labels", "lab", "lab dataset", "lab udcg", "store"])
@pytest.mark.parametrize("width", [80, 120])
def test_each_purpose_has_one_line(group, width):
    """A terminal of 80 columns shows each command of a list on one line."""
    done = run_in_new_process(*group.split(), "--help", COLUMNS=str(width), TERMINAL_WIDTH=str(width))
    lines = [line.strip("│ ").split(maxsplit=1) for line in done.stdout.splitlines() if line.startswith("│ ")]
    start = f"{group} " if group else ""
    purposes = GROUPS | {path: command.purpose for path, command in COMMANDS.items()}
    shown = {path.removeprefix(start): text for path, text in purposes.items() if path.startswith(start)}
    assert {name: text for name, text in shown.items() if " " not in name}.items() <= {
        line[0]: line[1].strip() for line in lines if len(line) == 2
    }.items()


@pytest.mark.parametrize("path", COMMANDS)
def test_the_purpose_is_the_first_line_of_the_help(path):
    """The table repeats the first line of each function's docstring."""
    assert COMMANDS[path].purpose == FOUND[path].help.partition("\n\n")[0]


@pytest.mark.parametrize("path", [*COMMANDS, *GROUPS])
def test_each_help_has_one_example_on_one_line(path):
    """The example can be copied from a terminal of 80 columns."""
    done = run_command(*path.split(), "--help", COLUMNS="80", TERMINAL_WIDTH="80")
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert ["Example:", example_of(path)] == [line for line in lines if line][-2:]
    assert 1 == lines.count("Example:")


@pytest.mark.parametrize("path", COMMANDS)
def test_the_command_line_of_each_example_is_valid(path):
    """Each word of an example is an argument or an option of its command."""
    words, _, _ = COMMANDS[path].example.partition(">")
    with FOUND[path].make_context(path, shlex.split(words)) as context:
        assert path == context.info_name


@pytest.mark.parametrize(
    "path",
    [
        path
        for path, each in COMMANDS.items()
        if path not in NOT_RUN and not re.search("--(judge|reader)", each.example)
    ],
)
def test_examples_without_a_model_run(path, files, tmp_path, monkeypatch):
    """Each example that calls no model ends with exit code 0 in a directory with its files."""
    shutil.copytree(files, tmp_path / "desk")
    monkeypatch.chdir(tmp_path / "desk")
    words, _, _ = example_of(path).removeprefix("ragstone ").partition(" >")
    done = run_command(*shlex.split(words))
    assert 0 == done.returncode, done.stderr


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files that the examples name."""
    directory = tmp_path_factory.mktemp("files")
    with contextlib.chdir(directory):
        make_files(directory)
    return directory


def make_files(directory: Path) -> None:
    """Write the files that the examples name into the current directory."""
    watched_store.make(directory / "ragstone.db", 1_790_000_000.0)
    with open_store(directory / "ragstone.db", mode="read") as store:
        (trace, *_) = store.traces.read()
    (directory / "labeled.csv").write_text(f"trace_id,label,author\n{trace.trace_id},wrong,Ada\n", encoding="utf-8")
    assert 0 == run_command("store", "backup", "ragstone.db", "backup.db").returncode
    ReplyCache(directory / "replies").write([("key", "model", {"text": "reply"})])
    for name, file in (("old-answers", "old-rows"), ("answers", "new-rows"), ("answers", "samples")):
        (directory / f"{file}.jsonl").write_text(sample_file(name), encoding="utf-8")
    (directory / "labels.csv").write_text(sample_file("labels"), encoding="utf-8")
    for old, outputs in (("old-rows", ["old", "out-of-domain"]), ("new-rows", ["new", "in-domain", "outcomes"])):
        done = run_command("evaluate", f"{old}.jsonl", "--judge", "lexical", "-o", f"{outputs[0]}.jsonl")
        assert 0 == done.returncode, done.stderr
        for other in outputs[1:]:
            (directory / f"{other}.jsonl").write_bytes((directory / f"{outputs[0]}.jsonl").read_bytes())


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        ("judge-card --dry-run", "ragstone lab judge-card"),
        ("validate-metrics", "ragstone lab validate-metrics"),
        ("dataset build docs", "ragstone lab dataset"),
        ("deliveries ragstone.db", "ragstone store deliveries"),
        ("samples", "ragstone demo --samples"),
        ("evalute rows.jsonl", "ragstone evaluate"),
        ("eval rows.jsonl", "ragstone evaluate"),
        ("card", "ragstone lab judge-card"),
        ("worst", "ragstone traces --worst"),
        ("store judgecard", "ragstone lab judge-card"),
        ("lab udcg fitt", "ragstone lab udcg fit"),
        ("store-backfill", "ragstone store backfill"),
    ],
)
def test_the_error_for_a_wrong_name_suggests_the_nearest_command(words, suggestion):
    """A command that moved is found by its last name, and a misspelled one by similarity."""
    done = run_command(*words.split(), COLUMNS="120", TERMINAL_WIDTH="120")
    assert 2 == done.returncode
    assert f"Did you mean `{suggestion}`?" in " ".join(re.sub("[│\n]", " ", done.stderr).split())


@pytest.mark.parametrize("command", ["worker", "ingest", "view"])
@pytest.mark.parametrize("address", ["nowhere", "8484", ":8484", "localhost:", "localhost:65536", "localhost:\u0661"])
def test_each_server_refuses_a_wrong_address_with_the_same_error(command, address, tmp_path):
    """HOST:PORT is read in one place, before a store is opened or created."""
    done = run_command(command, tmp_path / "s.db", "--listen", address)
    assert 2 == done.returncode
    assert (
        f"--listen must be HOST:PORT, such as 127.0.0.1:4318, got {address!r}. Port 0 takes a free one." in done.stderr
    )
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("words", ["store merge", "xyzzy", "lab 7", "e"])
def test_a_name_without_a_near_command_gets_the_list(words):
    """A suggestion is not a guess: `merge` does not become `erase`."""
    done = run_command(*words.split(), COLUMNS="120", TERMINAL_WIDTH="120")
    assert 2 == done.returncode
    assert "Did you mean" not in done.stderr
    assert "`ragstone --help` lists all commands." in done.stderr
