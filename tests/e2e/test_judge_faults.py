"""CCRS through a judge that fails in all the usual ways at once: nothing is made up, nothing is lost, and it ends."""

from __future__ import annotations

import asyncio
import math

import pytest

from builders import make_sample
from fake_servers import FakeJudgeServer
from ragstone.judges import OpenAICompatibleJudge
from ragstone.metrics.ccrs import CCRS
from ragstone.schema import Failure, Score
from ragstone.scoring import Scorer

pytestmark = pytest.mark.usefixtures("virtual_time")

SAMPLES = [
    make_sample(f"s{n}", query=f"What is the code of door {n}?", response=f"The code is {n}{n}.", reference=f"{n}{n}")
    for n in range(60)
]
DEADLINE_S = 100.0


def run(*, deadline_s=DEADLINE_S, judge=None, **faults):
    """Score all samples; returns the outcomes by (sample, metric), the scorer, the server's statistics, the seconds."""

    async def session(url):
        asked = OpenAICompatibleJudge(url, **({"timeout_s": 2, "backoff_s": 0.05} | (judge or {})))
        scorer = Scorer(CCRS, asked, concurrency=16, deadline_s=deadline_s)
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            outcomes = [outcome async for _, pair in scorer.score_many(SAMPLES) for outcome in pair]
        finally:
            await asked.aclose()
        return outcomes, scorer, loop.time() - started

    with FakeJudgeServer(**faults) as server:
        outcomes, scorer, wall_s = asyncio.run(session(server.url))
    assert len(SAMPLES) * len(CCRS) == len(outcomes)
    by_pair = {(outcome.sample_id, outcome.metric): outcome for outcome in outcomes}
    assert {(sample.id, metric.card.name) for sample in SAMPLES for metric in CCRS} == set(by_pair)
    return by_pair, scorer, server.stats, wall_s


@pytest.fixture(scope="module")
def clean():
    """The values without any fault."""
    outcomes, scorer, stats, _ = run(judge={"timeout_s": 60})
    # One call before the samples learns what the server refuses.
    assert {"ok": 301} == dict(stats.replies)
    assert 301 == scorer.usage.calls
    return {pair: outcome.value for pair, outcome in outcomes.items()}


@pytest.mark.parametrize("structured", ["obeyed", "ignored"])
def test_all_faults_at_once(clean, structured, record_property):
    """5 % HTTP 500, rate limit, 2 % hangs, 5 % malformed: exactly one outcome a pair, and every value the clean one."""
    outcomes, scorer, stats, wall_s = run(
        error_rate=0.05,
        hang_rate=0.02,
        malformed_rate=0.05,
        rate_limit_rpm=3000,
        retry_after_s=0.2,
        structured=structured,
    )
    record_property("replies", dict(stats.replies))
    record_property("wall_s", round(wall_s, 2))
    scored = {pair: outcome.value for pair, outcome in outcomes.items() if isinstance(outcome, Score)}
    failed = [outcome for outcome in outcomes.values() if isinstance(outcome, Failure)]
    assert scored == {pair: clean[pair] for pair in scored}
    assert all(math.isfinite(value) for value in scored.values())
    assert len(scored) + len(failed) == len(outcomes)
    # Retries repair all but a question that meets a fault again and again.
    assert len(failed) <= 3
    assert all(failure.kind in ("unparseable", "unavailable", "timeout") and failure.reason for failure in failed)
    # Every kind of fault was really there, and each request was counted. A slow machine does not reach the rate limit.
    assert all(stats.replies[kind] > 0 for kind in ("500", "hang", "malformed"))
    assert stats.calls == scorer.usage.calls > 300
    # Every round of samples may take its deadline, and no more.
    assert wall_s < math.ceil(len(SAMPLES) / 16) * DEADLINE_S


def test_rate_limit_alone_costs_no_score(clean):
    """429 with Retry-After is waited out, however often it comes."""
    outcomes, scorer, stats, _ = run(rate_limit_rpm=3000, retry_after_s=0.1, judge={"max_retries": 0, "timeout_s": 60})
    assert clean == {pair: outcome.value for pair, outcome in outcomes.items()}
    assert stats.replies["429"] > 0
    assert stats.calls == scorer.usage.calls


def test_silent_server_ends_by_the_deadline():
    """Every call hangs: all are time-outs, after the deadline and not after the retries."""
    outcomes, _, _, wall_s = run(hang_rate=1.0, deadline_s=0.4, judge={"timeout_s": 600})
    assert {("failure", "timeout")} == {(outcome.outcome, outcome.kind) for outcome in outcomes.values()}
    assert wall_s < 5


def test_dead_server_makes_failures(clean):
    """Every call is an error: no zero, no missing row."""
    outcomes, _, _, _ = run(error_rate=1.0, judge={"max_retries": 1, "backoff_s": 0.001})
    assert {("failure", "unavailable")} == {(outcome.outcome, outcome.kind) for outcome in outcomes.values()}


@pytest.mark.parametrize("structured", ["obeyed", "ignored"])
def test_cut_replies_are_no_numbers(clean, structured):
    """A "90" cut to "9" is repeated or fails; it is never 9."""
    outcomes, _, stats, _ = run(truncated_rate=0.2, structured=structured)
    assert stats.replies["truncated"] > 0
    for pair, outcome in outcomes.items():
        if isinstance(outcome, Score):
            assert clean[pair] == outcome.value
        else:
            assert "truncated" == outcome.kind
