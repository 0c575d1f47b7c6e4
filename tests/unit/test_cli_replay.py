"""`ragstone replay` of folders and stores, in process."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from command_line import app, run_command
from ragstone.errors import DataError
from ragstone.store import SqliteStore

ROW = {"query": "Why?", "contexts": ["Because it is so."], "response": "Because it is so."}


def replay(folder: Path, *options: str) -> Result:
    store = folder.parent / "replay.db"
    return CliRunner().invoke(
        app, ["replay", str(folder), "--store", str(store), "--metrics", "ccrs.qr", "--judge", "lexical", *options]
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of rows between files that are something else."""
    made = tmp_path / "traces"
    made.mkdir()
    (made / "README.md").write_text("# About this export\n")
    (made / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n\x00")
    (made / "damaged.jsonl.gz").write_bytes(gzip.compress(b"x")[:4] + b"damaged")
    for name in "ab":
        (made / f"{name}.jsonl").write_text(json.dumps(ROW | {"id": name}) + "\n")
    return made


def test_files_of_a_folder_that_cannot_be_read_are_named_and_skipped(folder: Path) -> None:
    """The others are scored, as one source, and that is a success."""
    done = replay(folder, "--json")
    assert 0 == done.exit_code, done.output
    found = json.loads(done.stdout)
    assert ["README.md", "damaged.jsonl.gz", "picture.png"] == sorted(file["place"] for file in found["skipped"])
    assert (1, 2) == (len(found["files"]), found["files"][0]["n_new"])
    assert found["judge_is_baseline"]
    again = replay(folder)
    assert 0 == again.exit_code
    assert "skipped README.md:" in again.stderr


def test_a_folder_without_a_file_that_can_be_read_fails(folder: Path) -> None:
    """Nothing was done, and that is no success."""
    for name in "ab":
        (folder / f"{name}.jsonl").unlink()
    done = replay(folder)
    assert 3 == done.exit_code
    assert "no file could be read, 3 skipped" in done.stderr


def test_the_plan_names_them_too(folder: Path) -> None:
    """A dry run reads the same files."""
    found = json.loads(replay(folder, "--dry-run", "--json").stdout)
    assert 3 == len(found["skipped"])
    assert 2 == found["n_traces"]


def test_a_store_is_not_replayed(tmp_path: Path) -> None:
    """It says what to do instead."""
    store = tmp_path / "ragstone.db"
    SqliteStore.open(store, mode="own").close()
    error = replay(store).exception
    assert isinstance(error, DataError)
    assert "is a Ragstone store" in str(error)
    assert f"ragstone status {store}" in str(error)
    database = CliRunner().invoke(app, ["replay", "postgresql://user:secret@host/db", "--judge", "lexical"]).exception
    assert "'postgresql://host/db' is a Ragstone store" in str(database)


def test_a_dry_run_of_a_damaged_file_does_not_end_with_success(tmp_path: Path) -> None:
    """The code is that of the run itself."""
    path = tmp_path / "rows.jsonl.gz"
    rows = [json.dumps({"query": f"q{i}", "response": f"{i * 7919 % 10007:x}"}) + "\n" for i in range(5000)]
    path.write_bytes(gzip.compress("".join(rows).encode())[:-2000])
    done = run_command("replay", path, "--dry-run")
    assert "NOT READ TO ITS END" in done.stdout
    assert 3 == done.returncode
