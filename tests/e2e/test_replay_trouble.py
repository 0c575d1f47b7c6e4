"""`ragstone replay` when something is in the way: money, the wrong format, a judge that is gone, an impatient user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fake_servers import FakeJudgeServer
from ragstone.cli import main
from ragstone.worker import read_ledger
from waiting import wait_until


@pytest.fixture(autouse=True)
def _cache_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command sets it for its process, which is ours here."""
    monkeypatch.setenv("RAGSTONE_CACHE", "")
    monkeypatch.delenv("RAGSTONE_CACHE")


def rows(path: Path, n: int) -> Path:
    """Rows of a data set, as many."""
    made = [
        {"id": f"t{i}", "query": f"What is {i}?", "contexts": [f"{i} is odd."], "response": "Odd."} for i in range(n)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    return path


def replay(*arguments: object) -> int:
    """Run the command here; its exit code."""
    return run("replay", *arguments, "--metrics", "ccrs.qr,ccrs.id")


def run(*arguments: object) -> int:
    """Run a command of Ragstone here; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments)])
    return int(ended.value.code or 0)


def test_a_spend_cap_ends_a_run_and_the_next_one_goes_on(tmp_path, capsys):
    """Exit code 4 until the work is done; no question is paid for twice, and none has failed."""
    file, store, codes = rows(tmp_path / "rows.jsonl", 10), tmp_path / "r.db", []
    with FakeJudgeServer() as server:
        while not codes or codes[-1] == 4:
            before = server.calls
            codes.append(replay(file, "--store", store, "--judge", server.url, "--set", "budget.calls=8"))
            assert server.calls - before <= 8
            assert 0 == read_ledger(store).total.failed
        n_calls = server.calls

    assert [4, 4, 0] == codes
    # One call learns what the server refuses, for all runs with the same cache.
    assert (10, 21) == (read_ledger(store).total.scored, n_calls)
    assert "Run the same command to resume" in capsys.readouterr().err


def test_a_format_that_was_named_wrongly_is_an_error(tmp_path, capsys):
    """What is wrong with the first records, and exit code 2: a job that scores nothing has not gone well."""
    file = rows(tmp_path / "rows.jsonl", 3)

    assert 2 == replay(file, "--format", "otlp", "--store", tmp_path / "r.db", "--judge", "lexical")
    told = capsys.readouterr().err
    assert "rejected, line 1: not an OTLP message" in told
    assert "If the detected format is wrong, set --format" in told


def test_a_file_of_which_one_record_is_good_is_no_error(tmp_path):
    """Nor is one in which everything is known from an earlier run."""
    file = rows(tmp_path / "rows.jsonl", 1)
    with file.open("a", encoding="utf-8") as out:
        out.write("no json\n")
    for _ in range(2):
        assert 0 == replay(file, "--store", tmp_path / "r.db", "--judge", "lexical")


def test_a_store_that_is_owned_is_left_alone(tmp_path, capsys):
    """Exit code 3, and who owns it."""
    from ragstone.store import SqliteStore

    with SqliteStore.open(tmp_path / "r.db", mode="own"):
        assert 3 == replay(rows(tmp_path / "a.jsonl", 1), "--store", tmp_path / "r.db", "--judge", "lexical")

    assert "is owned by this process already" in capsys.readouterr().err


def test_a_judge_that_is_not_there_fails_nothing(tmp_path):
    """Exit code 3 at once; when it is there, the same command does the work in another process."""
    file, store = rows(tmp_path / "rows.jsonl", 3), tmp_path / "r.db"
    judge = FakeJudgeServer()
    with judge:
        pass  # it has a port now
    command = [
        sys.executable,
        "-c",
        "import sys; from ragstone.cli import main; main(sys.argv[1:])",
        "replay",
        file,
        "--store",
        store,
        "--metrics",
        "ccrs.qr",
    ]
    command += ["--judge", judge.url, "--set", "judge.max_retries=0"]
    assert 3 == subprocess.run(command, check=False, capture_output=True).returncode
    with judge:
        assert 0 == subprocess.run(command, check=False, capture_output=True).returncode

    total = read_ledger(store).total
    assert (3, 0) == (total.scored, total.failed)


@pytest.mark.usefixtures("virtual_time")
def test_another_judge_does_not_end_with_success_while_requests_wait_for_the_first(tmp_path, capsys):
    """Exit code 2 names what differs from the plan; a worker that replaces the plan scores them."""
    file, store = rows(tmp_path / "rows.jsonl", 3), tmp_path / "r.db"
    with FakeJudgeServer() as server:
        gone = server.url
    assert 3 == replay(file, "--store", store, "--judge", gone)
    with FakeJudgeServer() as server:
        assert 2 == replay(file, "--store", store, "--judge", server.url)
        printed = capsys.readouterr().err
        assert f"judge.url: plan {gone}, here {server.url}" in printed
        assert "run `ragstone worker --replan` with them" in printed
        options = ("--metrics", "ccrs.qr,ccrs.id", "--judge", server.url)
        assert 0 == run("worker", store, "--until-idle", "--replan", *options)

    assert 3 == read_ledger(store).total.scored


@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
def test_a_second_ctrl_c_does_not_wait(tmp_path):
    """The first one lets go; whoever presses it again is not asked to wait for a judge that does not answer."""
    file, store = rows(tmp_path / "rows.jsonl", 3), tmp_path / "r.db"
    with FakeJudgeServer(latency_s=0.2) as server:
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys; from ragstone.cli import main; main(sys.argv[1:])",
                *("replay", str(file), "--store", str(store), "--judge", server.url, "--metrics", "ccrs.qr"),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        end = time.monotonic() + 240
        while server.calls == 0 and time.monotonic() < end:
            time.sleep(0.01)
        for _ in range(2):
            process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=240)

    assert 130 == process.returncode
    assert "Traceback" not in told


@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
def test_ctrl_c_in_evaluate_without_output_says_how_to_resume_next_time(tmp_path):
    """`ragstone evaluate` exits with 130 and a message, without a traceback, if it is interrupted while a judge is slow."""
    file = rows(tmp_path / "rows.jsonl", 3)
    with FakeJudgeServer(hang_rate=1.0) as server:
        process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys; from ragstone.cli import main; main(sys.argv[1:])",
                *("evaluate", str(file), "--judge", server.url, "--metrics", "ccrs.qr"),
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        wait_until(lambda: server.calls > 0, limit_s=120)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=240)

    assert 130 == process.returncode
    assert "stopped. Nothing is kept. With --output FILE, an interrupted run can be resumed." in stderr
    assert "Traceback" not in stderr
