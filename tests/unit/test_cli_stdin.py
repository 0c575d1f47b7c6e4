"""`-` for standard input, and `evaluate --dry-run`, in process."""

from __future__ import annotations

import gzip
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import MAIN, run_command
from fake_servers import FakeJudgeServer

ROWS = [
    {"id": "a", "query": "Why?", "contexts": ["Because it is so."], "response": "Because it is so."},
    {"id": "b", "query": "Where?", "contexts": ["Here."], "response": "Here.", "reference": "Here."},
]
JSONL = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
CSV = b"id,query,response\na,Why?,So.\nb,Where?,Here.\n"


@pytest.mark.parametrize(
    "given",
    [JSONL, json.dumps(ROWS).encode(), json.dumps(ROWS, indent=1).encode(), json.dumps({"results": ROWS}, indent=1).encode(), CSV, CSV.replace(b",", b";"), CSV.replace(b",", b"\t")],
    ids=["jsonl", "json", "json over lines", "object over lines", "csv", "semicolons", "tabs"],
)  # fmt: skip
def test_evaluate_reads_rows_from_stdin(given: bytes) -> None:
    """Whatever their format, which the first bytes tell."""
    done = run_command("evaluate", "-", "--judge", "lexical", "--metrics", "ccrs.qr", "--json", stdin=given)
    assert 0 == done.returncode, done.stderr
    assert 2 == json.loads(done.stdout)["n_samples"]


def test_errors_name_standard_input() -> None:
    """Not the temporary file, which is gone."""
    done = run_command("evaluate", "-", stdin=b'[\n{"id": "a"')
    assert 2 == done.returncode
    assert "standard input" in done.stderr
    assert "ragstone-" not in done.stderr


def test_compare_reads_outcomes_from_stdin(tmp_path: Path) -> None:
    """Of one system, which may have a name."""
    file = tmp_path / "old.jsonl"
    run_command("evaluate", "-", "--judge", "lexical", "--metrics", "ccrs.qr", "-o", file, stdin=JSONL)
    done = run_command("compare", file, "new=-", "--json", "--full", stdin=file.read_bytes())
    assert 0 == done.returncode, done.stderr
    assert ["old", "new"] == [s["system"] for s in json.loads(done.stdout)["metrics"][0]["systems"]]
    twice = run_command("compare", "-", "-", stdin=file.read_bytes())
    assert 2 == twice.returncode
    assert "only once" in twice.stderr


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_replay_reads_stdin_and_knows_it_again(tmp_path: Path, compress) -> None:
    """The same bytes continue where they ended; others are read again."""
    store = tmp_path / "r.db"

    def replay(*options: object, stdin: bytes) -> dict:
        done = run_command(
            "replay",
            "-",
            "--metrics",
            "ccrs.qr",
            "--judge",
            "lexical",
            "--store",
            store,
            "--json",
            *options,
            stdin=stdin,
        )
        assert 0 == done.returncode, done.stderr
        return json.loads(done.stdout)

    assert 2 == replay("--dry-run", stdin=compress(JSONL))["n_traces"]
    first, again, more = (
        replay(stdin=compress(rows))["files"][0]
        for rows in (JSONL, JSONL, JSONL + json.dumps(ROWS[0] | {"id": "c"}).encode() + b"\n")
    )
    assert ("standard input", 2, 0) == (first["name"], first["n_new"], first["n_known"])
    assert (0, 2) == (again["n_new"], again["n_known"])
    assert (1, 2) == (more["n_new"], more["n_known"])


@pytest.mark.parametrize("command", [("evaluate", "-"), ("compare", "-", "x"), ("replay", "-", "--judge", "lexical")])
def test_a_terminal_is_not_waited_for(command: tuple[str, ...]) -> None:
    """Who forgot the pipe is told so."""
    done = run_command(*command, stdin=None)
    assert 2 == done.returncode
    assert "is a terminal" in done.stderr


@pytest.mark.parametrize("command", [("replay", "-", "--judge", "lexical"), ("replay", "-", "--dry-run")])
@pytest.mark.parametrize("given", [b"", gzip.compress(b"")], ids=["empty", "empty gzip"])
def test_an_empty_standard_input_is_called_empty(command: tuple[str, ...], given: bytes) -> None:
    """The error names the formats, and what to check."""
    done = run_command(*command, stdin=given)
    assert 2 == done.returncode
    assert "'standard input' is empty" in done.stderr
    assert "Check the program that writes it" in done.stderr


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a device of Unix")
@pytest.mark.parametrize("command", [("evaluate", "-"), ("replay", "-", "--judge", "lexical")])
def test_a_device_without_an_end_is_refused(command: tuple[str, ...], tmp_path: Path) -> None:
    """At once, and without a copy. `/dev/null` is empty, and a closed standard input is said to be closed."""
    run = [sys.executable, "-c", MAIN, *command]
    with Path("/dev/zero").open("rb") as endless:
        done = subprocess.run(run, stdin=endless, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (2, True) == (done.returncode, "is a device, which may not end" in done.stderr), done.stderr
    done = subprocess.run(run, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "is a device" not in done.stderr
    closed = f"{' '.join(map(shlex.quote, run))} <&-"
    done = subprocess.run(["sh", "-c", closed], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (2, True) == (done.returncode, "is closed" in done.stderr), done.stderr


@pytest.mark.parametrize("command", [("evaluate", "-", "--judge", "lexical"), ("replay", "-", "--dry-run")])
def test_standard_input_takes_half_of_the_free_space_at_most(
    command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe that does not end fills no disk; what fits is read."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10**6, 0, 2 * len(JSONL)))
    assert 0 == run_command(*command, "--metrics", "ccrs.qr", stdin=JSONL).returncode
    done = run_command(*command, "--metrics", "ccrs.qr", stdin=JSONL + b"\n")
    assert 2 == done.returncode
    assert f"has more than {len(JSONL)} bytes" in done.stderr
    assert "Save it as a file" in done.stderr


def test_a_dry_run_of_evaluate_says_what_it_would_take_and_asks_nobody(tmp_path: Path) -> None:
    """As that of `replay` does: what applies, what is missing, calls, tokens, money and time."""
    file = tmp_path / "rows.jsonl"
    file.write_bytes(JSONL)
    with FakeJudgeServer() as server:
        options = ("--judge", server.url, "--metrics", "ccrs.qr,ccrs.ac", "--dry-run")
        priced = ("--set", "judge.usd_per_million_tokens=1000,1000", "--set", "limits.call_latency_s=16")
        text = run_command("evaluate", file, *options, *priced)
        found = json.loads(run_command("evaluate", file, *options, "--json").stdout)
        replayed = json.loads(run_command("replay", file, *options, "--json").stdout)
        assert 0 == server.calls
    assert 0 == text.returncode, text.stderr
    assert "2 samples would be scored" in text.stdout
    assert "ccrs.ac: 1 applicable, 1 not applicable, most often (1): the sample has no reference" in text.stdout
    assert "USD), 3 s at 16 s per call and 16 concurrent requests" in text.stdout
    assert (2, 3, None) == (found["n_samples"], found["calls"], found["usd"])
    same = ("metrics", "calls", "input_tokens", "output_tokens", "seconds", "n_rehearsed")
    assert [replayed[key] for key in same] == [found[key] for key in same]
