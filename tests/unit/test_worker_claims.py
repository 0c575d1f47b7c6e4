"""How many requests a worker claims at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from builders import make_trace
from completions import complete
from ragstone.errors import JudgeUnavailableError
from ragstone.judges import Judge
from ragstone.metrics import MetricBase
from ragstone.schema import Captured, Sample, Score, Trace
from ragstone.settings import Limits
from ragstone.store import PlannedMetric, SqliteStore
from ragstone.store._leases import Leases
from ragstone.store._outcomes import Outcomes
from ragstone.testing import FakeJudge
from ragstone.worker import ScoringSetup, Worker, open_setup, read_ledger
from ragstone.worker._parts import MetricGroups

N_REQUESTS = 200
CONCURRENCY = 4


class Waiting(MetricBase):
    """A metric that waits, for one request until all others have ended."""

    name, needs = "acme.waiting", ("response",)

    def __init__(self, *, keeps: str | None) -> None:
        self._keeps = keeps
        self._others = asyncio.Event()
        self._n_ended = self._running = self.most_running = 0

    async def compute(self, sample: Sample, judge: Judge) -> Score:
        """Score 1."""
        self._running += 1
        self.most_running = max(self.most_running, self._running)
        if sample.id == self._keeps:
            await self._others.wait()
        await asyncio.sleep(0)
        self._running -= 1
        self._n_ended += 1
        if self._n_ended == N_REQUESTS - 1:
            self._others.set()
        return self.make_score(sample, 1.0, method="exact")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with requests."""
    with SqliteStore.open(tmp_path / "s.db", mode="own") as store:
        store.traces.ingest("segment", 1, [Captured(trace=make_trace(f"t{n}")) for n in range(N_REQUESTS)])
    return tmp_path / "s.db"


@pytest.fixture
def claims(monkeypatch):
    """Numbers of the requests that were claimed."""
    found: list[int] = []
    claim = Leases.claim

    def counted(self, owner, limit, **options):
        claimed = claim(self, owner, limit, **options)
        found.append(len(claimed))
        return claimed

    monkeypatch.setattr(Leases, "claim", counted)
    return found


def work(path, metric):
    setup = open_setup([metric], judge="lexical", limits=Limits(concurrency=CONCURRENCY))

    async def run():
        async with setup:
            await Worker(path, setup).run(until_idle=True)

    asyncio.run(run())
    assert N_REQUESTS == read_ledger(path).total.scored


def test_a_worker_that_scores_faster_than_the_store_claims_more(path, claims):
    """It begins with its slots, and claims at most four times as many."""
    work(path, "ccrs.qr")
    assert CONCURRENCY == claims[0]
    assert 4 * CONCURRENCY == max(claims)


def test_a_worker_with_unfinished_requests_claims_for_its_free_slots(path, claims):
    """Other workers of a shared store can score the rest meanwhile."""
    work(path, Waiting(keeps="t0"))
    assert CONCURRENCY == max(claims)


def test_a_worker_that_has_claimed_more_claims_for_its_slots_again(path, claims):
    """As soon as requests do not end before its next claim."""
    work(path, Waiting(keeps="t100"))
    (with_t100,) = (n for n in range(len(claims)) if sum(claims[:n]) <= 100 < sum(claims[: n + 1]))
    assert CONCURRENCY < max(claims[: with_t100 + 1])
    assert CONCURRENCY >= max(claims[with_t100 + 1 :])


def test_outcomes_that_another_worker_has_stored_are_not_reported(path, monkeypatch):
    """The caller has them from the other worker, or not at all."""
    monkeypatch.setattr(Outcomes, "complete_many", lambda _, completions: [False] * len(completions))
    reported: list[object] = []

    async def run():
        async with open_setup(["ccrs.qr"], judge="lexical") as setup:
            worker = Worker(path, setup)
            worker.on_outcomes = lambda *values: reported.append(values)
            await worker.run(until_idle=True)

    asyncio.run(run())
    assert [] == reported


def test_no_more_are_scored_at_once_than_there_are_slots(path, claims):
    """Requests that are claimed ahead wait for a slot."""
    metric = Waiting(keeps=None)
    work(path, metric)
    assert CONCURRENCY < max(claims)
    assert CONCURRENCY == metric.most_running


def test_with_a_daily_budget_a_worker_claims_for_its_slots(path, claims):
    """Claimed requests are scored although the budget is reached meanwhile."""
    setup = open_setup(["ccrs.qr"], judge="lexical", limits=Limits(concurrency=CONCURRENCY))

    async def run():
        async with setup:
            await Worker(path, setup, daily_budget={"calls": 10}).run(until_idle=True)

    asyncio.run(run())
    assert CONCURRENCY == max(claims)


@pytest.mark.usefixtures("virtual_time")
def test_requests_that_waited_for_the_judge_when_workers_were_killed_are_scored(path, monkeypatch):
    """They have not made a worker crash, however often one was killed during the outage."""
    is_down = True
    judge = FakeJudge(80, fail=lambda _: JudgeUnavailableError("connection refused") if is_down else None)

    async def run() -> None:
        async with ScoringSetup("ccrs.qr", judge=judge, limits=Limits(concurrency=CONCURRENCY)) as setup:
            worker = Worker(path, setup)
            working = asyncio.create_task(worker.run(until_idle=not is_down))
            if is_down:
                await asyncio.sleep(60)
                worker.stop()
            await working

    with monkeypatch.context() as patch:
        patch.setattr(Leases, "release", lambda *_: 0)  # as after a kill
        for _ in range(6):
            asyncio.run(run())
    is_down = False
    asyncio.run(run())
    assert (N_REQUESTS, 0) == (read_ledger(path).total.scored, read_ledger(path).total.failed)


def test_a_request_that_could_not_be_scored_is_scored_after_its_lease(path, monkeypatch):
    """A bug does not keep a request from all workers while this one runs."""
    monkeypatch.setattr("ragstone.worker._times.FILE_LEASE_S", 0.3)
    real, failed = MetricGroups.score, []

    async def score(self: MetricGroups, trace: Trace, **options: object) -> None:
        if trace.trace_id == "t0" and not failed:
            failed.append(trace.trace_id)
            raise RuntimeError("a bug")
        await real(self, trace, **options)

    monkeypatch.setattr(MetricGroups, "score", score)

    async def run() -> None:
        async with open_setup(["ccrs.qr"], judge="lexical") as setup:
            worker = Worker(path, setup)
            worker.on_outcomes = lambda trace, *_: trace.trace_id == "t0" and worker.stop()
            await asyncio.wait_for(worker.run(), 60)

    asyncio.run(run())
    assert ["t0"] == failed


def test_a_request_that_takes_longer_than_a_lease_is_scored_once(tmp_path, monkeypatch):
    """A worker renews the leases of what it has in work before it claims."""
    monkeypatch.setattr("ragstone.worker._times.FILE_LEASE_S", 0.3)
    with SqliteStore.open(tmp_path / "s.db", mode="own") as store:
        store.traces.ingest("segment", 1, [Captured(trace=make_trace("t"))])
    begun: list[str] = []

    class Slow(MetricBase):
        name, needs = "acme.slow", ("response",)

        async def compute(self, sample: Sample, judge: Judge) -> Score:
            begun.append(sample.id)
            await asyncio.sleep(1.5)
            return self.make_score(sample, 1.0, method="exact")

    async def run() -> None:
        async with open_setup([Slow()], judge="lexical") as setup:
            await Worker(tmp_path / "s.db", setup).run(until_idle=True)

    asyncio.run(run())
    assert ["t"] == begun


class Counting(MetricBase):
    """A metric that counts the samples that it has scored."""

    needs = ("response",)

    def __init__(self, name: str, *, asks_judge: bool = False) -> None:
        self.name, self.judge_calls, self.scored = name, int(asks_judge), Counter[str]()

    async def compute(self, sample: Sample, judge: Judge) -> Score:
        """Score 1."""
        self.scored[sample.id] += 1
        return self.make_score(sample, 1.0, method="exact")


def test_each_metric_is_computed_once_by_a_worker_without_a_judge_and_one_with_it(tmp_path: Path) -> None:
    """A worker without a judge computes the metrics that need none once. A worker with a judge computes only the others."""
    plain, judged = Counting("acme.plain"), Counting("acme.judged", asks_judge=True)
    ids = [f"t{n}" for n in range(20)]
    plan = ScoringSetup([plain, judged], may_lack_models=True).plan
    with SqliteStore.open(tmp_path / "s.db", mode="own") as store:
        store.traces.ingest("segment", 1, [Captured(trace=make_trace(each), plan=plan) for each in ids])

    def work(judge: str | None) -> None:
        """Run a worker until it has stored outcomes of all requests."""
        worker = Worker(tmp_path / "s.db", ScoringSetup([plain, judged], judge=judge, may_lack_models=True))
        stored: list[str] = []

        def on_outcomes(trace: Trace, *_: object) -> None:
            stored.append(trace.trace_id)
            if len(stored) == len(ids):
                worker.stop()

        worker.on_outcomes = on_outcomes
        asyncio.run(worker.run())

    work(None)
    assert (dict.fromkeys(ids, 1), {}) == (plain.scored, judged.scored)
    ledger = read_ledger(tmp_path / "s.db")
    assert (20, 20, 0) == (ledger.total.pending, ledger.metrics["acme.judged"].pending, ledger.total.scored)

    work("lexical")
    assert (dict.fromkeys(ids, 1), dict.fromkeys(ids, 1)) == (plain.scored, judged.scored)
    ledger = read_ledger(tmp_path / "s.db")
    assert (0, 20) == (ledger.total.pending, ledger.total.scored)
    assert {"acme.plain": 20, "acme.judged": 20} == {name: row.scored for name, row in ledger.metrics.items()}
    with SqliteStore.open(tmp_path / "s.db", mode="own") as store:
        assert [] == store.upkeep.recount()


def test_a_request_with_outcomes_is_not_claimed_by_a_worker_that_cannot_complete_it(tmp_path: Path) -> None:
    """A claim of whole requests omits those with outcomes. Another claim has them, with the outcomes that they have."""
    with SqliteStore.open(tmp_path / "s.db", mode="own") as store:
        store.traces.ingest("segment", 1, [Captured(trace=make_trace(each)) for each in ("t0", "t1")])
        store.plan.set([PlannedMetric(name=name, version="1", judge_hash="") for name in ("a", "b")], [])
        complete(store, "t0", [Score(sample_id="t0", metric="a", metric_version="1", value=1.0, method="exact")])
        assert ["t1"] == [trace.trace_id for trace in store.leases.claim("w", 10, lease_s=60.0, whole=True)]
        claimed = store.leases.claim("w", 10, lease_s=60.0)
        assert (["t0"], {"t0": {("a", "1", "")}}) == ([trace.trace_id for trace in claimed], claimed.known)
