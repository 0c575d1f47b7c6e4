"""`ragstone replay` of folders and stores, in process."""

from __future__ import annotations

import gzip
import json
import shlex
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


SYSTEMS = [
    {"question": f"Why {n}?", "response": f"{model} {n}", "model": model} for model in "xy" for n in range(3)
]  # fmt: skip


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_repeated_questions_are_reported(tmp_path: Path, options: list[str]) -> None:
    """The report of the reader is printed as `evaluate` prints it, and the options that it names are said to be of `evaluate`."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in SYSTEMS))
    note = "model: 2 values (x, y) with the same questions, scored together as one system"
    done = replay(path, *options)
    printed = " ".join((done.stdout if options else done.stderr).split())
    assert (0, True) == (done.exit_code, note in printed), done.output
    assert "query ← question" in printed
    assert "--field: options of `ragstone evaluate`" in printed
    assert any(note in line for line in json.loads(replay(path, *options, "--json").stdout)["files"][0]["notes"])


def test_options_of_another_command_are_named_only_if_a_message_has_one(tmp_path: Path) -> None:
    """A row without a known name has them in its reason, in full."""
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW) + "\n")
    assert "options of" not in replay(path, "--dry-run").stdout
    path.write_text("".join(json.dumps(row) + "\n" for row in (ROW, {"Frage": "Warum?", "Antwort": "Darum."})))
    printed = " ".join(replay(path, "--dry-run").stdout.split())
    assert "--field query=Frage --field response=Antwort" in printed
    assert "--field: options of `ragstone evaluate`" in printed


@pytest.mark.parametrize("command", ["evaluate", "replay"])
@pytest.mark.parametrize("content", ["query,response\n", "query,response\n,\n"])
def test_a_dry_run_without_a_sample_fails(tmp_path: Path, command: str, content: str) -> None:
    """Nothing would be scored."""
    path = tmp_path / "rows.csv"
    path.write_text(content)
    done = run_command(command, path, "--metrics", "ccrs.qr", "--judge", "lexical", "--dry-run")
    assert 2 == done.returncode, done.stdout + done.stderr


def test_the_command_that_scores_with_a_new_metric_works(folder: Path) -> None:
    """Requests that were finished before a metric was planned are not scored again by `replay`."""
    assert 0 == replay(folder).exit_code
    done = replay(folder, "--metrics", "ccrs.qr,ccrs.cc")
    assert "ccrs.cc: 2 traces were finished before this metric, or its judge, was planned" in done.stderr
    (command,) = (line for line in done.stderr.splitlines() if "store backfill" in line)
    assert 0 == CliRunner().invoke(app, shlex.split(command)[1:]).exit_code
    assert "finished before" not in replay(folder, "--metrics", "ccrs.qr,ccrs.cc").stderr
    with SqliteStore.open(folder.parent / "replay.db", mode="read") as store:
        assert 2 == sum(outcome.metric == "ccrs.cc" for outcome in store.outcomes.read())
