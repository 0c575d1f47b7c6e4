"""CCRS in one judge call: the same rules as the separate metrics, and a rating that cannot be used fails only its metric."""

from __future__ import annotations

import asyncio

import pytest

import ragstone
from builders import make_sample
from fake_servers import FakeJudgeServer
from ragstone.metrics import resolve_metrics
from ragstone.metrics.ccrs import CCRS
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge

FUSED = resolve_metrics("ccrs_fused")
RATINGS = {"coherence": 55, "relevance": 90, "density": 80, "correctness": 70, "recall": 100}
SAMPLE = make_sample(query="How tall?", contexts=["31 meters."], response="31 m.", reference="31 meters.")


def scored(judge, sample=SAMPLE) -> dict[str, Score | NotApplicable | Failure]:
    """The outcomes by metric."""

    async def score():
        return await Scorer(FUSED, judge).score(sample)

    return {outcome.metric.partition(".")[2]: outcome for outcome in asyncio.run(score())}


def test_one_call():
    """The five metrics have their ratings from one call, with the formulas of the separate metrics."""
    judge = FakeJudge(json={"ccrs_fused": RATINGS})
    values = {name: outcome.value for name, outcome in scored(judge).items()}
    assert pytest.approx({"cc": 0.55, "qr": 0.9, "id": 0.8, "ac": 0.21, "ir": 1.0}) == values
    assert 1 == len(judge.prompts)


@pytest.mark.parametrize("bad", [101, -1, "70", None, True, [70]])
def test_one_bad_rating(bad):
    """An invalid or missing rating fails its metric and no other."""
    ratings = {**RATINGS, "density": bad}
    if bad is None:
        del ratings["density"]
    outcomes = scored(FakeJudge(json={"ccrs_fused": ratings}))
    failed = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Failure)}
    assert ["id"] == list(failed)
    assert "unparseable" == failed["id"].kind
    assert "'density'" in failed["id"].reason


@pytest.mark.parametrize(
    ("without", "left"),
    [
        ("reference", {"cc": "coherence", "qr": "relevance", "id": "density"}),
        ("contexts", {"qr": "relevance", "id": "density", "ac": "correctness", "ir": "recall"}),
        ("query", {"cc": "coherence", "ac": "correctness", "ir": "recall"}),
    ],
)
def test_missing_fields(without, left):
    """A rating whose field is missing is not requested, and its metric is not applicable."""
    judge = FakeJudge(json={"ccrs_fused": RATINGS})
    empty = {"reference": (), "contexts": None, "query": None}
    outcomes = scored(judge, SAMPLE.model_copy(update={without: empty[without]}))
    assert set(left) == {name for name, outcome in outcomes.items() if isinstance(outcome, Score)}
    assert set(outcomes) - set(left) == {n for n, outcome in outcomes.items() if isinstance(outcome, NotApplicable)}
    (prompt,) = judge.prompts
    assert {name for name in RATINGS if f"\n{name}: " in prompt.task} == set(left.values())


def test_blank_responses_cost_nothing():
    """A blank response scores 0 without a call."""
    judge = FakeJudge(json={"ccrs_fused": RATINGS})
    outcomes = scored(judge, SAMPLE.model_copy(update={"response": " "}))
    assert {0.0} == {outcome.value for outcome in outcomes.values()}
    assert [] == judge.prompts


def test_never_mixed_with_separate_metrics():
    """Names and versions differ from those of the separate metrics."""
    assert not {m.card.name for m in FUSED} & {m.card.name for m in CCRS}
    assert not {m.card.version for m in FUSED} & {m.card.version for m in CCRS}


def test_calls_of_a_server():
    """A run has one call for a sample instead of five, with a schema that the server can enforce."""
    rows = [
        {"query": f"How tall is {n}?", "contexts": ["It is tall."], "response": "Tall.", "reference": "Very tall."}
        for n in range(10)
    ]
    calls = {}
    for metrics in ("ccrs", "ccrs_fused"):
        with FakeJudgeServer() as server:
            result = ragstone.evaluate(rows, metrics=metrics, judge=server.url)
            assert 50 == sum(isinstance(outcome, Score) for outcome in result.outcomes)
            calls[metrics] = sum("one number from" in str(b) or "JSON Schema" in str(b) for b in server.stats.requests)
    assert {"ccrs": 50, "ccrs_fused": 10} == calls


def test_lexical_baseline():
    """The baseline has the same values as for the separate metrics, up to rounding to an integer of 0 to 100."""
    row = {"query": "How tall?", "contexts": ["It is 31 meters tall."], "response": "31 meters.", "reference": "31 m"}
    apart, fused = [ragstone.evaluate([row], metrics=name, judge="lexical").outcomes for name in ("ccrs", "ccrs_fused")]
    assert [outcome.value for outcome in apart] == pytest.approx([outcome.value for outcome in fused], abs=0.005)
