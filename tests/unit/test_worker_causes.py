"""Causes for sinks: decided when all metrics of a request are there, with the counts of the report."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from builders import make_trace
from completions import complete
from ragstone.experiments import build_report
from ragstone.schema import Captured, Passage, Score
from ragstone.sinks import Delivery
from ragstone.store import PlannedMetric, SqliteStore
from ragstone.worker import StepErrors
from ragstone.worker._commit import Committer
from ragstone.worker._delivery import sink_dispatcher

PLAN = [PlannedMetric(name="ccrs.ac", version="1"), PlannedMetric(name="ragas.faithfulness", version="1")]
DECLINED = "I could not find this in the documents."


def correctness(trace_id: str, judged: float, version: str = "1") -> Score:
    """A judgment of correctness."""
    details = {"em": 0.0, "judge": judged}
    return Score(
        sample_id=trace_id, metric="ccrs.ac", metric_version=version, value=judged, method="x", details=details
    )


def support(trace_id: str, *verdicts: bool) -> Score:
    """Claims with verdicts."""
    claims = [{"claim": f"claim {n}", "supported": verdict} for n, verdict in enumerate(verdicts)]
    return Score(
        sample_id=trace_id,
        metric="ragas.faithfulness",
        metric_version="1",
        value=sum(verdicts) / len(verdicts),
        method="x",
        details={"claims": claims},
    )


def captured(trace_id: str, response: str = "It is red.") -> Captured:
    """A request whose passage is relevant."""
    passages = (Passage(text="It is blue.", relevance=1.0),)
    return Captured(trace=make_trace(trace_id=trace_id, contexts=passages, response=response, reference=("Blue.",)))


@pytest.fixture
def store(tmp_path: Path):
    """A store with two planned metrics and one sink."""
    with SqliteStore.open(tmp_path / "s.db", mode="own") as opened:
        opened.plan.set(PLAN, ["scripted"])
        yield opened


class Recorder:
    """Keeps what it receives."""

    name = "scripted"

    def __init__(self) -> None:
        self.received: list[Delivery] = []

    async def write(self, batch: Sequence[Delivery]) -> Mapping[str, Exception] | None:
        """Keep a batch."""
        self.received += batch
        return None

    async def aclose(self) -> None:
        """Nothing to close."""


def received(store: SqliteStore) -> list[Delivery]:
    """What a sink receives if what is due is delivered once."""
    sink = Recorder()

    async def run() -> None:
        committer = Committer(StepErrors(), store)
        dispatcher = sink_dispatcher(sink, committer)  # type: ignore[arg-type]
        await dispatcher.deliver(dispatcher.due())
        await committer.aclose()

    asyncio.run(run())
    return sink.received


def deliver(store: SqliteStore) -> list[tuple[str, str, str | None]]:
    """Trace, metric and cause of each delivery."""
    return [(d.trace_id, d.outcome.metric, d.cause.name if d.cause else None) for d in received(store)]


def test_the_cause_follows_the_last_outcome(store: SqliteStore) -> None:
    """An early group is delivered without a cause. The last one has it, also if the early one is sent again."""
    store.traces.ingest("a", 1, [captured("t1")])
    complete(store, "t1", [correctness("t1", 0.1)], owner="")
    assert store.traces.explain("t1").state == "pending"
    assert deliver(store) == [("t1", "ccrs.ac", None)]
    complete(store, "t1", [support("t1", True, False)])
    store.deliveries.requeue(state="sent")
    expected = {("t1", "ccrs.ac", None), ("t1", "ragas.faithfulness", "unsupported_claims")}
    assert set(deliver(store)) == expected
    store.deliveries.requeue(state="sent")
    assert set(deliver(store)) == expected


def test_causes_are_those_of_the_report(store: SqliteStore, tmp_path: Path) -> None:
    """Each wrong request is counted once, with the cause that the report of the same store gives it."""
    answers = ["It is red.", DECLINED, "It is blue."] * 4
    store.traces.ingest("a", 1, [captured(f"t{n}", response) for n, response in enumerate(answers)])
    for n in range(len(answers)):
        judged = 0.9 if n % 3 == 2 else 0.1
        complete(store, f"t{n}", [correctness(f"t{n}", judged), support(f"t{n}", True, n % 2 == 0)])
    counts = Counter(cause for _, _, cause in deliver(store) if cause is not None)
    report = {row.cause: row.n for row in build_report(tmp_path / "s.db").causes}
    assert counts == report
    assert set(counts) == {"unsupported_claims", "missed_passage", "wrong_passage", "correct_unsupported"}


def test_outcomes_of_another_version_do_not_decide(store: SqliteStore) -> None:
    """A request that was scored by an older version before the plan changed has the cause of the planned version."""
    store.traces.ingest("a", 1, [captured("t1")])
    complete(store, "t1", [correctness("t1", 0.1)], owner="")
    store.plan.set([PlannedMetric(name="ccrs.ac", version="2"), PLAN[1]], ["scripted"])
    complete(store, "t1", [correctness("t1", 0.9, "2"), support("t1", True)])
    assert [cause for _, _, cause in deliver(store)] == [None, None, None]


def test_a_damaged_text_does_not_stop_deliveries(store: SqliteStore, tmp_path: Path) -> None:
    """The outcomes arrive without the cause."""
    store.traces.ingest("a", 1, [captured("t1")])
    complete(store, "t1", [correctness("t1", 0.1), support("t1", True)])
    with closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
        db.execute("UPDATE trace_bodies SET body = '{'")
    assert [cause for _, _, cause in deliver(store)] == [None, None]


def test_the_evidence_quotes_nothing(store: SqliteStore) -> None:
    """The cause names positions and counts, because sinks send it without their flag for text."""
    store.traces.ingest("a", 1, [captured("t1", DECLINED), captured("t2")])
    complete(store, "t1", [correctness("t1", 0.1), support("t1", True)])
    complete(store, "t2", [correctness("t2", 0.1), support("t2", True, False, False)])
    why = {d.trace_id: d.cause.why for d in received(store) if d.cause is not None}
    assert why == {
        "t1": "Passage 1 is relevant, and the model did not answer.",
        "t2": "2 of 3 claims have no support in the passages.",
    }
