"""Each `ragstone COMMAND` in pages, code, examples and tasks is a command, and each option beside it is one of its options."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from command_line import app
from docs_pages import ROOT, blocks_of

NAMES_OF_LOGS = {"backfill", "sink"}
"""Words that follow the name of the program in log messages."""


class Call(NamedTuple):
    """A command line in a text: its place, and its words after `ragstone`."""

    place: str
    words: tuple[str, ...]


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """All commands and groups by their paths."""
    for name, command in group.commands.items():
        yield before + name, command
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")


TOP = typer.main.get_command(app)
COMMANDS = dict(commands(TOP))
COMMON = {name for parameter in TOP.params for name in parameter.opts}
LAST = {path.rpartition(" ")[2] for path in COMMANDS}


def calls_in(text: str, place: str) -> Iterator[Call]:
    """Yield the command lines of a text of code: what follows the name of the program."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        for match in re.finditer(
            r"(?<![\w./@-])ragstone(?: --(?:config|log-format)[ =]\S+| -v| --verbose)* ([^`|;&>\n\"]+)", line
        ):
            yield Call(place, tuple(match[1].split()))


def calls_of_page(path: Path) -> Iterator[Call]:
    """Yield the command lines of a page, in blocks and in the text, also those without the name of the program."""
    text = path.read_text(encoding="utf-8")
    place = str(path.relative_to(ROOT))
    for block in blocks_of(path):
        if block.language in ("bash", "yaml", "text", "dockerfile", "ini"):
            yield from calls_in(block.text, place)
    for span in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text):
        yield from calls_in(span, place)
        if span.partition(" --")[0] in COMMANDS:
            yield Call(place, tuple(span.split()))


def calls_of_code(path: Path) -> Iterator[Call]:
    """Yield the command lines in the texts of a module: those in backticks, and those that name a command."""
    place = str(path.relative_to(ROOT))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        quoted = re.findall(r"`([^`]+)`", " ".join(text.split()))
        for span in quoted:
            yield from calls_in(span, place)
        for call in calls_in(text, place):
            if call.words and call.words[0].rstrip(":.,") == call.words[0] in LAST - NAMES_OF_LOGS:
                yield call


def all_calls() -> Iterator[Call]:
    """Yield the command lines of all tracked texts of users."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, done.stdout.split("\0")):
        path = ROOT / name
        if not path.is_file() or name.startswith("tests/") or name == "docs/changelog.md":
            continue
        if path.suffix == ".md":
            yield from calls_of_page(path)
        elif path.suffix == ".py":
            yield from calls_of_code(path)
        elif path.suffix in (".yml", ".yaml", ".service", ".sh") or path.name in ("Dockerfile", "run"):
            yield from calls_in(path.read_text(encoding="utf-8"), name)


def problem_of(call: Call) -> str | None:
    """Return why a command line does not work, or None."""
    words = list(call.words)
    path = ""
    while words and (f"{path} {words[0]}".strip().rstrip(".,:;)'") in COMMANDS):
        path = f"{path} {words.pop(0)}".strip().rstrip(".,:;)'")
    if not path:
        return (
            None
            if re.fullmatch(r"COMMAND|import|\.|\.\.\.|\[.*|-.*|X.*", words[0])
            else f"{words[0]!r} is not a command"
        )
    command = COMMANDS[path]
    if hasattr(command, "commands") and words and re.fullmatch("[a-z][a-z-]+", words[0]) and path in ("lab", "store"):
        return f"{words[0]!r} is not a command of `{path}`"
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    known |= {*COMMON, "-h", "--help"}
    for group, inner in COMMANDS.items():
        if group.startswith(f"{path} "):
            known |= {name for each in inner.params for name in (*each.opts, *each.secondary_opts)}
    options = [match[0] for word in words if (match := re.match(r"--[a-z][a-z0-9-]*", word))]
    wrong = [option for option in options if option not in known]
    return f"`{path}` does not have {', '.join(wrong)}" if wrong else None


CALLS = sorted(set(all_calls()))


def test_the_search_finds_command_lines_of_all_kinds():
    """Pages, code, tasks and examples have command lines, and most commands are named somewhere."""
    places = {call.place for call in CALLS}
    assert {"README.md", "docs/how-to/watch.md"} <= places
    assert {"packages/ragstone/src/ragstone/cli/_demo.py", "examples/deploy/compose.yml"} <= places
    assert len(CALLS) > 300


def test_each_command_line_names_a_command_and_its_options():
    """A text that names a command or an option that does not exist misleads its reader."""
    assert [] == [
        f"{call.place}: ragstone {' '.join(call.words)}: {problem}" for call in CALLS if (problem := problem_of(call))
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("judge-card --labels labels.csv", "'judge-card' is not a command"),
        ("store merge all.db", "'merge' is not a command of `store`"),
        ("view ragstone.db --port 0", "`view` does not have --port"),
        ("store verify ragstone.db --repair", "`store verify` does not have --repair"),
        ("labels --author Ada", None),
    ],
)
def test_wrong_command_lines_are_found(words, problem):
    """A command that moved, one that went, and an option that went are named."""
    assert problem == problem_of(Call("page.md", tuple(words.split())))
