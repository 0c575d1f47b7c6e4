"""`ragstone replay --batch`: judge calls go through files, as a batch API reads and writes them."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from batch_folder import answer, lines_of, requests_in
from command_line import Done, run_command
from fake_servers import FakeJudgeServer
from ragstone.errors import ConfigurationError, DataError, StoreError
from ragstone.judges import ChatReader
from ragstone.judges._batch import _Writer
from ragstone.replay import replay_traces
from ragstone.schema import Failure, Score
from ragstone.store import SqliteStore
from ragstone.worker import read_ledger

N = 6
CCRS_CALLS = 3
"""Metrics of `CCRS`, each of them one call."""
CCRS = "ccrs.cc,ccrs.qr,ccrs.id"


@pytest.fixture
def traces(tmp_path) -> Path:
    path = tmp_path / "rows.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for i in range(N):
            contexts = [
                f"Item {i} is a stone found at the river.",
                f"Item {i + 1} is wood. \ud800".encode(errors="replace").decode(),
            ]
            row = {
                "id": f"t{i}",
                "query": f"What is item {i}?",
                "contexts": contexts,
                "response": f"Item {i} is a stone. It is old.",
            }
            file.write(json.dumps(row) + "\n")
    return path


@pytest.fixture
def server() -> Iterator[FakeJudgeServer]:
    with FakeJudgeServer() as running:
        yield running


class Replay:
    """Runs the command with the same arguments again and again."""

    def __init__(self, traces: Path, url: str, *more: object) -> None:
        self.store, self.folder = traces.with_name("store.db"), traces.with_name("batch")
        self._arguments = ["replay", traces, "--store", self.store, "--judge", url, "--batch", self.folder, *more]

    def __call__(self, *more: object) -> Done:
        return run_command(*self._arguments, *more)


def scores(store: Path) -> dict[tuple[str, str], tuple[object, ...]]:
    """What each outcome says, without its time."""
    with SqliteStore.open(store, mode="read") as opened:
        return {
            (o.sample_id, o.metric): (
                getattr(o, "value", None),
                o.usage and o.usage.input_tokens,
                o.usage and o.usage.calls,
            )
            for o in opened.outcomes.read()
        }


@pytest.mark.parametrize(
    ("metrics", "most_runs"),
    [
        (CCRS, 2),
        ("judged.ndcg@10,judged.precision@5", 2),
        ("ccrs.cc,ragas.faithfulness,judged.ndcg@10", 5),
        ("ccrs.cc,udcg", 4),
    ],
)
def test_scores_and_bills_are_those_of_calls_that_are_sent(traces, server, metrics, most_runs):
    """Also for metrics whose later calls depend on earlier replies, and with two models."""
    more = ("--metrics", metrics, "--reader", server.url)
    plain = traces.with_name("plain.db")
    done = run_command("replay", traces, "--store", plain, "--judge", server.url, *more)
    assert 0 == done.returncode, done.stderr
    n_sent = len(server.stats.requests)

    replay = Replay(traces, server.url, *more)
    for n_runs in range(1, most_runs + 1):
        done = replay()
        if done.returncode == 0:
            break
        assert 3 == done.returncode, done.stderr
        assert "run the same command again" in done.stderr
        assert answer(server, replay.folder, name=f"results-{n_runs}")
    assert 0 == done.returncode, done.stderr
    assert scores(plain) == scores(replay.store)
    assert 2 * n_sent == len(server.stats.requests)
    assert read_ledger(plain).spent_today == read_ledger(replay.store).spent_today


def test_a_run_that_comes_too_early_writes_no_request_twice(traces, server):
    """A request that is written waits, and the last line says for what."""
    replay = Replay(traces, server.url, "--metrics", CCRS)
    first = replay()
    n_sent = len(server.stats.requests)
    again = replay("--json")
    assert [3, 3] == [first.returncode, again.returncode]
    assert f"{N} traces wait for the results of {N * CCRS_CALLS} requests of an earlier run" in again.stderr
    batch = json.loads(again.stdout)["batch"]
    assert ([], 0, N * CCRS_CALLS) == (batch["files"], batch["n_written"], batch["n_waiting"])
    assert N * CCRS_CALLS == len(requests_in(replay.folder))
    assert n_sent == len(server.stats.requests)  # what the server accepts is in the reply cache


def test_part_of_the_results(traces, server):
    """A sample is scored when all of its results are there. The others wait, and nothing is written again."""
    replay = Replay(traces, server.url, "--metrics", CCRS)
    replay()
    missing = answer(server, replay.folder, change=lambda place, _: place % 5 > 0)
    assert N * CCRS_CALLS > missing
    done = replay()
    assert 3 == done.returncode
    scored = scores(replay.store)
    assert 0 < len(scored) < N * CCRS_CALLS
    assert len(scored) % CCRS_CALLS == 0
    assert N * CCRS_CALLS == len(requests_in(replay.folder))
    answer(server, replay.folder, name="rest")
    assert 0 == replay().returncode
    assert N * CCRS_CALLS == len(scores(replay.store))


def test_results_that_failed_are_requested_again_once(traces, server):
    """Expired, 5xx, 429 and replies without content: written again, but not as long as these wait."""

    def fail(place: int, result: dict[str, Any]) -> None:
        if place == 0:
            result["response"], result["error"] = None, {"code": "batch_expired", "message": "expired after 24 h"}
        elif place == 1:
            result["response"]["status_code"] = 500
        elif place == 2:
            result["response"] |= {"status_code": 429, "body": {"error": {"message": "slow down"}}}
        elif place == 3:
            result["response"]["body"] = {"object": "chat.completion"}  # status 200 and no choices

    replay = Replay(traces, server.url, "--metrics", CCRS)
    replay()
    answer(server, replay.folder, change=fail)
    failed = {request["custom_id"] for request in requests_in(replay.folder)[:4]}
    done = replay()
    assert 3 == done.returncode
    assert "4 results failed for a temporary reason" in done.stderr
    # The first request of a run shows what the endpoint accepts, so it is sent at once.
    [sent] = map(json.loads, lines_of(replay.folder / "sent-at-once.jsonl"))
    again = {r["custom_id"] for r in requests_in(replay.folder)[N * CCRS_CALLS :]}
    assert failed == {sent["custom_id"], *again}
    assert sent["custom_id"] not in again
    replay()  # too early: the failed results are still there
    assert N * CCRS_CALLS + 3 == len(requests_in(replay.folder))
    (replay.folder / "results.jsonl").rename(replay.folder / "a.jsonl")
    with (replay.folder / "b.jsonl").open("w", encoding="utf-8") as file:
        for request in requests_in(replay.folder)[-3:]:
            reply = httpx.post(f"{server.url}/chat/completions", json=request["body"], timeout=30).json()
            file.write(
                json.dumps({"custom_id": request["custom_id"], "response": {"status_code": 200, "body": reply}}) + "\n"
            )
    assert 0 == replay().returncode
    assert N * CCRS_CALLS == sum(value is not None for value, *_ in scores(replay.store).values())


def test_a_request_that_the_batch_refused_is_a_failure(traces, server):
    """With the endpoint's reason, in both places where batch APIs write it."""

    def refuse(place: int, result: dict[str, Any]) -> None:
        error = {"error": {"message": "too long for me", "type": "x"}}
        if place == 0:
            result["response"] |= {"status_code": 400, "body": error}
        elif place == 1:  # as vLLM writes it
            result["response"] |= {"status_code": 400, "body": None}
            result["error"] = error

    replay = Replay(traces, server.url, "--metrics", CCRS, "--set", "limits.max_failed_share=1")
    replay()
    answer(server, replay.folder, change=refuse)
    assert 0 == replay().returncode
    with SqliteStore.open(replay.store, mode="read") as opened:
        failures = [o for o in opened.outcomes.read() if isinstance(o, Failure)]
    assert [("rejected", True)] * 2 == [(failure.kind, "too long for me" in failure.reason) for failure in failures]


def test_lines_that_are_not_results_are_ignored_and_counted(traces, server):
    """Whatever they contain, the results between them count."""
    replay = Replay(traces, server.url, "--metrics", CCRS)
    replay()
    answer(server, replay.folder)
    hostile = [
        b"",
        b"[]",
        b"\xff\xfe",
        b"{" * 5000,
        b'{"custom_id": "../../etc/passwd", "response": {"status_code": 200}}',
        b'{"custom_id": ["x"]}',
        json.dumps({"custom_id": "0" * 64, "response": {"status_code": True}}).encode(),
        json.dumps({"custom_id": "0" * 64, "response": "text"}).encode(),
    ]
    with (replay.folder / "results.jsonl").open("ab") as file:
        file.write(b"\n".join(hostile) + b"\n")
    done = replay()
    assert 0 == done.returncode, done.stderr
    assert f"{len(hostile) - 1} lines of the files of results ignored" in done.stderr
    assert N * CCRS_CALLS == len(scores(replay.store))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("other.jsonl", '{"question": "x"}\n', "does not contain a result of a request that Ragstone wrote"),
        ("requests-0007-x.jsonl", '{"custom_id": "mine"}\n', "line 1 is not a request that Ragstone wrote"),
    ],
)
def test_files_of_another_kind(traces, server, name, text, message):
    """A file that somebody put into the folder by mistake ends the command before any call."""
    folder = traces.with_name("batch")
    folder.mkdir()
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message) as raised:
        replay_traces([str(traces)], ["ccrs.cc"], store=traces.with_name("s.db"), judge=server.url, batch=folder)
    assert name in str(raised.value)
    assert "Move the file away" in str(raised.value)


def test_folders_that_cannot_be_used(traces, server, tmp_path):
    """With several processes, below a file, or used by another process, until that ends."""
    arguments: dict[str, Any] = {"store": tmp_path / "s.db", "judge": server.url}
    with pytest.raises(ConfigurationError, match="scores in one process"):
        replay_traces([str(traces)], ["ccrs.cc"], batch=tmp_path / "b", processes=2, **arguments)
    with pytest.raises(ConfigurationError, match="cannot be used"):
        replay_traces([str(traces)], ["ccrs.cc"], batch=traces / "b", **arguments)
    code = (
        "import sys; from ragstone.judges import RequestBatch\n"
        "with RequestBatch(sys.argv[1]): print('ready', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "b")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert "ready\n" == other.stdout.readline()
        with pytest.raises(ConfigurationError, match=f"is used by process {other.pid}"):
            replay_traces([str(traces)], ["ccrs.cc"], batch=tmp_path / "b", **arguments)
        other.kill()
    assert N == replay_traces([str(traces)], ["ccrs.cc"], batch=tmp_path / "b", **arguments).n_new


def test_each_model_has_files_of_its_own(traces, server):
    """A batch API takes one model in a file."""
    with FakeJudgeServer(models=["org/Reader:1"]) as reader:
        replay = Replay(traces, server.url, "--metrics", "ccrs.cc,udcg", "--reader", reader.url)
        done = replay("--json")
    files = json.loads(done.stdout)["batch"]["files"]
    assert {("fake-judge", server.url), ("org/Reader:1", reader.url)} == {(f["model"], f["url"]) for f in files}
    assert {"fake-judge", "org-Reader-1"} == {
        Path(f["path"]).name.split("-", 2)[2].removesuffix(".jsonl") for f in files
    }
    for file in files:
        bodies = [json.loads(line)["body"] for line in Path(file["path"]).read_text(encoding="utf-8").splitlines()]
        assert [file["model"]] * file["n_requests"] == [body["model"] for body in bodies]


def test_nothing_is_stored_before_all_models_have_results(traces, server, monkeypatch):
    """Also if the scores of one model are complete before another model finds out that its results are missing."""
    estimate = ChatReader.estimate_abstention

    async def later(*arguments: Any) -> Any:
        await asyncio.sleep(0.2)
        return await estimate(*arguments)

    monkeypatch.setattr(ChatReader, "estimate_abstention", later)
    folder, store = traces.with_name("batch"), traces.with_name("store.db")
    with FakeJudgeServer(models=["reader"]) as reader:

        def replay() -> int:
            metrics, arguments = ["ccrs.cc", "udcg"], {"judge": server.url, "reader": reader.url}
            report = replay_traces([str(traces)], metrics, store=store, batch=folder, **arguments)
            assert report.batch is not None
            return report.batch.n_open

        assert replay()
        models = {request["custom_id"]: request["body"]["model"] for request in requests_in(folder)}
        answer(server, folder, name="judge", change=lambda _, result: models[result["custom_id"]] != "reader")
        assert replay()
        assert not scores(store)
        for n_runs in range(5):
            answer(reader, folder, name=f"reader-{n_runs}")
            if not replay():
                break
    assert 2 * N == len(scores(store))


def test_a_budget_limits_what_is_written(traces, server):
    """A request that is written will be paid for."""
    replay = Replay(traces, server.url, "--metrics", CCRS, "--concurrency", "1", "--set", "budget.calls=8")
    done = replay()
    assert done.returncode in (3, 4), done.stderr
    assert 0 < len(requests_in(replay.folder)) <= 8


def test_files_are_private_and_complete_or_absent(traces, server):
    """A run that is killed leaves a partial file, whose requests the next run writes."""
    replay = Replay(traces, server.url, "--metrics", CCRS)
    replay()
    [path] = replay.folder.glob("requests-*.jsonl")
    assert (0o600, 0o700) == (path.stat().st_mode & 0o777, replay.folder.stat().st_mode & 0o777)
    partial = path.with_name(".requests-0007-another-model.jsonl.partial")
    path.rename(partial)
    replay()
    assert not partial.exists()
    assert N * CCRS_CALLS == len(requests_in(replay.folder)) + len(lines_of(replay.folder / "sent-at-once.jsonl"))


@pytest.mark.parametrize("method", ["write", "close"])
def test_a_full_disk_makes_no_failures_of_requests(traces, server, monkeypatch, method):
    """Nothing is stored of what could not be written, the error says what to do, and the same run goes on afterwards."""
    folder, store = traces.with_name("batch"), traces.with_name("store.db")

    def replay() -> int:
        report = replay_traces([str(traces)], CCRS.split(","), store=store, judge=server.url, batch=folder)
        assert report.batch is not None
        return report.batch.n_open

    def full(self: Any, *_: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(_Writer, method, full)
        with pytest.raises(
            StoreError, match=r"cannot be read or written: No space left on device.*run the same command again"
        ):
            replay()
    assert not scores(store)
    assert N == read_ledger(store).total.pending
    assert not list(folder.glob("*requests-*"))
    assert replay()
    answer(server, folder)
    assert not replay()
    assert N * CCRS_CALLS == sum(value is not None for value, *_ in scores(store).values())


@pytest.mark.parametrize("n_whole", [0, 1])
def test_a_reply_that_was_cut_costs_itself_only(traces, server, n_whole):
    """A kill or a full disk while a reply is kept: the replies of the next runs are kept behind the whole ones."""
    replay = Replay(traces, server.url, "--metrics", "ragas.faithfulness")
    replay.folder.mkdir()
    sent = replay.folder / "sent-at-once.jsonl"
    body = {"choices": [{"message": {"content": "x"}}]}
    line = json.dumps({"custom_id": "0" * 64, "response": {"status_code": 200, "body": body}})
    sent.write_text(f"{line}\n" * n_whole + line[:-40], encoding="utf-8")
    for n_runs in range(4):
        done = replay()
        if done.returncode == 0:
            break
        assert 3 == done.returncode, done.stderr
        answer(server, replay.folder, name=f"results-{n_runs}")
    assert N == len(scores(replay.store))
    found = [json.loads(line) for line in lines_of(sent)]
    assert len(found) > n_whole
    assert n_whole == sum(result["custom_id"] == "0" * 64 for result in found)


def test_what_the_endpoint_refuses_is_not_written(traces):
    """A model that takes no temperature: the first call learns it, so that the batch has no request that would fail."""
    with FakeJudgeServer(refused=["temperature", "max_tokens"]) as server:
        replay = Replay(traces, server.url, "--metrics", CCRS)
        replay()
        bodies = [request["body"] for request in requests_in(replay.folder)]
        assert bodies
        assert not [body for body in bodies if "temperature" in body or "max_tokens" in body]
        answer(server, replay.folder)
        assert 0 == replay().returncode
    assert N * CCRS_CALLS == len(scores(replay.store))


def test_draws_of_a_sample_are_requests_of_their_own(traces, server):
    """Draws without a seed have equal bodies, and need as many results."""
    replay = Replay(
        traces, server.url, "--metrics", "ccrs.cc", "--set", "judge.score_mode=sampled", "--set", "judge.draws=3"
    )
    replay()
    requests = requests_in(replay.folder)
    assert requests
    assert len(requests) == len({request["custom_id"] for request in requests})
    for n_runs in range(4):
        answer(server, replay.folder, name=f"results-{n_runs}")
        if (done := replay()).returncode == 0:
            break
    assert 0 == done.returncode, done.stderr
    with SqliteStore.open(replay.store, mode="read") as opened:
        assert N == sum(isinstance(o, Score) and o.interval is not None for o in opened.outcomes.read())


def test_without_a_reply_cache(traces, server):
    """The folder alone is enough: what was sent at once is kept in it."""
    os.environ["RAGSTONE_CACHE"] = ""
    try:
        replay = Replay(traces, server.url, "--metrics", "ragas.faithfulness")
        for n_runs in range(4):
            done = replay()
            if done.returncode == 0:
                break
            answer(server, replay.folder, name=f"results-{n_runs}")
    finally:
        del os.environ["RAGSTONE_CACHE"]
    assert 0 == done.returncode, done.stderr
    questions = [
        json.dumps(request) for request in server.stats.requests if len(request["messages"][-1]["content"]) > 100
    ]
    assert len(questions) == len(set(questions))
