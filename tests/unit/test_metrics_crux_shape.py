"""CRUX's density, redundancy, novelty and required subset: by hand, and at the edges."""

from __future__ import annotations

import asyncio
import math

import pytest

from ragstone.errors import ConfigurationError
from ragstone.metrics.crux import (
    Density,
    Novelty,
    Redundancy,
    ResponseDensity,
    answerable,
    relative_density,
    required_subset,
)
from ragstone.schema import NotApplicable, Passage, Sample
from ragstone.testing import FakeJudge

ROWS = {
    "p1": [0, 0, 5, 5, 0, 0, 0, 0, 5, 0],
    "p2": [5, 0, 0, 0, 5, 0, 5, 0, 0, 0],
    "p3": [0, 0, 0, 0, 5, 5, 0, 0, 0, 5],
}
QUESTIONS = tuple(f"question {number}?" for number in range(1, 11))
RATINGS = {question: {p: float(row[i]) for p, row in ROWS.items()} for i, question in enumerate(QUESTIONS)}
"""Table 5 of the paper."""


def score(metric, judge=None, **fields):
    sample = Sample(id="s", **fields)
    return asyncio.run(metric.score(sample, judge or FakeJudge()))


def retrieved(*ids, text="some words"):
    return tuple(Passage(id=name, text=f"{text} {name}") for name in ids)


def rated(**fields):
    return {"sub_questions": QUESTIONS, "ratings": RATINGS} | fields


def marking(marks):
    """A judge whose ratings depend on the evidence; `marks` gives the answered sub-questions of a text."""

    def reply(prompt):
        if prompt.construct == "sub_questions":
            return {"items": ["one?", "two?", "three?"]}
        questions = prompt.fields["sub_questions"]
        found = marks.get(prompt.fields["evidence"], ())
        return {str(n): 5 if question in found else 1 for n, question in enumerate(questions, start=1)}

    return FakeJudge(json=reply)


def test_density_by_hand_and_above_one():
    """Equation 6; half of the tokens for all answers is a density of the square root of two, and stays so."""
    ratings = {"q?": {"long": 5.0, "short": 5.0}}
    required = {"long": "one two three four"}
    outcome = score(
        Density(),
        contexts=(Passage(id="short", text="one two"),),
        sub_questions=("q?",),
        ratings=ratings,
        metadata={"required": required},
    )
    assert pytest.approx(math.sqrt(2)) == outcome.value
    assert (2, 4) == (outcome.details["tokens"], outcome.details["required_tokens"])
    assert math.inf == Density().card.high


def test_density_counts_what_the_required_passages_really_cover():
    """A required subset that someone cut down is not taken to cover all."""
    ratings = {"one?": {"a": 5.0, "b": 0.0}, "two?": {"a": 0.0, "b": 5.0}}
    outcome = score(
        Density(weight=1),
        contexts=(Passage(id="a", text="x y"), Passage(id="b", text="z w")),
        sub_questions=("one?", "two?"),
        ratings=ratings,
        metadata={"required": {"a": "x y"}},
    )
    # Coverage 1 in 4 tokens against 1/2 in 2.
    assert pytest.approx(1.0) == outcome.value
    assert 0.5 == outcome.details["required_coverage"]


@pytest.mark.parametrize(
    ("contexts", "required", "why"),
    [
        ((), {"p1": "some"}, "0 tokens"),
        ((Passage(id="p1", text="..."),), {"p1": "some"}, "0 tokens"),
        (retrieved("p1"), {"p1": "..."}, "the required passages have 0 tokens"),
        (retrieved("p1"), {"unknown": "some words"}, "do not answer any sub-question"),
        (retrieved("p1"), {}, "required passages, which density needs"),
        (retrieved("p1"), ["p1"], "required passages, which density needs"),
    ],
)
def test_density_is_undefined_without_tokens_or_required_passages(contexts, required, why):
    """Never 0, never 1: the reason says what is missing."""
    outcome = score(Density(), contexts=contexts, metadata={"required": required}, **rated())
    assert isinstance(outcome, NotApplicable)
    assert why in outcome.reason


def test_density_of_a_response():
    """The same for the response's own tokens; an empty one has no density."""
    fields = rated(metadata={"required": {"p1": "a b", "p2": "c d", "p3": "e f"}})
    kept = answerable(RATINGS)
    outcome = score(ResponseDensity(), marking({"x y z": kept[:4]}), response="x y z", **fields)
    assert pytest.approx(((4 / 8 / 3) / (1 / 6)) ** 0.5) == outcome.value
    assert isinstance(score(ResponseDensity(), response=" ", **fields), NotApplicable)


@pytest.mark.parametrize("metric", [Density(), ResponseDensity()], ids=lambda metric: metric.card.name)
def test_nothing_has_no_density_whoever_writes_the_sub_questions(metric):
    """Without a token it is 0/0, also where the sub-questions would come from the reference; no one is asked for them."""
    judge = FakeJudge()
    fields = {"contexts": (), "response": " ", "ratings": RATINGS, "metadata": {"required": {"p1": "some"}}}
    for questions in ({"sub_questions": QUESTIONS}, {"reference": ("It is blue.",)}):
        outcome = score(metric, judge, **fields, **questions)
        assert isinstance(outcome, NotApplicable)
        assert "0 tokens" in outcome.reason
    assert [] == judge.prompts


def test_the_exponent_of_density():
    """With w = 2 twice as dense is four times the value, and another version of the metric."""
    fields = {"sub_questions": ("q?",), "ratings": {"q?": {"a": 5.0}}, "metadata": {"required": {"a": "x y z w"}}}
    outcome = score(Density(weight=2), contexts=(Passage(id="a", text="x y"),), **fields)
    assert pytest.approx(4.0) == outcome.value
    assert Density(weight=2).card.version != Density().card.version


@pytest.mark.parametrize("weight", [0, -1, math.inf])
def test_density_refuses_an_exponent_that_is_none(weight):
    """The exponent is above 0, and finite."""
    with pytest.raises(ConfigurationError, match="weight"):
        Density(weight=weight)


def test_relative_density_is_undefined_at_zero_over_zero():
    """No token on either side, or nothing covered by the required passages."""
    fine = {"coverage": 0.5, "tokens": 10, "required_coverage": 1.0, "required_tokens": 5}
    assert 0.5 == relative_density(**fine)
    assert 0.0 == relative_density(**fine | {"coverage": 0.0})
    for broken in ({"tokens": 0}, {"required_tokens": 0}, {"required_coverage": 0.0}):
        assert relative_density(**fine | broken) is None


@pytest.mark.parametrize("name", ["coverage", "tokens", "required_coverage", "required_tokens", "weight"])
def test_relative_density_needs_numbers_of_at_least_zero(name):
    """The message names the argument and its value."""
    fine = {"coverage": 0.5, "tokens": 10, "required_coverage": 1.0, "required_tokens": 5}
    for bad in (-1, float("nan")):
        with pytest.raises(ValueError, match=f"{name} must be finite and at least 0, got {bad}"):
            relative_density(**fine | {name: bad})


def test_redundancy_lists_each_passage():
    """p3 repeats one of p2's answers: 1 of 9; p2 a second time is redundant, and a fourth answers nothing."""
    judge = marking({})
    contexts = (*retrieved("p1", "p2", "p3", "p2"), Passage(text="rain"))
    outcome = score(Redundancy(), judge, contexts=contexts, **rated())
    assert pytest.approx(4 / 12) == outcome.value
    verdicts = [passage["verdict"] for passage in outcome.details["passages"]]
    assert ["new", "new", "partly redundant", "redundant", "nothing"] == verdicts
    assert [QUESTIONS[4]] == outcome.details["passages"][2]["repeated"]
    assert [1, 2, 3, 4, 5] == [passage["position"] for passage in outcome.details["passages"]]
    assert "lower" == Redundancy().card.direction


def test_redundancy_without_an_answer_is_undefined():
    """Nothing is repeated where nothing is said, and that is no merit."""
    outcome = score(Redundancy(), marking({}), contexts=(Passage(text="rain"),), **rated())
    assert isinstance(outcome, NotApplicable)


def test_novelty_is_the_share_of_passages_that_add_something():
    """p1 and p3 do; p1 again and a passage that answers nothing do not."""
    contexts = (*retrieved("p1", "p1", "p3"), Passage(text="rain"))
    assert 0.5 == score(Novelty(), marking({}), contexts=contexts, **rated()).value


@pytest.mark.parametrize("metric", [Redundancy(), Novelty()], ids=repr)
@pytest.mark.parametrize("fields", [{"sub_questions": QUESTIONS}, {"reference": ("ref",)}], ids=["given", "reference"])
def test_nothing_retrieved_is_neither_redundant_nor_new(metric, fields):
    """Not applicable, and no one is asked."""
    judge = FakeJudge()
    assert isinstance(score(metric, judge, contexts=(), **fields), NotApplicable)
    assert [] == judge.prompts


def test_the_required_subset_has_nothing_to_spare():
    """What greedy choice takes first may be covered by what it takes later; it is struck out."""
    # "big" answers most, and is not needed beside "left" and "right".
    ratings = {
        "1?": {"left": 5.0},
        "2?": {"left": 5.0, "big": 5.0},
        "3?": {"left": 5.0, "big": 5.0},
        "4?": {"right": 5.0, "big": 5.0},
        "5?": {"right": 5.0, "big": 5.0},
        "6?": {"right": 5.0},
    }
    assert ("left", "right") == tuple(sorted(required_subset(ratings)))
    assert () == required_subset({"1?": {"a": 2.0}})
    assert () == required_subset({})
