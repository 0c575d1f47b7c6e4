"""The list of claims and verdicts as the reason of a score: it costs nothing, and is there for every claim metric."""

from __future__ import annotations

import asyncio

import pytest

from builders import make_sample
from ragstone.judges.lexical import LexicalJudge
from ragstone.metrics import resolve_metrics
from ragstone.metrics._claim_reason import describe_evidence
from ragstone.metrics.ragas import RAGAS
from ragstone.metrics.ragchecker import RAGCHECKER
from ragstone.metrics.vera import VERA
from ragstone.schema import Score
from ragstone.scoring import Scorer

CLAIMS = [{"claim": "It is red.", "supported": False}, {"claim": "It is 31 m high.", "supported": True}]


def test_the_closest_passage_is_named_as_such():
    """By words in common, for claims that all passages together support."""
    text = describe_evidence({"claims": [*reversed(CLAIMS)]}, ["Ferries leave at noon.", "The tower is 31 m high."])
    assert text == (
        "Claims of the response:\n- not supported: It is red.\n- supported (closest: passage 2): It is 31 m high."
    )
    assert "closest" not in describe_evidence({"claims": CLAIMS}, ["Nothing"])


def test_missing_verdicts_are_said():
    """They are neither yes nor no."""
    claims = [{"claim": "a", "right": None, "passages": [1, 3]}]
    assert "- no verdict, supported by passages 1, 3: a" in describe_evidence({"claims": claims}, [])


def test_long_lists_and_long_claims_are_cut():
    """`details` has all of them."""
    text = describe_evidence({"claims": [{"claim": f"{n} {'x' * 300}", "supported": True} for n in range(25)]}, [])
    lines = text.split("\n")
    assert (22, "- and 5 more") == (len(lines), lines[-1])
    assert max(map(len, lines)) < 230


def test_other_evidence():
    """Questions, sentences of passages, and passages."""
    assert "- 80%: Why?" in describe_evidence({"questions": [{"question": "Why?", "equivalence": 0.8}]}, [])
    assert "does not commit" in describe_evidence({"questions": [], "noncommittal": True}, [])
    assert "Useful passages: 1, 3 of 3." == describe_evidence({"judged_by": "query", "useful": [True, False, 1]}, [])
    assert "Relevant passages: none of 1." == describe_evidence({"relevant": [None]}, [])
    sentences = [[{"claim": "a", "relevant": True}], []]
    assert "Passage 1:\n- relevant: a" == describe_evidence({"sentences": sentences}, [])
    assert describe_evidence({"em": 1.0}, []) is None


@pytest.mark.parametrize("metric", [*RAGAS, *RAGCHECKER, *VERA], ids=lambda metric: metric.card.name)
def test_every_claim_metric_explains_itself(metric):
    """Without a further judge call. VERA's faithfulness is one verdict without a list."""
    if metric.card.extra is not None or metric.card.name == "vera.faithfulness":
        pytest.skip("does not use claims")
    sample = make_sample(
        query="How tall is it?",
        contexts=("It is 31 m tall.", "Ferries leave at noon."),
        response="It is 31 m tall. It is red.",
        reference=("It is 31 m tall.",),
    )
    (outcome,) = asyncio.run(Scorer([metric], LexicalJudge()).score(sample))
    assert isinstance(outcome, Score)
    assert outcome.explanation


@pytest.mark.parametrize("name", ["ccrs.qr", "ragas.answer_relevancy"])
def test_an_empty_response_is_reason_enough(name):
    """It is scored without a judge call, so there is nothing to ask."""
    (outcome,) = asyncio.run(Scorer(resolve_metrics(name), LexicalJudge()).score(make_sample(response=" ")))
    assert (0.0, "The response is empty.") == (outcome.value, outcome.explanation)
