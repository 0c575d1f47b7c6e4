"""`ragstone lab dataset` as a person runs it: exit codes, caps, a review, and `kill -9` at any moment."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from command_line import MAIN, run_command
from fake_servers import FakeJudgeServer
from ragstone.experiments import evaluate
from ragstone_lab import build_dataset, plan_dataset

pytestmark = pytest.mark.usefixtures("virtual_time")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with three documents, and the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    for n, subject in enumerate(("lighthouse", "market", "ferry")):
        (tmp_path / "docs" / f"{subject}.md").write_text(f"The {subject} of Northport is number {n}. It is old.\n" * 3)
    return tmp_path


def questions(server):
    """What was asked, by the request's own text, without the calls that learn what the server refuses."""
    asked = Counter(body["messages"][1]["content"] for body in server.stats.requests)
    del asked["Reply with the word yes."]
    return asked


def test_build_review_apply_evaluate(folder):
    """The whole way: from documents to scores, by way of a person's edits."""
    with FakeJudgeServer() as server:
        done = run_command("lab", "dataset", "build", "docs", "-o", "set", "--judge", server.url)
        assert (0, "") == (done.returncode, done.stderr.partition("Traceback")[1])
        assert f"{plan_dataset('docs').calls} judge calls" in done.stderr
        assert "3 of 3 items" in done.stdout
        with (folder / "set/review.csv").open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        next(row for row in rows if row["kind"] == "query")["keep"] = "no"
        next(row for row in rows if row["kind"] == "sub_question" and row["item"] != rows[0]["item"])["text"] = "Mine?"
        with (folder / "set/review.csv").open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
        refused = run_command("lab", "dataset", "apply-review", "set")
        assert 2 == refused.returncode
        assert "--keep-ratings" in refused.stderr
        applied = run_command("lab", "dataset", "apply-review", "set", "--judge", server.url, "--json")
        assert 0 == applied.returncode
        assert (2, 1, 1) == tuple(json.loads(applied.stdout)[name] for name in ("n_rows", "n_edited", "n_dropped"))
        samples = [json.loads(line) for line in (folder / "set/dataset.jsonl").read_text(encoding="utf-8").splitlines()]
        for sample in samples:
            sample["contexts"] = [{"id": name, "text": text} for name, text in sample["required"].items()]
        result = evaluate(samples, ["crux.coverage"], judge=server.url)
        assert [1.0, 1.0] == [outcome.value for outcome in result.outcomes]


def test_a_dry_run_asks_nobody(folder):
    """It prints the cost, makes no folder, and needs no judge."""
    done = run_command("lab", "dataset", "build", "docs", "-o", "set", "--dry-run", "--json")
    assert 0 == done.returncode
    assert plan_dataset("docs").calls == json.loads(done.stdout)["calls"]
    assert not (folder / "set").exists()


@pytest.mark.slow
def test_killed_again_and_again_a_build_asks_nothing_twice(folder):
    """Each kill costs at most the one question that was in flight; the result is that of a build without a kill."""
    command = ["lab", "dataset", "build", "docs", "--set", "limits.concurrency=1"]
    with FakeJudgeServer() as server:
        build_dataset("docs", "whole", judge=server.url)
        n = len(questions(server))
    kills = 0
    with FakeJudgeServer(latency_s=0.05) as server:
        while True:
            target = server.stats.calls + 8
            build = subprocess.Popen(
                [sys.executable, "-c", MAIN, *command, "-o", "set", "--judge", server.url],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            while build.poll() is None and server.stats.calls < target:
                time.sleep(0.005)
            if build.poll() is not None:
                break
            build.send_signal(signal.SIGKILL)
            build.wait()
            kills += 1
        assert 0 == build.returncode
        asked = questions(server)
        assert kills >= 2
        assert n == len(asked)
        assert asked.total() <= n + kills
        last = build_dataset("docs", "set", judge=server.url)
        assert (0, n) == (last.n_asked, last.n_known)
    assert (folder / "whole" / "dataset.jsonl").read_bytes() == (folder / "set" / "dataset.jsonl").read_bytes()


def test_a_cap_ends_with_4_and_the_rest_follows(folder):
    """What was paid for is kept; the same command with a higher cap pays for the rest alone."""
    with FakeJudgeServer() as server:
        first = run_command(
            "lab", "dataset", "build", "docs", "-o", "set", "--judge", server.url, "--set", "budget.calls=7"
        )
        assert 4 == first.returncode
        assert "run the same command to resume" in first.stderr
        assert 7 == server.stats.calls
        second = run_command("lab", "dataset", "build", "docs", "-o", "set", "--judge", server.url)
        assert 0 == second.returncode
        assert {1} == set(questions(server).values())
        assert plan_dataset("docs").calls == questions(server).total()


def test_a_cap_stops_a_review_too(folder):
    """`apply` has the judge's limits; what it paid for is kept, and nothing is written before all is rated."""
    with FakeJudgeServer() as server:
        assert 0 == run_command("lab", "dataset", "build", "docs", "-o", "set", "--judge", server.url).returncode
        review = folder / "set/review.csv"
        with review.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            if row["kind"] == "sub_question":
                row["text"] = f"{row['text']} Mine {row['id']}?"
        with review.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
        before, written = server.stats.calls, (folder / "set/dataset.jsonl").read_bytes()
        capped = run_command(
            "lab",
            "dataset",
            "apply-review",
            "set",
            "--judge",
            server.url,
            "--set",
            "budget.calls=2",
            "--set",
            "limits.concurrency=1",
        )
        assert 4 == capped.returncode
        assert 2 == server.stats.calls - before
        assert written == (folder / "set/dataset.jsonl").read_bytes()
        assert 0 == run_command("lab", "dataset", "apply-review", "set", "--judge", server.url).returncode
        assert {1} == set(questions(server).values())


def test_a_judge_that_writes_nonsense_ends_with_3(folder):
    """No item at all: the reasons are told, and no data set is claimed."""
    with FakeJudgeServer(structured="ignored", reply=lambda body: "I would say so.") as server:
        done = run_command("lab", "dataset", "build", "docs", "-o", "set", "--judge", server.url)
    assert 3 == done.returncode
    assert "0 of 3 items" in done.stdout
    assert "unparseable" in done.stderr


def test_nobody_there_ends_with_3(folder):
    """An address without a server is told at once."""
    done = run_command("lab", "dataset", "build", "docs", "-o", "set", "--judge", "http://127.0.0.1:9/v1")
    assert 3 == done.returncode
    assert "127.0.0.1:9" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "file or directory not found: 'nowhere'"),
        (["docs", "--judge", "lexical"], "lexical baseline"),
        (["docs", "--judge", "http://127.0.0.1:9/v1", "-o", "docs/market.md"], "cannot create the directory"),
        (["docs", "--report", "docs/none.md"], "file or directory not found"),
        (["docs", "--set", "research.max_items=0"], "research.max_items"),
        (["docs", "--budget-usd", "1", "--judge", "http://127.0.0.1:9/v1"], "requires prices"),
    ],
)
def test_what_cannot_work_ends_with_2(folder, arguments, message):
    """With the value and the way out."""
    done = run_command("lab", "dataset", "build", *arguments)
    assert 2 == done.returncode
    assert message in done.stderr
