"""A judge that is killed in the middle of a run, and restarted: nothing is lost. Longer outages end a run, which resumes,
and not a worker.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import ragstone
from builders import make_trace
from command_line import run_command
from fake_servers import FakeJudgeServer, Reply, Request
from ragstone.judges import OpenAICompatibleJudge, find_outage
from ragstone.judges._limits import gate
from ragstone.schema import Captured, Outcome
from ragstone.settings import Limits
from ragstone.store import SqliteStore, Store
from ragstone.worker import ScoringSetup, Worker, read_ledger

pytestmark = pytest.mark.usefixtures("virtual_time")

N = 40


class KilledServer(FakeJudgeServer):
    """Breaks all connections after some calls, for some seconds, as a server that is killed and restarted."""

    def __init__(self, *, after_calls: int, down_s: float, **faults: Any) -> None:
        super().__init__(latency_s=0.5, **faults)
        self._after_calls = after_calls
        self._down_s = down_s
        self._killed_at: float | None = None
        self.n_broken = 0
        self.outages: list[tuple[float, float] | None] = []
        """What the progress line shows during the outage."""

    async def _checked(self, request: Request) -> Reply:
        now = asyncio.get_running_loop().time()
        if self._killed_at is None and self.calls >= self._after_calls:
            self._killed_at = now
        if self._killed_at is not None and now < self._killed_at + self._down_s:
            self.n_broken += 1
            self.outages.append(find_outage())
            raise ConnectionResetError
        return await super()._checked(request)

    def restart(self) -> None:
        """End the outage now."""
        self._down_s = 0.0


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a file of samples."""
    monkeypatch.chdir(tmp_path)
    samples = [{"id": f"q{i}", "query": f"Why {i}?", "contexts": ["So."], "response": "So."} for i in range(N)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(sample) + "\n" for sample in samples))
    return path


def forget_outages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the next command in this process a new process for the limits of endpoints."""
    monkeypatch.setattr(gate, "_registry", gate._Registry())


def stored(path: str) -> list[Outcome]:
    """All outcomes of a store."""
    with SqliteStore.open(path, mode="read") as store:
        return list(store.outcomes.read())


def options(server: FakeJudgeServer) -> list[str]:
    """Options of all commands. The deadline of a sample is much shorter than the outage."""
    return [f"--judge={server.url}", "--metrics=ccrs.qr,ccrs.id", "--set=limits.deadline_s=20"]


@pytest.mark.parametrize("concurrency", [1, 16])
@pytest.mark.parametrize("command", ["evaluate", "replay"])
def test_a_judge_that_is_restarted_costs_no_score(rows, command, concurrency):
    """Three minutes without a judge, and 100% of the outcomes are scored."""
    store = ["--store=r.db"] if command == "replay" else []
    with KilledServer(after_calls=30, down_s=180) as server:
        done = run_command(command, rows, *store, *options(server), "--json", f"--set=limits.concurrency={concurrency}")
    assert 0 == done.returncode, done.stderr
    assert server.n_broken > 10
    if command == "evaluate":
        durations = [duration for duration, limit in filter(None, server.outages) if limit == 300]
        assert durations[0] < 10
        assert 150 < durations[-1] <= 181
    assert [(N, 0)] * 2 == [(m["n_scored"], m["n_failed"]) for m in json.loads(done.stdout)["metrics"]]


def test_an_outage_beyond_the_limit_ends_evaluate_with_code_3(rows):
    """The scores so far are printed, the last line says why, and with a cache the same command scores only the rest."""
    with KilledServer(after_calls=60, down_s=1e6) as server:
        command = ["evaluate", rows, *options(server), "--set=limits.max_outage_s=90", "--set=cache=kept", "--json"]
        done = run_command(*command)
        assert 3 == done.returncode, done.stderr
        assert (
            "exit code 3: the judge or reader did not answer for longer than limits.max_outage_s"
            in done.stderr.splitlines()[-1]
        )
        first = json.loads(done.stdout)
        n_scored = sum(metric["n_scored"] for metric in first["metrics"])
        assert 40 <= n_scored < 2 * N
        assert first["wall_s"] >= 0

        server.restart()
        done = run_command(*command)
        assert 0 == done.returncode, done.stderr
        second = json.loads(done.stdout)
        assert 2 * N == sum(metric["n_scored"] for metric in second["metrics"])
        assert n_scored <= second["usage"]["cached"]


def test_answers_of_an_application_survive_an_outage(rows, monkeypatch):
    """They are asked once, also if the judge is down for longer than the limit."""
    asked = []

    def app(question: str) -> dict[str, object]:
        asked.append(question)
        return {"response": "So.", "contexts": ["So."]}

    with KilledServer(after_calls=10, down_s=1e6) as server:
        judge = OpenAICompatibleJudge(server.url)
        result = ragstone.evaluate(str(rows), "ccrs.qr", app=app, judge=judge, max_outage_s=30, traces="t.jsonl")
        assert result.judge_unavailable
        assert N == len(asked)
        server.restart()
        result = ragstone.evaluate(str(rows), "ccrs.qr", app=app, judge=judge, max_outage_s=30, traces="t.jsonl")
    assert (False, N) == (result.judge_unavailable, result.summary()[0].n_scored)
    assert N == len(asked)


@pytest.mark.parametrize("command", [["replay", "rows.jsonl", "--store=r.db"], ["worker", "r.db", "--until-idle"]])
def test_an_outage_beyond_the_limit_keeps_traces_pending(rows, command, monkeypatch):
    """Exit code 3, no failed trace, and the same command scores the rest."""
    if command[0] == "worker":
        with SqliteStore.open("r.db", mode="own") as store:
            store.traces.ingest("app", N, [Captured(trace=make_trace(f"t{i}")) for i in range(N)])
    with KilledServer(after_calls=30, down_s=1e6) as server:
        done = run_command(*command, *options(server), "--set=limits.max_outage_s=90")
        assert 3 == done.returncode, done.stderr
        assert "the judge is unavailable" in done.stderr.splitlines()[-1]
        assert "pending" in done.stderr.splitlines()[-1]
        ledger = read_ledger("r.db").total
        assert 0 == ledger.failed
        assert ledger.pending > 0

        server.restart()
        forget_outages(monkeypatch)
        done = run_command(*command, *options(server))
    assert 0 == done.returncode, done.stderr
    assert N == read_ledger("r.db").total.scored


def test_another_judge_finishes_what_waits(rows, monkeypatch):
    """Whoever gives a judge up starts the worker with another one: the pending traces get its scores, the others keep theirs."""
    with SqliteStore.open("r.db", mode="own") as store:
        store.traces.ingest("app", N, [Captured(trace=make_trace(f"t{i}")) for i in range(N)])
    with KilledServer(after_calls=30, down_s=1e6) as server:
        done = run_command("worker", "r.db", "--until-idle", *options(server), "--set=limits.max_outage_s=90")
        assert 3 == done.returncode, done.stderr
    first = {outcome.sample_id: outcome.judge_hash for outcome in stored("r.db")}
    assert 0 < len(first) < N
    forget_outages(monkeypatch)
    done = run_command("worker", "r.db", "--until-idle", "--judge=lexical", "--metrics=ccrs.qr", "--replan")
    assert 0 == done.returncode, done.stderr
    total = read_ledger("r.db").total
    assert (N, 0, 0) == (total.scored, total.failed, total.pending)
    second = {outcome.sample_id: outcome.judge_hash for outcome in stored("r.db")}
    assert first == {sample: judge for sample, judge in second.items() if sample in first}
    (lexical,) = {judge for sample, judge in second.items() if sample not in first}
    assert lexical not in first.values()


@pytest.mark.parametrize("max_outage_s", [0.0, 90.0])
@pytest.mark.parametrize("after_calls", [0, 30])
def test_a_running_worker_keeps_traces_pending_for_as_long_as_the_judge_is_down(
    tmp_path, caplog, monkeypatch, after_calls, max_outage_s
):
    """An hour without a judge, from the start or later: no metric fails, the log says that it is long, all are scored."""
    monkeypatch.setattr("ragstone.worker._times.POLL_MAX_S", 30.0)
    with SqliteStore.open(tmp_path / "r.db", mode="own") as store:
        store.traces.ingest("app", N, [Captured(trace=make_trace(f"t{i}")) for i in range(N)])
    with KilledServer(after_calls=after_calls, down_s=3600) as server:
        setup = ScoringSetup(["ccrs.qr", "ccrs.id"], judge=server.url, limits=Limits(deadline_s=20))
        worker = Worker(tmp_path / "r.db", setup, max_outage_s=max_outage_s)
        last = []

        def on_outcomes(trace, outcomes, is_last) -> None:
            last.extend([trace.trace_id] * is_last)
            if len(last) == N:
                worker.stop()

        worker.on_outcomes = on_outcomes
        asyncio.run(worker.run())
    total = read_ledger(tmp_path / "r.db").total
    assert (N, 0, 0) == (total.scored, total.failed, total.pending)
    assert server.n_broken > 10
    assert None is worker.stopped_early
    pending = [r.getMessage() for r in caplog.records if "stay pending" in r.getMessage()]
    assert 1 <= len(pending) <= 4
    assert ("all requests stay pending" in pending[-1]) == (after_calls > 0)


class Arriving:
    """A trace source with one batch, as a spool."""

    def __init__(self) -> None:
        self.n_moved = 0

    @property
    def may_have_more(self) -> bool:
        """Whether the batch was not moved yet."""
        return self.n_moved == 0

    def transfer_batch(self, store: Store, _errors: object) -> int:
        """Move the batch once."""
        if self.n_moved:
            return 0
        store.traces.ingest("source", 1, [Captured(trace=make_trace(f"t{i}")) for i in range(3)])
        self.n_moved = 3
        return 3


def test_a_worker_drains_while_the_judge_is_down_at_the_start(tmp_path):
    """Traces are in the store before the judge has answered once. Then they are scored."""
    source = Arriving()
    pending: list[int] = []

    class LateServer(KilledServer):
        async def _checked(self, request: Request) -> Reply:
            if source.n_moved:
                pending.append(read_ledger(tmp_path / "r.db").total.pending)
            return await super()._checked(request)

    with LateServer(after_calls=0, down_s=200) as server:
        setup = ScoringSetup("ccrs.qr", judge=server.url)
        worker = Worker(tmp_path / "r.db", setup, intakes=[source])
        asyncio.run(worker.run(until_idle=True))
        assert 3 == pending[0]
        assert (None, 3) == (worker.stopped_early, read_ledger(tmp_path / "r.db").total.scored)

    with LateServer(after_calls=0, down_s=1e6) as server:
        worker = Worker(tmp_path / "s.db", ScoringSetup("ccrs.qr", judge=server.url), max_outage_s=100)
        asyncio.run(worker.run(until_idle=True))
    assert "the judge is unavailable" in worker.stopped_early
