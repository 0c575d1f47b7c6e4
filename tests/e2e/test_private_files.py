"""What Ragstone writes is readable only by its owner, whatever the umask: it holds texts of users."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ragstone import Monitor

ROWS = [
    {
        "id": str(n),
        "query": "How tall is it?",
        "response": "31 m.",
        "contexts": ["It is 31 m tall."],
        "reference": "31 m",
    }
    for n in range(4)
]


@pytest.fixture
def folder(tmp_path):
    """A folder of a process whose umask hides nothing."""
    before = os.umask(0)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (tmp_path / "rows.jsonl").chmod(0o600)
    yield tmp_path
    os.umask(before)


def run(folder: Path, *arguments: str) -> None:
    """Run a command there."""
    program = Path(sys.executable).with_name("ragstone")
    environment = os.environ | {"RAGSTONE_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [str(program), *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert 0 == done.returncode, done.stderr


def open_to_others(folder: Path) -> dict[str, str]:
    """Files and folders that others may read, each with its mode."""
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}
    return {str(path.relative_to(folder)): f"{mode:o}" for path, mode in modes.items() if mode & 0o077}


def test_files_of_commands(folder):
    """Outcomes, reports, stores, exports and labels."""
    common = ("--judge", "lexical", "--metrics", "ccrs")
    run(folder, "evaluate", "rows.jsonl", *common, "-o", "a.jsonl")
    run(
        folder,
        "evaluate",
        "rows.jsonl",
        *common,
        "-o",
        "b.jsonl",
        "--fail-under",
        "ccrs.cc=0.001",
        "--set",
        "analysis.undecided=pass",
        "--junit",
        "gate.xml",
    )
    run(folder, "compare", "a.jsonl", "b.jsonl", "-o", "compare.md")
    run(folder, "report", "a.jsonl", "--data", "rows.jsonl", "-o", "report.html")
    run(folder, "replay", "rows.jsonl", *common, "--store", "s.db")
    run(folder, "labels", "draw", "s.db", "--limit", "2", "-o", "labels.csv")
    assert {} == open_to_others(folder)
    assert {"compare.md", "gate.xml", "report.html", "s.db", "labels.csv"} <= {path.name for path in folder.iterdir()}


def test_files_of_a_monitor(folder):
    """Store, spool and sinks."""
    sinks = [f"jsonl:{folder / 'scores.jsonl'}"]
    with (
        Monitor(judge="lexical", metrics=["ccrs"], store=folder / "s.db", sinks=sinks) as monitor,
        monitor.request("How tall is it?") as request,
    ):
        request.found(["It is 31 m tall."])
        request.answer("31 m.")
    assert {} == open_to_others(folder)
    assert {"s.db", "s.db.spool", "scores.jsonl"} <= {path.name for path in folder.iterdir()}
