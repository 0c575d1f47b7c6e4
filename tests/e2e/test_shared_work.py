"""Metrics that share their questions, on the live path and through faults: billed once, one outcome each, nothing made up."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Literal

import pytest

import ragstone
from builders import make_sample
from fake_servers import FakeJudgeServer
from ragstone.errors import JudgeUnavailableError
from ragstone.judges import OpenAICompatibleJudge, Prompt
from ragstone.metrics import resolve_metrics
from ragstone.monitor import Monitor
from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft
from ragstone.schema import Failure, Outcome, Sample, Score
from ragstone.scoring import Scorer
from ragstone.store import SqliteStore
from ragstone.testing import FakeJudge
from ragstone.worker import read_ledger
from virtual_time import virtual_time
from waiting import wait_until

FAMILIES = ("ragas", "crux_reference_free", "vera", "ragchecker")
SAMPLES = [
    make_sample(
        f"s{n}",
        query=f"Where is door {n}?",
        response=f"Door {n} is red. It is at gate {n}.",
        reference=[f"Door {n} is at gate {n}."],
        contexts=[f"Door {n} is at gate {n}.", f"Key {n} hangs there."],
    )
    for n in range(6)
]


def draft(trace_id: str, *passages: str) -> TraceDraft:
    """A request with a reference, which only some applications know."""
    found = [PassageDraft(id=f"p{n}", text=text) for n, text in enumerate(passages)]
    return TraceDraft(
        trace_id=trace_id,
        query=f"Where is stone {trace_id}?",
        response="It is grey. It lies at the river.",
        retrievals=[RetrievalDraft(passages=found)],
        reference=["At the river."],
    )


def stored(store: Path) -> list[Outcome]:
    """All outcomes of a store."""
    with SqliteStore.open(store, mode="read") as opened:
        return list(opened.outcomes.read())


def test_live_requests_are_billed_once_for_what_metrics_share(tmp_path: Path) -> None:
    """The calls on the outcomes are those that the server saw; plain metrics beside them have no judge."""
    store = tmp_path / "r.db"
    metrics = [*FAMILIES, "text"]
    with FakeJudgeServer() as server, Monitor(judge=server.url, metrics=metrics, store=store) as monitor:
        for n in range(4):
            monitor.record(draft(f"t{n}", "The stone lies at the river.", "It is grey."))
        assert monitor.drain(60)
        ledger = monitor.ledger()
        calls = server.calls

    outcomes = stored(store)
    assert ledger.total.balanced
    assert {(4, True)} == {(row.scored + row.not_applicable, row.balanced) for row in ledger.metrics.values()}
    assert 4 * len(resolve_metrics(metrics)) == len({(o.sample_id, o.metric) for o in outcomes}) == len(outcomes)
    # One call before the samples learned what the server refuses.
    assert calls == 1 + sum(o.usage.calls for o in outcomes if o.usage)
    plain = {metric.card.name for metric in resolve_metrics("text")}
    assert plain == {o.metric for o in outcomes if o.judge is None}


@pytest.mark.usefixtures("short_pauses")
def test_a_request_without_passages_waits_for_the_judge_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Some of its judged metrics are 0 without a question, which is no sign that the judge answers."""
    down = [True]

    def fail(prompt: Prompt) -> Exception | None:
        return JudgeUnavailableError("no route to the judge") if down else None

    store = tmp_path / "r.db"
    with Monitor(judge=FakeJudge(fail=fail), metrics=["ragas", "vera"], store=store) as monitor:
        monitor.record(draft("t"))
        wait_until(lambda: "is unavailable" in caplog.text)
        assert not monitor.drain(0.2)
        assert 1 == monitor.ledger().total.pending
        down.clear()
        assert monitor.drain(60)

    assert (1, 0) == (read_ledger(store).total.scored, read_ledger(store).total.failed)
    assert [] == [o for o in stored(store) if isinstance(o, Failure)]


def scored(faults: dict[str, object], *, deadline_s: float = 100.0) -> tuple[dict[tuple[str, str], Outcome], int, int]:
    """Outcomes by sample and metric, and the calls that were billed and that came."""

    async def session(url: str) -> tuple[list[Outcome], int]:
        judge = OpenAICompatibleJudge(url, timeout_s=2, backoff_s=0.02)
        scorer = Scorer(resolve_metrics(FAMILIES), judge, concurrency=8, deadline_s=deadline_s)
        try:
            outcomes = [outcome async for _, of_sample in scorer.score_many(SAMPLES) for outcome in of_sample]
        finally:
            await judge.aclose()
        assert {asyncio.current_task()} == asyncio.all_tasks()
        return outcomes, scorer.usage.calls

    with virtual_time(), FakeJudgeServer(**faults) as server:  # type: ignore[arg-type]
        outcomes, billed = asyncio.run(session(server.url))
    found = {(o.sample_id, o.metric): o for o in outcomes}
    assert len(SAMPLES) * len(resolve_metrics(FAMILIES)) == len(found) == len(outcomes)
    return found, billed, server.calls


def values_of(outcomes: dict[tuple[str, str], Outcome]) -> dict[tuple[str, str], float]:
    """What was not a failure; -1 where a metric does not apply, as without a claim."""
    return {
        pair: o.value if isinstance(o, Score) else -1.0 for pair, o in outcomes.items() if not isinstance(o, Failure)
    }


@pytest.fixture(scope="module")
def clean() -> dict[tuple[str, str], float]:
    """The values without any fault."""
    outcomes, billed, came = scored({})
    assert billed == came
    assert not any(isinstance(o, Failure) for o in outcomes.values())
    return values_of(outcomes)


@pytest.mark.parametrize("structured", ["obeyed", "ignored", "refused"])
def test_a_value_after_faults_is_the_clean_one(
    clean: dict[tuple[str, str], float], structured: Literal["obeyed", "ignored", "refused"]
) -> None:
    """Errors, hangs, words in place of JSON and cut replies: the clean run's value, or a failure that bounds it."""
    faults = {"error_rate": 0.1, "hang_rate": 0.03, "malformed_rate": 0.15, "truncated_rate": 0.15}
    outcomes, billed, came = scored(faults | {"structured": structured})

    assert billed == came < 3 * len(clean)
    values = values_of(outcomes)
    assert values == pytest.approx({pair: clean[pair] for pair in values})
    failures = {pair: o for pair, o in outcomes.items() if isinstance(o, Failure)}
    assert len(clean) == len(values) + len(failures)
    # Without schemas a reply that was cut is not requested again.
    assert 0 < len(failures) < len(clean) * (2 / 3 if structured == "refused" else 1 / 2)
    for pair, failure in failures.items():
        assert failure.reason
        assert "bug" != failure.kind
        low, high = failure.details.get("bounds", (-math.inf, math.inf))
        assert clean[pair] == -1 or low - 1e-9 <= clean[pair] <= high + 1e-9


def test_a_deadline_amid_shared_work_leaves_one_outcome_each_and_no_task(clean: dict[tuple[str, str], float]) -> None:
    """Those who wait for another metric's question run out of time as it does."""
    outcomes, _, _ = scored({"latency_s": 0.3}, deadline_s=0.8)
    kinds = {o.kind for o in outcomes.values() if isinstance(o, Failure)}
    assert {"timeout"} == kinds
    values = values_of(outcomes)
    assert values == pytest.approx({pair: clean[pair] for pair in values})


def test_threads_that_evaluate_at_once_do_not_share() -> None:
    """Neither work nor bills: each is as it would be alone, also inside a running event loop."""

    def values(result: ragstone.Experiment) -> dict[tuple[str, str], float]:
        return {(o.sample_id, o.metric): o.value for o in result.outcomes if isinstance(o, Score)}

    samples: list[Sample] = SAMPLES[:3]
    with FakeJudgeServer() as server:
        alone = ragstone.evaluate(samples, FAMILIES, judge=server.url)
        calls = server.calls

        async def together() -> list[ragstone.Experiment]:
            work = (asyncio.to_thread(ragstone.evaluate, samples, FAMILIES, judge=server.url) for _ in range(3))
            return [*await asyncio.gather(*work), ragstone.evaluate(samples, FAMILIES, judge=server.url)]

        several = asyncio.run(together())
        assert 5 * calls == server.calls
    assert [values(alone)] * 4 == [values(one) for one in several]
    assert {alone.usage.calls} == {one.usage.calls for one in several} == {calls}
