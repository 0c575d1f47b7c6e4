"""Grades of answers: what decides without a judge, the judge's three classes, and contexts without a relevant passage."""

from __future__ import annotations

import itertools

import pytest

from fake_models import FakeReader
from ragstone._util.abstains import answer_abstains
from ragstone.errors import DataError, JudgeError
from ragstone.testing import FakeJudge
from ragstone_lab import correlate_udcg

GOOD = {"text": "The tower is 31 meters tall.", "relevance": 1, "metadata": {"udcg": {"p_abstain": 0.1}}}
DULL = {"text": "The tower is red.", "relevance": 0, "metadata": {"udcg": {"p_abstain": 0.6}}}
COUNTED = {"correct": 0, "partial": 0, "abstained": 0, "wrong": 0}


def rows_of(*responses, contexts=(GOOD, DULL), reference=("31 meters", "31 m")):
    """One row for each response, all of one question."""
    return [
        {"id": str(n), "question_id": "q", "query": "How tall?", "contexts": list(contexts), "response": response}
        | ({"reference": list(reference)} if reference else {})
        for n, response in enumerate(responses)
    ]


def grades_of(rows, judge):
    """How often each grade was given."""
    return correlate_udcg(rows, reader=FakeReader(), judge=judge).grades


def test_refusals_in_other_words_are_abstentions():
    """Fifty answers that decline in other words than the reader's phrase: none is wrong, and the judge is not asked."""
    judge = FakeJudge(json={"answer_grade": {"grade": "wrong"}})
    responses = itertools.chain.from_iterable(
        ("I don't know.", "I'm not sure, the passages are silent on this.") for _ in range(25)
    )
    assert COUNTED | {"abstained": 50} == grades_of(rows_of(*responses), judge)
    assert [] == judge.prompts


def test_an_answer_that_equals_a_reference_is_correct_without_the_judge():
    """In any case and with an article, also if the same words would decline elsewhere."""
    judge = FakeJudge(json={"answer_grade": {"grade": "wrong"}})
    assert COUNTED | {"correct": 2} == grades_of(rows_of("31 Meters.", "the 31 m"), judge)
    assert COUNTED | {"correct": 1} == grades_of(rows_of("Unknown.", reference=("unknown",)), judge)
    assert [] == judge.prompts


def test_the_judge_decides_about_everything_else_in_three_classes():
    """A refusal before an answer, a refusal no rule knows, a paraphrase, another number."""
    replies = {
        "I don't know the year. It is 31 meters tall, I think.": "correct",
        "The sources are of no help to me there.": "abstain",
        "It rises to thirty-one meters.": "correct",
        "I'm not sure, but I think it is 40 meters.": "wrong",
        "It is 31 meters high, but I'm not sure.": "correct",
    }
    judge = FakeJudge(json=lambda prompt: {"grade": replies[prompt.fields["response"]]})
    assert COUNTED | {"correct": 3, "abstained": 1, "wrong": 1} == grades_of(rows_of(*replies), judge)
    assert {("31 meters", "31 m")} == {prompt.fields["reference"] for prompt in judge.prompts}
    assert {"answer_grade"} == {prompt.construct for prompt in judge.prompts}


def test_only_a_context_with_a_relevant_passage_makes_an_answer_fully_correct():
    """Elsewhere the reader knew it: partial, which ranks as an abstention does and is counted by itself."""
    judge = FakeJudge(json={"answer_grade": {"grade": "wrong"}})
    rows = [*rows_of("31 meters", "7"), *rows_of("31 m", "No response.", contexts=(DULL, DULL))]
    rows = [row | {"id": str(n)} for n, row in enumerate(rows)]
    found = correlate_udcg(rows, reader=FakeReader(), judge=judge)
    assert {"correct": 1, "partial": 1, "abstained": 1, "wrong": 1} == found.grades
    assert "answers: 1 correct, 1 partial, 1 abstained, 1 wrong" in str(found)
    # Rank 1 for both: with the grades of the data the result is the same.
    for row, grade in zip(rows, (2, 0, "partial", "abstain"), strict=True):
        row["grade"] = grade
    again = correlate_udcg(rows)
    assert found.grades == again.grades
    rows[2]["grade"] = "abstain"
    assert found.metrics[0].all == again.metrics[0].all == correlate_udcg(rows).metrics[0].all


def test_without_a_reference_only_a_refusal_can_be_graded():
    """The other row is counted with the way out."""
    found = correlate_udcg(rows_of("I don't know.", "31 meters", reference=()), reader=FakeReader(), judge=FakeJudge())
    assert COUNTED | {"abstained": 1} == found.grades
    assert {"no grade": 1} == found.left_out
    assert "Set `reference` or `grade`" in found.errors[0]


@pytest.mark.parametrize("grade", ["perhaps", 3, True, 1.5])
def test_an_invalid_grade_is_named(grade):
    """With all valid grades."""
    with pytest.raises(DataError, match=r"invalid grade .*'partial'"):
        correlate_udcg([row | {"grade": grade} for row in rows_of("x")])


@pytest.mark.parametrize("grade", [2, 2.0, "2", "2.0", " Correct "])
def test_grades_as_numbers_and_words(grade):
    """CSV files contain text."""
    assert COUNTED | {"correct": 1} == correlate_udcg([row | {"grade": grade} for row in rows_of("x")]).grades


def test_an_unusable_judge_leaves_the_row_out():
    """It is not wrong because the judge failed."""
    judge = FakeJudge(fail=lambda prompt: JudgeError("gone", kind="unavailable"))
    found = correlate_udcg(rows_of("31 meters", "40 meters"), reader=FakeReader(), judge=judge)
    assert COUNTED | {"correct": 1} == found.grades
    assert {"no grade": 1} == found.left_out


@pytest.mark.parametrize(
    ("answer", "first", "whole"),
    [
        ("I don't know. The passages do not mention it.", True, True),
        ("I could not find it in the text. It is 31 meters tall.", True, False),
        ("It is 31 meters tall. I don't know more.", False, False),
        ("I'm not sure, but it is red.", False, False),
        ("It is 31 meters, but I'm not sure.", True, False),
        ("31 meters, although I am not certain.", True, False),
        ("Sorry, but I don't know.", True, True),
        ("I am not sure, but I could not find it.", True, True),
    ],
)
def test_a_refusal_decides_alone_only_if_nothing_else_is_said(answer, first, whole):
    """A diagnosis reads the first sentence. A grade needs all of them."""
    assert (first, whole) == (answer_abstains(answer), answer_abstains(answer, whole=True))


@pytest.mark.parametrize("values", [(1.0, 0.0), ("1", "0", "1.0"), (1,), (0, "abstain"), (1, "correct")])
def test_numbers_without_a_two_are_ambiguous(values):
    """A grade of 1.0 that means "correct" was read as an abstention."""
    rows = rows_of(*["x"] * len(values))
    with pytest.raises(DataError, match=r"are ambiguous without a 2: .*Write 'correct', 'abstain' and 'wrong'"):
        correlate_udcg([row | {"grade": grade} for row, grade in zip(rows, values, strict=True)])


@pytest.mark.parametrize(
    ("words", "grade"),
    [
        (("A", "a", "CORRECT", "Correct ", "2"), "correct"),
        (("C", "NOT_ATTEMPTED", "not attempted", "Abstained", "1"), "abstained"),
        (("B", "INCORRECT", "incorrect", "0"), "wrong"),
    ],
)
def test_words_and_letters_of_graders(words, grade):
    """As SimpleQA's grader writes them."""
    rows = rows_of(*["x"] * (len(words) + 1))
    grades = [*words, 2]
    found = correlate_udcg([row | {"grade": value} for row, value in zip(rows, grades, strict=True)]).grades
    assert len(words) + (grade == "correct") == found[grade]
