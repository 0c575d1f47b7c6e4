"""The four metrics of RAGAS: each formula by hand, what a passage is compared with, and the edges."""

from __future__ import annotations

import asyncio

import pytest

from builders import make_sample
from ragstone.errors import JudgeError
from ragstone.judges.lexical import LexicalJudge
from ragstone.metrics._claims import EXTRACTION_EXAMPLES
from ragstone.metrics.ragas import RAGAS
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.stats import mean_interval
from ragstone.testing import FakeJudge

FAITHFULNESS, RELEVANCY, PRECISION, RECALL = RAGAS


def score(metric, judge, **fields):
    return asyncio.run(metric.score(make_sample(**fields), judge))


def verdicts(*marks, claims=("a", "b", "c", "d")):
    return FakeJudge(
        json={
            "claims": {"items": list(claims)},
            "entailment": {str(n): mark for n, mark in enumerate(marks, start=1)},
        }
    )


@pytest.mark.parametrize(("marks", "expected"), [((1, 1, 1, 0), 0.75), ((0, 0, 0, 0), 0), ((1, 1, 1, 1), 1)])
def test_faithfulness_and_recall(marks, expected):
    """The share of claims that the passages bear out: of the response's, and of the reference's."""
    for metric in (FAITHFULNESS, RECALL):
        outcome = score(metric, verdicts(*marks))
        assert (expected, "json_reply", 2) == (outcome.value, outcome.method, outcome.n)


def test_passages_are_taken_together():
    """One question about all passages: a claim may need two of them."""
    judge = verdicts(1, 0, 0, 0)
    score(FAITHFULNESS, judge, contexts=("one", "two"))
    assert ("one", "two") == judge.prompts[-1].fields["evidence"]


def test_empty_response():
    """Makes no claim, and answers no question."""
    for response in ("", " \n"):
        judge = FakeJudge()
        assert isinstance(score(FAITHFULNESS, judge, response=response), NotApplicable)
        outcome = score(RELEVANCY, judge, response=response)
        assert (0.0, "empty_response", []) == (outcome.value, outcome.method, judge.prompts)


def test_answer_relevancy_is_a_mean():
    """Of as many questions as the judge wrote, up to three; each on a scale of 100."""
    for marks, expected in (((92, 68, 25), 1.85 / 3), ((100,), 1), ((0, 50), 0.25)):
        questions = [f"question {n}?" for n in range(len(marks))]
        judge = FakeJudge(
            json={
                "answer_questions": {"items": questions},
                "question_equivalence": {str(n): mark for n, mark in enumerate(marks, start=1)},
            }
        )
        outcome = score(RELEVANCY, judge)
        assert pytest.approx(expected) == outcome.value
        assert questions == [row["question"] for row in outcome.details["questions"]]
        assert marks == tuple(round(100 * row["equivalence"]) for row in outcome.details["questions"])
        if len(marks) == 1:
            assert outcome.interval is None
        else:
            wanted = mean_interval([mark / 100 for mark in marks])
            assert (outcome.interval.low, outcome.interval.high) == pytest.approx((wanted.low, wanted.high))
            assert (outcome.interval.method, outcome.interval.confidence_level) == (wanted.method, 0.95)


def test_a_share_of_all_claims_does_not_have_an_interval():
    """It is counted, not estimated from some of the claims."""
    for metric in (FAITHFULNESS, RECALL):
        assert score(metric, verdicts(1, 1, 1, 0)).interval is None


def test_questions_are_written_without_the_query():
    """Whoever knew it would write it down again."""
    judge = FakeJudge()
    score(RELEVANCY, judge)
    assert ["response"] == list(judge.prompts[0].fields)
    assert ["query", "questions"] == list(judge.prompts[1].fields)


def test_a_response_that_commits_to_nothing():
    """Answers no question: 0, and nothing to compare."""
    judge = FakeJudge(json={"answer_questions": {"items": []}})
    outcome = score(RELEVANCY, judge, response="I do not know.")
    assert (0.0, True, 1) == (outcome.value, outcome.details["noncommittal"], len(judge.prompts))


def test_four_questions_are_too_many():
    """A reply of another shape is no reply."""
    judge = FakeJudge(json={"answer_questions": {"items": list("abcd")}})
    with pytest.raises(JudgeError):
        score(RELEVANCY, judge)


@pytest.mark.parametrize(
    ("useful", "expected"),
    [
        ((1,), 1),
        ((0,), 0),
        ((1, 0, 1), (1 + 2 / 3) / 2),
        ((0, 1), 1 / 2),
        ((0, 0, 0), 0),
        ((1, 1, 0, 0), 1),
        ((0.5, 0.49), 1),
    ],
)
def test_context_precision(useful, expected):
    """The mean of precision at each useful passage; 0 when none is; relevant from the middle of the scale on."""
    contexts = [f"passage {n}" for n in range(len(useful))]
    by_text = dict(zip(contexts, useful, strict=True))
    judge = FakeJudge(lambda prompt: by_text[prompt.fields["passage"]])
    outcome = score(PRECISION, judge, contexts=contexts)
    assert (pytest.approx(expected), len(useful)) == (outcome.value, outcome.n)


@pytest.mark.parametrize(
    ("fields", "by", "shown"),
    [
        ({}, "reference", ["query", "reference", "passage"]),
        ({"reference": ("", "b")}, "reference", ["query", "reference", "passage"]),
        ({"reference": ()}, "response", ["query", "response", "passage"]),
        ({"reference": (), "response": " "}, "query", ["query", "passage"]),
        ({"reference": (), "response": None}, "query", ["query", "passage"]),
    ],
)
def test_what_passages_are_held_against(fields, by, shown):
    """The reference, else the response, else the query; the outcome says which, and each is another assignment."""
    judge = FakeJudge(1)
    outcome = score(PRECISION, judge, **fields)
    assert by == outcome.details["judged_by"]
    assert shown == list(judge.prompts[0].fields)
    assert by in judge.prompts[0].task


def test_blank_and_repeated_passages():
    """What is blank helps no one, unasked; what comes twice is asked about once."""
    judge = FakeJudge(1)
    outcome = score(PRECISION, judge, contexts=(" ", "a", "a"))
    assert (0.5 * (1 / 2 + 2 / 3), 1) == (pytest.approx(outcome.value), len(judge.prompts))
    assert isinstance(score(PRECISION, judge, contexts=()), NotApplicable)


@pytest.mark.parametrize(
    ("useful", "expected"),
    [
        ((1, None), (1, 1)),
        ((None, 1), (0.5, 1)),
        ((None, None), (0, 1)),
        ((0, None), (0, 0.5)),
        ((1, None, 0, 1), (0.75, (1 + 1 + 3 / 4) / 3)),
        ((None,) * 9, (0, 1)),
        # More than can be tried: anything.
        ((1, *(None,) * 9), (0, 1)),
    ],
)
def test_missing_judgements_are_bounded(useful, expected):
    """By all that the unknown passages may be; where they cannot change the order of the useful ones, there is a value."""
    contexts = [f"passage {n}" for n in range(len(useful))]
    by_text = dict(zip(contexts, useful, strict=True))
    judge = FakeJudge(
        lambda prompt: by_text[prompt.fields["passage"]],
        fail=lambda p: JudgeError("what?", kind="timeout") if by_text[p.fields["passage"]] is None else None,
    )
    outcome = score(PRECISION, judge, contexts=contexts)
    if expected[0] == expected[1]:
        assert (expected[0], 1) == (outcome.value, outcome.details["n_missing"])
    else:
        assert isinstance(outcome, Failure)
        assert pytest.approx(list(expected)) == outcome.details["bounds"]


def test_several_references():
    """The one whose claims are covered best counts."""
    judge = FakeJudge(
        json=lambda p: (
            {"items": p.fields["text"].split()}
            if p.construct == "claims"
            else {str(n): int(claim in "abc") for n, claim in enumerate(p.fields["claims"], start=1)}
        )
    )
    outcome = score(RECALL, judge, reference=("a x y", "b c z", "q"))
    assert 2 / 3 == outcome.value
    assert 7 == len(outcome.details["reference_claims"])


def test_the_baseline_answers_all_four():
    """The plumbing can be tried without a model."""
    outcomes = [score(metric, LexicalJudge()) for metric in RAGAS]
    assert all(isinstance(outcome, Score) for outcome in outcomes), outcomes
    assert ["lexical"] * 4 == [outcome.method for outcome in outcomes]


def test_tasks_ask_for_no_form():
    """What an item is the task says; how the reply is written, the judge adds."""
    for metric in RAGAS:
        assert len(set(metric.tasks)) == len(metric.tasks)
        for task in set(metric.tasks) - {EXTRACTION_EXAMPLES}:
            assert task.startswith("Your assignment: ")
            assert not any(word in task.lower() for word in ("json", "print", "output"))
