"""No command writes to a file that it reads: its content would be lost."""

from __future__ import annotations

import json

import pytest

import ragstone
from command_line import run_command
from live_store import make_store
from ragstone.errors import ConfigurationError

ROW = {"id": "q1", "query": "Why?", "contexts": ["So."], "response": "So.", "reference": ["So."]}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with rows, a link to them, and a store."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    (tmp_path / "others.jsonl").write_text(json.dumps(ROW) + "\n")
    (tmp_path / "link.jsonl").symlink_to("rows.jsonl")
    make_store(tmp_path / "store.db", 4)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        "evaluate rows.jsonl --metrics ccrs.qr --judge lexical -o rows.jsonl",
        "evaluate rows.jsonl --metrics ccrs.qr --judge lexical -o link.jsonl",
        "evaluate link.jsonl --metrics ccrs.qr --judge lexical -o ./rows.jsonl",
        "evaluate others.jsonl --metrics ccrs.qr --judge lexical --references rows.jsonl -o rows.jsonl",
        "evaluate rows.jsonl --metrics ccrs.qr --judge lexical --sink jsonl:rows.jsonl",
        "labels draw store.db -o store.db",
        "lab udcg rank rows.jsonl -o rows.jsonl",
        "lab udcg fit rows.jsonl -o rows.jsonl",
        "replay rows.jsonl --metrics ccrs.qr --judge lexical --store new.db --sink jsonl:store.db",
    ],
)
def test_a_command_refuses_to_write_to_its_input(folder, arguments):
    """Also by a link, and before any work."""
    before = {name: (folder / name).read_bytes() for name in ("rows.jsonl", "store.db")}
    done = run_command(*arguments.split())
    assert 2 == done.returncode, done.stderr
    assert "Give" in done.stderr
    assert before == {name: (folder / name).read_bytes() for name in before}


def test_evaluate_refuses_to_write_to_its_dataset(folder):
    """The function does as well, and a new file is written."""
    with pytest.raises(ConfigurationError, match=r"'rows\.jsonl', because it is an input.*another path"):
        ragstone.evaluate("rows.jsonl", ["ccrs.qr"], judge="lexical", output="rows.jsonl")
    ragstone.evaluate("rows.jsonl", ["ccrs.qr"], judge="lexical", output="new.jsonl")
    assert 1 == len((folder / "new.jsonl").read_text().splitlines())
