"""`ragstone lab` is in a distribution of its own: what the core does with it, and without it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys

import pytest

from command_line import run_command
from ragstone.cli import _commands


@pytest.fixture
def without_the_lab(monkeypatch):
    """The command line as if `ragstone-lab` were not installed."""
    known = importlib.metadata.entry_points
    groups = []

    def entry_points(**selected):
        groups.append(selected.get("group"))
        return () if selected.get("group") == "ragstone.commands" else known(**selected)

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    _commands._tables_of.cache_clear()
    yield groups
    _commands._tables_of.cache_clear()


@pytest.mark.parametrize("words", ["lab", "lab --help", "lab topicality a b", "lab udcg fit rows.jsonl", "lab xyzzy"])
@pytest.mark.usefixtures("without_the_lab")
def test_each_command_of_the_lab_says_how_to_get_it(words):
    """Exit code 2, one line, and no traceback."""
    done = run_command(*words.split())
    assert (2, "") == (done.returncode, done.stdout)
    assert (
        "ragstone: the commands of `ragstone lab` are not installed. Install them: pip install ragstone-lab\n"
        == done.stderr
    )


def test_other_commands_do_not_look_for_it(without_the_lab):
    """The help names the group, and a wrong name is not a command of the lab."""
    listed = run_command("--help")
    assert "Validate judges and metrics, build datasets, and fit UDCG." in listed.stdout
    assert 0 == run_command("metrics", "ndcg").returncode
    assert "ragstone.commands" not in without_the_lab
    wrong = run_command("validate-metrics", COLUMNS="200")
    assert 2 == wrong.returncode
    assert "ragstone lab validate-metrics" not in wrong.stderr
    unused = run_command("labels", "draw", "ragstone.db", "--set", "research.k=3")
    assert "`labels draw` does not use research.k." in unused.stderr


def test_the_tables_of_the_lab_load_no_command():
    """`ragstone lab --help` and a suggestion read the tables alone."""
    code = (
        "import sys\nfrom ragstone.cli._commands import all_tables\nassert 'lab judge-card' in all_tables()[1]\n"
        "print(*(name for name in sys.modules if name.startswith(('ragstone_lab', 'numpy', 'ragstone.judges'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"ragstone_lab", "ragstone_lab.cli", "ragstone_lab.cli._commands"} == set(done.stdout.split())
