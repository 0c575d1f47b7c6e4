"""The documentation is true: its commands and options exist, and CI runs what the README tells people to run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import run_command

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language, each padded so that a traceback names the page's own line."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return ["\n" * text.count("\n", 0, match.start(1)) + match[1] for match in found]


COMMANDS = sorted(
    {
        command
        for page in PAGES
        for block in blocks(page, "bash")
        for command in re.findall(r"\bragstone ([a-z][a-z-]*)", block)
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_documented_command_exists(command):
    """Every `ragstone COMMAND` in the documentation is a command."""
    done = run_command(command, "--help")
    assert (0, "") == (done.returncode, done.stderr)


def test_ci_runs_what_the_readme_says():
    """`.ci/run` has the parts of the command that the README gives for the tests, in this order."""
    (command,) = [
        line for block in blocks(ROOT / "README.md", "bash") for line in block.split("\n") if "-s tests" in line
    ]
    text = (ROOT / ".ci/run").read_text(encoding="utf-8")
    found = [text.find(part) for part in command.split(" && ")]
    assert -1 not in found
    assert found == sorted(found)


def documented_calls(page: Path) -> list[tuple[str, str]]:
    """The options that a page's blocks and inline code give to a command: ("store prune", "--yes")."""
    text = page.read_text(encoding="utf-8")
    code = [*blocks(page, "bash"), *re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text)]
    calls = []
    for piece in code:
        for line in piece.replace("\\\n", " ").splitlines():
            for call in re.findall(r"\bragstone ([a-z][^|;&>#]*)", line):
                words = call.split()
                command = words[:1]
                while " ".join(command) in GROUPS and len(command) < len(words):
                    command = words[: len(command) + 1]
                calls += [(" ".join(command), word.split("=")[0]) for word in words if word.startswith("--")]
    return calls


GROUPS = ("labels", "lab", "lab dataset", "lab udcg", "store")
CALLS = sorted({call for page in PAGES for call in documented_calls(page)})


@pytest.mark.parametrize("command", sorted({command for command, option in CALLS}))
def test_documented_options_exist(command):
    """Every option that a page gives to a command is in the command's help."""
    done = run_command(*command.split(), "--help", COLUMNS="400")
    offered = set(re.findall(r"--[a-z][a-z-]*", done.stdout)) | {"--help", "--version"}
    assert [] == [option for of, option in CALLS if of == command and option not in offered]
