"""Judges that are slow, and that process few requests at a time: each answered call is used, and no outcome is a timeout."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import ragstone
from builders import make_sample, make_trace
from fake_servers import FakeJudgeServer, Reply
from ragstone.judges import (
    Completion,
    FunctionModel,
    ModelJudge,
    OpenAICompatibleJudge,
    find_outage,
    is_any_endpoint_down,
)
from ragstone.metrics.ccrs import CCRS
from ragstone.requests import PassageDraft, TraceDraft
from ragstone.schema import Captured, Outcome, Usage
from ragstone.scoring import Scorer
from ragstone.store import SqliteStore
from ragstone.worker import ScoringSetup, Worker, read_ledger
from virtual_time import VirtualClock

N = 29


def samples(n: int) -> list[Any]:
    """So many samples."""
    return [
        make_sample(f"s{i}", query=f"What is in box {i}?", response=f"Number {i}.", reference=f"{i}") for i in range(n)
    ]


def kinds(outcomes: Any) -> Counter[str]:
    """Counts of the outcomes: "score", or the kind of a failure."""
    return Counter(getattr(outcome, "kind", "score") for outcome in outcomes)


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize("serves", [1, 2])
def test_a_slow_serial_judge_loses_no_outcome(serves):
    """All outcomes are scored with the defaults, each request is sent once, and the judge is used all the time."""
    with FakeJudgeServer(latency_s=3.0, serves=serves) as server:
        result = ragstone.evaluate(samples(N), "ccrs", judge=server.url)
    assert {"score": 5 * N} == kinds(result.outcomes)
    assert not result.judge_unavailable
    # One call before the samples learns what the server refuses.
    assert 5 * N + 1 == server.calls
    assert result.wall_s < 1.05 * 3 * (5 * N + 1)


@pytest.mark.usefixtures("virtual_time")
def test_a_slow_serial_judge_of_a_worker_loses_no_outcome(tmp_path):
    """All requests are scored with the defaults, and the judge is never seen as unavailable."""
    with SqliteStore.open(tmp_path / "r.db", mode="own") as store:
        store.traces.ingest("app", N, [Captured(trace=make_trace(f"t{i}")) for i in range(N)])
    outages = []
    with FakeJudgeServer(latency_s=10.0, serves=1) as server:
        worker = Worker(tmp_path / "r.db", ScoringSetup(["ccrs.qr", "ccrs.id"], judge=server.url))
        worker.on_outcomes = lambda *_: outages.append((worker.outage, find_outage(), is_any_endpoint_down()))
        asyncio.run(worker.run(until_idle=True))
    total = read_ledger(tmp_path / "r.db").total
    assert (N, 0, 0) == (total.scored, total.failed, total.pending)
    assert {(None, None, False)} == set(outages)
    assert 2 * N + 1 == server.calls


def test_a_serial_judge_of_a_monitor_gets_each_request_once(tmp_path):
    """The same through sockets and in real time, with a timeout that is shorter than the queue of 16 requests."""
    with FakeJudgeServer(latency_s=0.3, serves=1) as server:
        judge = OpenAICompatibleJudge(server.url, model="m", timeout_s=2.0, backoff_s=0.05)
        with ragstone.Monitor(metrics=["ccrs.qr", "ccrs.id"], judge=judge, store=str(tmp_path / "r.db")) as monitor:
            for i in range(12):
                monitor.record(TraceDraft(query=f"Why {i}?", response="So.", contexts=[PassageDraft(text="So.")]))
            assert monitor.drain(60)
    total = read_ledger(tmp_path / "r.db").total
    assert (12, 0) == (total.scored, total.failed)
    assert server.calls <= 1.1 * 24 + 1


class SchemalessServer(FakeJudgeServer):
    """Answers a JSON Schema with an error, after the same time as other requests, and processes what its client gave up."""

    def __init__(self, *, status: int, **faults: Any) -> None:
        super().__init__(**faults)
        self._status = status

    def _plan(self, question: str, body: dict[str, Any]) -> Any:
        plan = super()._plan(question, body)
        return (lambda _: ("", Reply(self._status, "boom"))) if "response_format" in body else plan

    async def _faulted(self, question: str, plan: Any) -> Any:
        return await asyncio.shield(asyncio.ensure_future(super()._faulted(question, plan)))


@pytest.mark.usefixtures("virtual_time")
@pytest.mark.parametrize(("latency_s", "status"), [(3.0, 500), (20.0, 500), (58.0, 500), (58.0, 200)])
def test_a_slow_serial_judge_that_fails_on_schemas_loses_no_outcome(latency_s, status):
    """All outcomes are scored. Three requests in each form show that schemas are not supported, however long the queue is."""
    with SchemalessServer(status=status, latency_s=latency_s, serves=1) as server:
        result = ragstone.evaluate(samples(12), ["ccrs", "ragas"], judge=server.url)
    assert {"score": 9 * 12} == kinds(result.outcomes)
    assert 6 == sum("response_format" in body for body in server.stats.requests)
    assert server.calls <= 14 * 12 + 12


@pytest.mark.usefixtures("virtual_time")
def test_the_check_for_a_cut_prompt_may_be_slow():
    """Calls of 130 seconds are waited for, also the one that shows whether the server cuts prompts."""
    with FakeJudgeServer(latency_s=130.0, count_tokens=lambda text: 1024 * text.count("Number 0.")) as server:
        judge = OpenAICompatibleJudge(server.url, model="m", timeout_s=300)
        result = ragstone.evaluate(samples(1), "ccrs.qr", judge=judge)
    assert {"score": 1} == kinds(result.outcomes)
    assert 3 == server.calls


class HangingServer(FakeJudgeServer):
    """Never answers requests about box 0, 20, 40, ... `holds`: It processes nothing else meanwhile."""

    def __init__(self, *, holds: bool, **faults: Any) -> None:
        super().__init__(**faults)
        self._holds = holds

    async def _faulted(self, question: str, plan: Any) -> Any:
        if any(f"box {n}?" in question for n in range(0, N, 20)):
            if self._holds:
                async with self._slots:
                    await asyncio.Event().wait()
            await asyncio.Event().wait()
        return await super()._faulted(question, plan)


@pytest.mark.parametrize("holds", [False, True])
def test_a_request_that_hangs_ends_and_costs_no_other_outcome(virtual_time: VirtualClock, holds):
    """Two of 29 questions are never answered: they fail after their attempts, and all others are scored."""
    with HangingServer(latency_s=3.0, serves=1, holds=holds) as server:
        judge = OpenAICompatibleJudge(server.url, model="m")
        before = virtual_time.time()
        result = ragstone.evaluate(samples(N), "ccrs.qr", judge=judge)
        took_s = virtual_time.time() - before
    failed = {outcome.sample_id: outcome.kind for outcome in result.outcomes if outcome.outcome == "failure"}
    assert {"s0": "timeout", "s20": "timeout"} == failed
    # Each of five attempts ends 60 seconds after the replies to others, and may hold up the others.
    assert took_s < 3 * N + 2 * 5 * (60 + 50)


class SilentServer(FakeJudgeServer):
    """Answers nothing after some calls."""

    def __init__(self, clock: VirtualClock, *, after_calls: int, **faults: Any) -> None:
        super().__init__(**faults)
        self._clock = clock
        self._after_calls = after_calls
        self.answered_at = 0.0

    async def _faulted(self, question: str, plan: Any) -> Any:
        if self.calls > self._after_calls:
            await asyncio.Event().wait()
        reply = await super()._faulted(question, plan)
        self.answered_at = self._clock.time()
        return reply


@pytest.mark.parametrize(("serves", "latency_s", "after_calls"), [(1000, 1.0, 60), (1, 3.0, 60), (1, 3.0, 3)])
def test_a_judge_that_falls_silent_is_found_after_one_timeout(
    virtual_time: VirtualClock, serves, latency_s, after_calls
):
    """An outage begins when nothing was answered for the timeout of a request, also if few requests are in flight."""
    begun = []

    async def session(url: str) -> None:
        judge = OpenAICompatibleJudge(url, model="m")
        scorer = Scorer(CCRS, judge, concurrency=16)

        async def watch() -> None:
            while not is_any_endpoint_down():  # noqa: ASYNC110  nothing tells when it is
                await asyncio.sleep(0.5)
            begun.append(virtual_time.time())
            scoring.cancel()

        scoring = asyncio.ensure_future(_all(scorer))
        watching = asyncio.create_task(watch())
        await asyncio.gather(scoring, watching, return_exceptions=True)
        await judge.aclose()

    with SilentServer(virtual_time, after_calls=after_calls, latency_s=latency_s, serves=serves) as server:
        asyncio.run(session(server.url))
    assert 59 < begun[0] - server.answered_at < 75


async def _all(scorer: Scorer) -> list[Outcome]:
    return [outcome async for _, outcomes in scorer.score_many(samples(N)) for outcome in outcomes]


def test_a_serial_client_library_loses_no_outcome():
    """A function that processes one call at a time is answered for all calls, although they wait in 16 threads."""
    lock, n_calls = threading.Lock(), []

    def ask(_request: object) -> tuple[Completion, Usage]:
        n_calls.append(1)
        with lock:
            time.sleep(0.2)
        return Completion(text="80"), Usage(output_tokens=1)

    model = FunctionModel(ask, name="serial", settings={}, timeout_s=2.0)
    result = ragstone.evaluate(samples(30), "ccrs.qr", judge=ModelJudge(model))
    assert {"score": 30} == kinds(result.outcomes)
    assert len(n_calls) <= 1.1 * 30 + 1


@pytest.mark.usefixtures("virtual_time")
def test_a_deadline_of_the_user_is_kept():
    """With a deadline, outcomes that a slow judge did not reach in time are timeouts, as before."""
    with FakeJudgeServer(latency_s=3.0, serves=1) as server:
        result = ragstone.evaluate(samples(N), "ccrs", judge=server.url, deadline_s=60)
    assert kinds(result.outcomes)["timeout"] > N


def test_a_slow_request_of_a_worker_is_scored_once(tmp_path: Path, monkeypatch):
    """A lease that is shorter than the reply of the judge is renewed, so that the request is not scored twice."""
    monkeypatch.setattr("ragstone.worker._times.FILE_LEASE_S", 0.9)
    with SqliteStore.open(tmp_path / "r.db", mode="own") as store:
        store.traces.ingest("app", 1, [Captured(trace=make_trace("t"))])
    with FakeJudgeServer(latency_s=2.5) as server:
        setup = ScoringSetup("ccrs.qr", judge={"url": server.url, "model": "m"})
        asyncio.run(Worker(tmp_path / "r.db", setup).run(until_idle=True))
    assert 1 == read_ledger(tmp_path / "r.db").total.scored
    assert 2 == server.calls
