"""VERA's judged metrics: two definitions of each of its two ambiguous names, by hand, and the edges."""

from __future__ import annotations

import asyncio

import pytest

from builders import make_sample
from ragstone.errors import JudgeError
from ragstone.judges.lexical import LexicalJudge
from ragstone.metrics import resolve_metrics
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.testing import FakeJudge

FAITHFULNESS, GROUNDEDNESS, RECALL, PRECISION, RELEVANCE = JUDGED = resolve_metrics("vera")[:5]

RESPONSE = "It is 31 metres tall. It is haunted! Is it red?"
REFERENCE = "It is 31 metres tall. It was built in 1884. It is white. It is open."


def score(metric, judge, **fields):
    return asyncio.run(metric.score(make_sample(**fields), judge))


def saying(word, field="claims"):
    """A judge that says yes to what has a word."""
    return FakeJudge(json=lambda p: {str(n): int(word in part) for n, part in enumerate(p.fields[field], start=1)})


def test_faithfulness_is_yes_or_no():
    """One label for the whole response, in one question."""
    for mark in (0, 1):
        judge = FakeJudge(json={"entailment": {"1": mark}})
        outcome = score(FAITHFULNESS, judge, response=RESPONSE)
        assert (mark, 1) == (outcome.value, len(judge.prompts))
        assert (RESPONSE,) == judge.prompts[0].fields["claims"]


def test_groundedness_is_by_sentence():
    """What the source calls retrieval recall: sentences of the response."""
    judge = saying("31")
    outcome = score(GROUNDEDNESS, judge, response=RESPONSE)
    assert (1 / 3, 1) == (outcome.value, len(judge.prompts))
    assert [True, False, False] == [row["supported"] for row in outcome.details["claims"]]


def test_retrieval_recall_is_of_the_reference():
    """Sentences of the ground truth; of several references the one that is covered best."""
    assert 1 / 4 == score(RECALL, saying("31"), reference=REFERENCE).value
    assert 1 / 2 == score(RECALL, saying("31"), reference=(REFERENCE, "31 metres. White.", "")).value


def test_retrieval_precision_counts_sentences():
    """Of all passages together, not the mean over passages; the same passage twice counts twice, asked about once."""
    judge = saying("tall", "sentences")
    contexts = ("Tall. It is tall. No.", "It is tall.", "It is tall.", " ")
    outcome = score(PRECISION, judge, contexts=contexts)
    assert (3 / 5, 2) == (outcome.value, len(judge.prompts))
    assert [3, 1, 1, 0] == [len(rows) for rows in outcome.details["sentences"]]


def test_a_long_passage_is_asked_about_in_parts():
    """Twenty sentences at a time."""
    judge = saying("tall", "sentences")
    outcome = score(PRECISION, judge, contexts=(" ".join(f"Sentence {n} is tall." for n in range(45)),))
    assert (1.0, [20, 20, 5]) == (outcome.value, [len(prompt.fields["sentences"]) for prompt in judge.prompts])


def test_answer_relevance_is_of_one_question():
    """Which asks for all of the response: so what is beside the point, or missing, takes it down."""
    judge = FakeJudge(json={"answer_questions": {"items": ["How tall is it?"]}, "question_equivalence": {"1": 70}})
    outcome = score(RELEVANCE, judge)
    assert (0.7, 2) == (outcome.value, outcome.n)
    assert ["response"] == list(judge.prompts[0].fields)


def test_edges():
    """An empty response has no faithfulness and answers nothing; no passage supports nothing and has no precision."""
    judge = FakeJudge()
    for metric in (FAITHFULNESS, GROUNDEDNESS):
        assert isinstance(score(metric, judge, response=" "), NotApplicable)
        outcome = score(metric, judge, contexts=())
        assert (0.0, "no_judgement") == (outcome.value, outcome.method)
    assert isinstance(score(GROUNDEDNESS, judge, response="..."), NotApplicable)
    assert (0.0, "empty_response") == ((out := score(RELEVANCE, judge, response="")).value, out.method)
    assert isinstance(score(RECALL, judge, reference="..."), NotApplicable)
    for contexts in ((), ("", " ")):
        assert isinstance(score(PRECISION, judge, contexts=contexts), NotApplicable)
    assert [] == judge.prompts
    empty = FakeJudge(json={"answer_questions": {"items": []}})
    assert (0.0, True) == ((out := score(RELEVANCE, empty)).value, out.details["noncommittal"])


def test_a_passage_that_cannot_be_judged_is_bounded():
    """Its sentences may be relevant or not."""

    def fail(prompt):
        return JudgeError("what?", kind="budget") if prompt.fields["sentences"] == ("One.", "Two.") else None

    judge = FakeJudge(json=lambda p: {"1": 1}, fail=fail)
    outcome = score(PRECISION, judge, contexts=("One. Two.", "Three.", "Four."))
    assert isinstance(outcome, Failure)
    assert ("budget", [0.5, 1.0]) == (outcome.kind, outcome.details["bounds"])


def test_faithfulness_that_cannot_be_judged():
    """May be anything."""
    judge = FakeJudge(fail=lambda p: JudgeError("what?", kind="refused"))
    assert [0.0, 1.0] == score(FAITHFULNESS, judge).details["bounds"]


def test_the_baseline_answers_all_five():
    """By the words in common."""
    outcomes = {metric.card.name: score(metric, LexicalJudge()) for metric in JUDGED}
    assert all(isinstance(outcome, Score) for outcome in outcomes.values()), outcomes
    assert pytest.approx(1 / 2) == outcomes["vera.retrieval_precision"].value
