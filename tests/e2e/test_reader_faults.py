"""UDCG through a reader that fails in all the usual ways at once, by each estimator: nothing made up, nothing lost."""

from __future__ import annotations

import asyncio
import re

import pytest

from fake_servers import FakeModelServer
from ragstone.errors import JudgeError
from ragstone.judges import ChatReader, OpenAICompatibleModel
from ragstone.metrics import Udcg
from ragstone.schema import Failure, Passage, Sample, Score
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge
from scripted_model import ScriptedModel

pytestmark = pytest.mark.usefixtures("virtual_time")

PASSAGES = 5
SAMPLES = [
    Sample(
        id=f"s{n}",
        query=f"What is the code of door {n}?",
        contexts=tuple(
            Passage(text=f"Door {n} passage {rank} p{(7 * n + 3 * rank) % 10}", relevance=float(rank == 0))
            for rank in range(PASSAGES)
        ),
    )
    for n in range(12)
]
ESTIMATORS = {
    # Estimator, dialect of the server that can do it, what the outcomes call it.
    "exact_sequence": ("vllm", "exact_sequence"),
    "first_token": ("openai", "first_token"),
    "monte_carlo": ("ollama", "monte_carlo"),
}


def replies(messages):
    """A passage says itself how likely it makes the reader abstain: p7 means 0.7, and a little."""
    said = re.search(r" p(\d)", messages[-1]["content"])
    p = 0.02 + 0.096 * int(said[1] if said else 0)
    return {"NO-RESPONSE": p, "NO-7": 0.3 * (1 - p), "The code is 7.": 0.7 * (1 - p)}


def run(estimator, **faults):
    """Score all samples; returns the outcomes by sample, the scorer and the server's statistics."""
    dialect, _ = ESTIMATORS[estimator]

    async def session(url):
        model = OpenAICompatibleModel(url, timeout_s=2, backoff_s=0.05, max_retries=5)
        reader = ChatReader(model, prompt="{question}\n{context}", estimator=estimator, target_width=None, max_draws=10)
        scorer = Scorer([Udcg(reader)], FakeJudge(), concurrency=8, deadline_s=200)
        try:
            await scorer.prepare()
            return {s.id: outcome async for s, (outcome,) in scorer.score_many(SAMPLES)}, scorer.usage.calls
        finally:
            await model.aclose()

    with FakeModelServer(ScriptedModel(replies), dialect, **faults) as server:
        outcomes, calls = asyncio.run(session(server.url))
    assert {sample.id for sample in SAMPLES} == set(outcomes)
    return outcomes, calls, server.stats


def probabilities(outcomes):
    """The probability found for each passage that was read, by sample and position."""
    return {
        (sample_id, found["position"]): found
        for sample_id, outcome in outcomes.items()
        for found in outcome.details["passages"]
        if found["p_abstain"] is not None
    }


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_all_faults_at_once(estimator, record_property):
    """5 % HTTP 500, rate limit, 2 % hangs, 5 % malformed: one outcome a sample, and every number as without faults."""
    clean, _, _ = run(estimator)
    assert all(isinstance(outcome, Score) for outcome in clean.values())
    outcomes, calls, stats = run(
        estimator, error_rate=0.05, hang_rate=0.02, malformed_rate=0.05, rate_limit_rpm=3000, retry_after_s=0.1
    )
    record_property("replies", dict(stats.replies))
    failed = [outcome for outcome in outcomes.values() if isinstance(outcome, Failure)]
    for failure in failed:
        # The passages that could be read are kept, and what is missing is bounded.
        assert failure.reason
        assert PASSAGES == len(failure.details["passages"])
        low, high = failure.details["bounds"]
        assert low < high
        if estimator != "monte_carlo":
            assert low <= clean[failure.sample_id].value <= high
    # Retries repair all but a request that meets a fault again and again.
    assert len(failed) <= 2
    expected = probabilities(clean)
    found = probabilities(outcomes)
    for place, passage in found.items():
        assert ESTIMATORS[estimator][1] == passage["method"]
        if estimator == "monte_carlo":
            # A repeated request draws again.
            assert 0 <= passage["p_abstain"] <= 1
            assert 10 == passage["n"] + passage.get("n_missing", 0)
        else:
            assert expected[place]["p_abstain"] == pytest.approx(passage["p_abstain"], abs=1e-9)
    assert len(found) >= 0.9 * len(expected)
    assert all(stats.replies[kind] > 0 for kind in ("500", "malformed"))
    # The probe's own requests, before any sample, are on the bill.
    assert stats.calls == calls > 0


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_dead_server_gives_no_number(estimator):
    """Every request is an error: that shows before the first sample."""
    with pytest.raises(JudgeError, match="500"):
        run(estimator, error_rate=1.0)
