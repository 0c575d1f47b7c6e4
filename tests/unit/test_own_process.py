"""Processes that run nothing but Ragstone collect garbage rarely, and an application's process stays as it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

DEFAULT = 700


def threshold_after(code: str) -> int:
    """New objects before a collection, in a new process that ran the code."""
    code = f"import gc\ngc.set_threshold({DEFAULT})\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint('threshold', gc.get_threshold()[0])"
    done = subprocess.run([sys.executable, "-c", code], input="", capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1])


@pytest.mark.slow
def test_only_own_processes_collect_garbage_rarely():
    """The command does, and functions that an application calls do not."""
    program = "import sys; sys.argv = ['ragstone', '--version']; from ragstone.cli import program; program()"
    assert threshold_after(program) > DEFAULT
    for code in (
        "from ragstone.cli import main; main(['--version'])",
        "from ragstone import Monitor, evaluate",
        "from ragstone import evaluate; evaluate([{'query': 'q', 'contexts': ['c'], 'response': 'r'}], ['ccrs.qr'], judge='lexical')",
    ):
        assert threshold_after(code) == DEFAULT, code
