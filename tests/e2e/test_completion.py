"""Completion of commands and options in bash, zsh and fish."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BASH = """
eval "$(ragstone --show-completion bash)"
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_ragstone_completion ragstone
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
eval "$(ragstone --show-completion zsh | sed 's/^compdef.*//')"
_arguments() {{ print -r -- "$@" }}
words=({words})
CURRENT=${{#words}}
_ragstone_completion
"""
FISH = """
ragstone --show-completion fish | source
complete -C "{words}"
"""


def complete(shell: str, script: str, words: str, home: Path) -> str:
    """Return what a shell offers after these words."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        # The shell is named, because a test does not run below an interactive one.
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }
    done = subprocess.run(
        [shell, "-c", script.format(words=words)],
        capture_output=True, text=True, timeout=100, check=False, env=environment,
    )  # fmt: skip
    assert "" == done.stderr
    return done.stdout


@pytest.mark.parametrize(("shell", "script"), [("bash", BASH), ("zsh", ZSH), ("fish", FISH)])
@pytest.mark.parametrize(
    ("words", "expected"),
    [("ragstone eval", "evaluate"), ("ragstone evaluate --fail-un", "--fail-under"), ("ragstone store veri", "verify")],
)
def test_a_shell_completes(shell: str, script: str, words: str, expected: str, tmp_path: Path) -> None:
    """A shell offers commands, options and commands of groups if a user has written their beginning."""
    assert expected in complete(shell, script, words, tmp_path)


def test_names_of_commands_are_completed_without_their_modules() -> None:
    """Completion of a command's name imports the module of no command."""
    program = """
import sys
from ragstone.cli._app import app
from typer.main import get_command
group = get_command(app)
context = group.make_context("ragstone", ["x"], resilient_parsing=True)
print(*(item.value for item in group.shell_complete(context, "e")))
print(*(name for name in sys.modules if name in ("ragstone.cli._evaluate", "ragstone.cli._worker", "ragstone.store")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert ["evaluate", ""] == done.stdout.split("\n")[:2]
