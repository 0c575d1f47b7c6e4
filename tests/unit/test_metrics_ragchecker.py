"""RAGChecker: each formula by hand, the references that count, and the edges."""

from __future__ import annotations

import asyncio

import pytest

from builders import make_sample
from ragstone.errors import JudgeError
from ragstone.metrics import resolve_metrics
from ragstone.metrics.ragchecker import RAGCHECKER
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge


def letters(prompt):
    """Texts are letters: each is a claim, and supported by whatever text has it."""
    if prompt.construct == "claims":
        return {"items": prompt.fields["text"].split()}
    evidence = prompt.fields["evidence"]
    parts = (evidence,) if isinstance(evidence, str) else evidence
    there = {letter for part in parts for letter in part.split()}
    return {str(n): int(claim in there) for n, claim in enumerate(prompt.fields["claims"], start=1)}


def outcomes(response, reference, contexts, judge=None, metrics=("ragchecker",)):
    sample = make_sample(query=None, response=response, reference=reference, contexts=contexts)
    scorer = Scorer(resolve_metrics(metrics), judge or FakeJudge(json=letters))
    return {o.metric.removeprefix("ragchecker."): o for o in asyncio.run(scorer.score(sample))}


def values(response, reference, contexts):
    return {name: o.value for name, o in outcomes(response, reference, contexts).items() if isinstance(o, Score)}


@pytest.mark.parametrize(
    ("response", "reference", "contexts", "expected"),
    [
        # a right and found; x wrong in a relevant passage, y wrong in an irrelevant one, z invented, b known.
        (
            "a x y z b",
            "a b c d",
            ("a c x", "y"),
            {
                "precision": 2 / 5,
                "recall": 2 / 4,
                "f1": 2 * 0.4 * 0.5 / 0.9,
                "claim_recall": 2 / 4,
                "context_precision": 1 / 2,
                "context_utilization": 1 / 2,
                "noise_sensitivity_relevant": 1 / 5,
                "noise_sensitivity_irrelevant": 1 / 5,
                "hallucination": 1 / 5,
                "self_knowledge": 1 / 5,
                "faithfulness": 3 / 5,
            },
        ),
        # A wrong claim in passages of both kinds counts with the relevant ones alone.
        (
            "x",
            "a",
            ("a x", "x"),
            {
                "precision": 0,
                "recall": 0,
                "f1": 0,
                "claim_recall": 1,
                "context_precision": 1 / 2,
                "context_utilization": 0,
                "noise_sensitivity_relevant": 1,
                "noise_sensitivity_irrelevant": 0,
                "hallucination": 0,
                "self_knowledge": 0,
                "faithfulness": 1,
            },
        ),
        # A perfect answer from perfect passages.
        (
            "a b",
            "a b",
            ("a", "b"),
            {
                "precision": 1,
                "recall": 1,
                "f1": 1,
                "claim_recall": 1,
                "context_precision": 1,
                "context_utilization": 1,
                "noise_sensitivity_relevant": 0,
                "noise_sensitivity_irrelevant": 0,
                "hallucination": 0,
                "self_knowledge": 0,
                "faithfulness": 1,
            },
        ),
        # Retrieval found nothing: the definitions hold but for those that divide by passages, or by what was found.
        (
            "a x",
            "a b",
            (),
            {
                "precision": 1 / 2,
                "recall": 1 / 2,
                "f1": 1 / 2,
                "claim_recall": 0,
                "noise_sensitivity_relevant": 0,
                "noise_sensitivity_irrelevant": 0,
                "hallucination": 1 / 2,
                "self_knowledge": 1 / 2,
                "faithfulness": 0,
            },
        ),
        # An empty response misses everything; of its own claims there is nothing to say.
        (
            " \n",
            "a b",
            ("a", "c"),
            {"recall": 0, "f1": 0, "claim_recall": 1 / 2, "context_precision": 1 / 2, "context_utilization": 0},
        ),
        # Several references: any one bears a claim out, and the one that is covered best is to be covered.
        (
            "a x",
            ("a b", "x c d e", "a b"),
            ("b", "c d"),
            {
                "precision": 1,
                "recall": 1 / 2,
                "f1": 2 / 3,
                "claim_recall": 1 / 2,
                "context_precision": 1,
                "context_utilization": 0,
                "noise_sensitivity_relevant": 0,
                "noise_sensitivity_irrelevant": 0,
                "hallucination": 0,
                "self_knowledge": 1,
                "faithfulness": 0,
            },
        ),
        # No claim of the first reference was found, so the second decides about utilization.
        ("c", ("a", "c d"), ("c d",), {"context_utilization": 1 / 2, "claim_recall": 1, "recall": 1 / 2}),
    ],
)
def test_values_by_hand(response, reference, contexts, expected):
    """Every metric on samples small enough to count."""
    found = values(response, reference, contexts)
    assert pytest.approx(expected) == {name: found.get(name) for name in expected}
    if len(expected) > 3:
        assert set(expected) == set(found)


def test_not_applicable_says_why():
    """What cannot be divided is named."""
    found = outcomes("a x", "a b", ())
    assert "returned no passages" in found["context_precision"].reason
    assert "no passage supports a claim" in found["context_utilization"].reason
    found = outcomes("", "a", ("a",))
    assert "does not contain claims" in found["precision"].reason
    assert ((), True) == (found["hallucination"].missing, isinstance(found["hallucination"], NotApplicable))


def test_a_reference_without_claims():
    """Nothing to recall, and no passage can be relevant; the response's own claims are compared all the same."""
    judge = FakeJudge(json=lambda p: {"items": []} if p.fields.get("text") == "nothing" else letters(p))
    found = outcomes("a", "nothing", ("a",), judge)
    scored = {name for name, outcome in found.items() if isinstance(outcome, Score)}
    assert {"precision", "hallucination", "self_knowledge", "faithfulness"} == scored


def test_f1_where_the_response_makes_no_claim():
    """0 when it covers nothing, whatever its precision; without a value when it covers something."""
    judge = FakeJudge(json=lambda p: {"items": []} if p.fields.get("text") == "hm a" else letters(p))
    assert 0 == outcomes("hm a", "b", (), judge)["f1"].value
    assert isinstance(outcomes("hm a", "a", (), judge)["f1"], NotApplicable)


def test_f1_bounds():
    """From the bounds of both; without the response's claims anything from 0 to 1."""

    def fail(prompt):
        trouble = prompt.construct == "entailment" and prompt.fields["evidence"] == "a x"
        return JudgeError("what?", kind="refused") if trouble else None

    # Precision is 1/2, and recall unknown.
    found = outcomes("a x", "a b", (), FakeJudge(json=letters, fail=fail))
    assert pytest.approx([0, 2 / 3]) == found["f1"].details["bounds"]
    assert "refused" == found["f1"].kind
    silent = FakeJudge(json=lambda p: {"items": []} if p.fields.get("text") == "a x" else letters(p), fail=fail)
    assert [0, 1] == outcomes("a x", "a b", (), silent)["f1"].details["bounds"]


def test_directions():
    """Less noise, invention and knowledge from elsewhere is better; more of everything else."""
    lower = {metric.card.name.removeprefix("ragchecker.") for metric in RAGCHECKER if metric.card.direction == "lower"}
    assert {
        "noise_sensitivity_relevant",
        "noise_sensitivity_irrelevant",
        "hallucination",
        "self_knowledge",
    } == lower


def test_details_name_claims_and_passages():
    """Whoever doubts a score sees each claim, whether it is right, and which passages bear it out."""
    found = outcomes("a x", "a b", ("x", "a x"))
    assert [
        {"claim": "a", "right": True, "passages": [2]},
        {"claim": "x", "right": False, "passages": [1, 2]},
    ] == found["hallucination"].details["claims"]
    assert [False, True] == found["noise_sensitivity_relevant"].details["relevant"]
    assert [{"claim": "a", "supported_by_response": True}, {"claim": "b", "supported_by_response": False}] == found[
        "recall"
    ].details["reference_claims"]


def test_explanations_list_the_claims():
    """Each claim with its verdicts and the passages that support it, the least supported first."""
    found = outcomes("a v x", "a b", ("a x", "a"))
    lines = [
        "wrong, supported by no passage: v",
        "wrong, supported by passage 1: x",
        "correct, supported by passages 1, 2: a",
    ]
    assert ["Claims of the response:", *(f"- {line}" for line in lines)] == found["hallucination"].explanation.split(
        "\n"
    )
    assert "- not in the response: b\n- in the response: a" in found["recall"].explanation
    assert "- supported by no passage: b\n- supported by passages 1, 2: a" in found["claim_recall"].explanation
    assert "Relevant passages: 1, 2 of 2." in found["context_precision"].explanation


def test_relevance_that_is_not_known_bounds_the_noise():
    """Whether the passage with the wrong claim is relevant is open: it is noise of the one kind or of the other."""

    def fail(prompt):
        trouble = prompt.construct == "entailment" and prompt.fields["claims"] == ("b",)
        return JudgeError("what?", kind="timeout") if trouble else None

    found = outcomes("x a", "b", ("x",), FakeJudge(json=letters, fail=fail))
    for name in ("noise_sensitivity_relevant", "noise_sensitivity_irrelevant"):
        assert isinstance(found[name], Failure)
        assert [0, 0.5] == found[name].details["bounds"]
    assert 0.5 == found["hallucination"].value
