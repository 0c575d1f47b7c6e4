"""CRUX's coverage: by hand, the pool, who is asked, and the edges."""

from __future__ import annotations

import asyncio
import math

import pytest

from ragstone.errors import ConfigurationError
from ragstone.metrics import resolve_metrics, share_work
from ragstone.metrics.crux import (
    CRUX,
    Coverage,
    FreeCoverage,
    RankedCoverage,
    ResponseCoverage,
    answerable,
    required_subset,
)
from ragstone.schema import NotApplicable, Passage, Sample, Score
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


def test_table_5_has_three_answers_in_the_third_passage_and_eight_answerable_questions():
    """The paper prints 2/10 for a row with three ratings of 5; ten sub-questions less two make eight."""
    assert [3, 3, 3] == [sum(rating >= 3 for rating in row) for row in ROWS.values()]
    assert 8 == len(answerable(RATINGS))
    assert {"p1", "p2", "p3"} == set(required_subset(RATINGS))


@pytest.mark.parametrize(
    ("ids", "expected"),
    [(("p1",), 3 / 8), (("p1", "p3"), 6 / 8), (("p2", "p3"), 5 / 8), (("p1", "p2", "p3"), 1.0), ((), 0.0)],
)
def test_coverage_divides_by_what_is_answerable(ids, expected):
    """Equation 3 with the denominator of the text and of table 5; nothing retrieved covers nothing; no one is asked."""
    judge = FakeJudge()
    outcome = score(Coverage(), judge, contexts=retrieved(*ids), **rated())
    assert expected == outcome.value
    assert [] == judge.prompts
    assert "exact" == outcome.method
    assert "rated" == outcome.details["pool"]
    assert [QUESTIONS[1], QUESTIONS[7]] == outcome.details["unanswerable"]


def test_details_say_which_sub_questions_are_missing():
    """In the order of the sub-questions, and without those that are out of reach."""
    outcome = score(Coverage(), contexts=retrieved("p1"), **rated())
    assert [QUESTIONS[i] for i in (0, 4, 5, 6, 9)] == outcome.details["missing"]
    assert [QUESTIONS[i] for i in (2, 3, 8)] == outcome.details["answered"]
    assert "3 of 8 sub-questions answered" in outcome.explanation


@pytest.mark.parametrize(("rating", "expected"), [(2.9, 0.0), (3.0, 1.0)])
def test_a_rating_of_three_answers(rating, expected):
    """The threshold itself counts; another passage keeps the sub-question answerable."""
    ratings = {"q?": {"a": rating, "other": 5.0}}
    outcome = score(Coverage(), contexts=retrieved("a"), sub_questions=("q?",), ratings=ratings)
    assert expected == outcome.value


def test_passages_that_nobody_rated_are_rated_by_the_judge_on_answerable_questions_alone():
    """A retrieved passage outside the pool may answer what the pool can answer; it does not move the denominator."""
    judge = marking({"new words": ("question 1?", "question 2?")})
    outcome = score(Coverage(), judge, contexts=(Passage(text="new words"),), **rated())
    assert 1 / 8 == outcome.value
    (prompt,) = judge.prompts
    assert tuple(q for q in QUESTIONS if q not in (QUESTIONS[1], QUESTIONS[7])) == prompt.fields["sub_questions"]
    assert 1 == outcome.details["n_judged"]


def test_only_the_pairs_without_a_rating_are_asked_for():
    """A passage that is rated for one sub-question and not for another is asked about the other."""
    judge = marking({"some words a": ("two?",)})
    ratings = {"one?": {"a": 4.0}, "two?": {"b": 5.0}}
    outcome = score(Coverage(), judge, contexts=retrieved("a"), sub_questions=("one?", "two?"), ratings=ratings)
    assert [("two?",)] == [prompt.fields["sub_questions"] for prompt in judge.prompts]
    assert 1.0 == outcome.value


def test_a_sub_question_that_nobody_rated_counts():
    """It is not known to be unanswerable."""
    ratings = {"one?": {"a": 5.0}}
    outcome = score(Coverage(), marking({}), contexts=retrieved("a"), sub_questions=("one?", "two?"), ratings=ratings)
    assert 0.5 == outcome.value
    assert [] == outcome.details["unanswerable"]


def test_without_ratings_all_given_sub_questions_count():
    """No one knows the pool, and the details say so."""
    judge = marking({"first": ("one?",), "second": ("one?", "two?")})
    contexts = (Passage(text="first"), Passage(text="second"), Passage(text="second"), Passage(text=" "))
    outcome = score(Coverage(), judge, contexts=contexts, sub_questions=("one?", "two?", "three?"))
    assert pytest.approx(2 / 3) == outcome.value
    assert ("assumed", "given") == (outcome.details["pool"], outcome.details["sub_questions_from"])
    assert 2 == len(judge.prompts)  # the same text once, a blank one never
    assert 2 == outcome.n


def test_sub_questions_are_written_from_the_first_reference():
    """Any one reference is a complete answer; the details say where the sub-questions come from."""
    judge = marking({"text": ("one?", "three?")})
    outcome = score(Coverage(), judge, contexts=(Passage(text="text"),), reference=(" ", "first", "second"))
    assert pytest.approx(2 / 3) == outcome.value
    assert "reference" == outcome.details["sub_questions_from"]
    assert {"reference": "first"} == dict(judge.prompts[0].fields)


def test_no_sub_questions_and_no_reference():
    """The reason names both ways out."""
    outcome = score(Coverage(), contexts=retrieved("a"))
    assert isinstance(outcome, NotApplicable)
    assert ("sub_questions",) == outcome.missing
    assert "reference" in outcome.reason


def test_a_reference_without_a_sub_question_has_no_coverage():
    """A share of nothing is undefined, and no zero."""
    judge = FakeJudge(json={"sub_questions": {"items": []}})
    outcome = score(Coverage(), judge, contexts=retrieved("a"), reference=("ref",))
    assert isinstance(outcome, NotApplicable)
    assert "no sub-questions from the reference" in outcome.reason


def test_nothing_answerable_is_not_applicable():
    """0/0, whatever was retrieved."""
    ratings = {"q?": {"a": 2.0, "b": 0.0}}
    for contexts in ((), retrieved("a")):
        outcome = score(Coverage(), contexts=contexts, sub_questions=("q?",), ratings=ratings)
        assert isinstance(outcome, NotApplicable)
        assert "no rated passage answers any of the 1 sub-questions" in outcome.reason


@pytest.mark.parametrize("rating", [-1.0, 6.0, 100.0])
def test_ratings_off_the_scale_are_refused(rating):
    """Another scale would make everything, or nothing, an answer."""
    outcome = score(Coverage(), contexts=retrieved("a"), sub_questions=("q?",), ratings={"q?": {"a": rating}})
    assert isinstance(outcome, NotApplicable)
    assert f"{rating:g}" in outcome.reason


@pytest.mark.parametrize("response", ["", " \n"])
def test_an_empty_response_answers_nothing_and_nobody_is_asked(response):
    """Neither for ratings, nor for sub-questions."""
    for fields in ({"sub_questions": ("q?",)}, {"reference": ("ref",)}):
        judge = FakeJudge()
        assert 0.0 == score(ResponseCoverage(), judge, response=response, **fields).value
        assert [] == judge.prompts


def test_the_response_is_measured_by_the_same_answerable_sub_questions():
    """Table 5's row of the oracle result: 5 0 0 0 5 5 0 5, 4 of 8."""
    kept = [q for q in QUESTIONS if q in answerable(RATINGS)]
    judge = marking({"the report": [kept[i] for i in (0, 4, 5, 7)]})
    outcome = score(ResponseCoverage(), judge, response="the report", **rated())
    assert 0.5 == outcome.value
    assert tuple(kept) == judge.prompts[0].fields["sub_questions"]


def test_ranked_coverage_by_hand():
    """Equations 4 and 5 for p2, p3, with the ideal p3, p1, p2 (ties by the larger id)."""
    outcome = score(RankedCoverage(), contexts=retrieved("p2", "p3"), **rated())
    found = 3 + 2.5 / math.log2(3)
    ideal = 3 + 3 / math.log2(3) + 2.5 / 2
    assert pytest.approx(found / ideal) == outcome.value
    assert (3, 3, 3) == tuple(outcome.details[name] for name in ("k", "n_pool", "n_required"))


def test_ranked_coverage_looks_at_the_order():
    """What answers nothing does harm at the top."""
    ratings = {"q?": {"good": 5.0, "bad": 0.0}}
    values = [
        score(RankedCoverage(), contexts=retrieved(*ids), sub_questions=("q?",), ratings=ratings).value
        for ids in (("good", "bad"), ("bad", "good"))
    ]
    assert [1.0, pytest.approx(1 / math.log2(3))] == values


def test_ranked_coverage_does_not_pay_for_a_short_list():
    """One passage of three that are required is no ideal list."""
    outcome = score(RankedCoverage(), contexts=retrieved("p1"), **rated())
    assert pytest.approx(3 / (3 + 3 / math.log2(3) + 2.5 / 2)) == outcome.value


def test_alpha_says_how_much_a_repetition_is_worth():
    """With alpha 1 the second answer to the same sub-question gains nothing, with 0 as much as the first."""
    fields = {"contexts": retrieved("p2", "p3"), **rated()}
    whole = 3 + 3 / math.log2(3) + 3 / 2
    once = 3 + 3 / math.log2(3) + 2 / 2
    assert pytest.approx((3 + 3 / math.log2(3)) / whole) == score(RankedCoverage(alpha=0), **fields).value
    assert pytest.approx((3 + 2 / math.log2(3)) / once) == score(RankedCoverage(alpha=1), **fields).value
    assert RankedCoverage(alpha=1).card.version != RankedCoverage().card.version


def test_ranked_coverage_at_a_depth():
    """Places beyond k count neither in the list nor in the ideal."""
    outcome = score(RankedCoverage(k=1), contexts=retrieved("p2", "p3"), **rated())
    assert (1.0, 1) == (outcome.value, outcome.details["k"])


def test_ranked_coverage_needs_a_pool():
    """Without ratings of more than was retrieved the best order is unknown."""
    outcome = score(RankedCoverage(), contexts=retrieved("a"), sub_questions=("q?",))
    assert ("ratings",) == outcome.missing


@pytest.mark.parametrize("options", [{"alpha": 1.1}, {"alpha": -0.1}, {"k": 0}])
def test_ranked_coverage_refuses_what_cannot_work(options):
    """The message names the value."""
    with pytest.raises(ConfigurationError, match=str(next(iter(options.values())))):
        RankedCoverage(**options)


def test_the_free_metrics_look_at_the_query_alone():
    """Given sub-questions, ratings and references play no part, so that the values of all samples mean the same."""
    judge = marking({"some words p1": ("one?",)})
    outcome = score(FreeCoverage(), judge, query="what?", contexts=retrieved("p1"), reference=("ref",), **rated())
    assert pytest.approx(1 / 3) == outcome.value
    assert {"query": "what?"} == dict(judge.prompts[0].fields)
    assert ("query", "assumed") == (outcome.details["sub_questions_from"], outcome.details["pool"])


def test_the_free_metrics_take_no_rating_of_the_sample():
    """Not even of a sub-question that reads the same: its pool would decide what counts."""
    ratings = {"one?": {"p1": 5.0}, "two?": {"p1": 0.0}}
    outcome = score(FreeCoverage(), marking({}), query="what?", contexts=retrieved("p1"), ratings=ratings)
    assert 0.0 == outcome.value
    assert 3 == len(outcome.details["answerable"])


def test_the_free_metrics_ask_nobody_where_nothing_was_retrieved():
    """Whatever sub-questions the sample has."""
    judge = FakeJudge()
    assert 0.0 == score(FreeCoverage(), judge, query="what?", contexts=(), **rated()).value
    assert [] == judge.prompts


def test_all_metrics_of_a_sample_share_what_is_asked():
    """One question for the sub-questions of each source, one for each text."""
    judge = marking({"first": ("one?",)})
    contexts = (Passage(text="first"), Passage(text="second"))
    sample = Sample(id="s", query="q", contexts=contexts, response="r", reference=("ref",))

    async def all_of_them():
        with share_work():
            return await asyncio.gather(*(metric.score(sample, judge) for metric in CRUX))

    outcomes = asyncio.run(all_of_them())
    # From reference and from query the same three are written here, so three texts are rated once.
    assert 2 + 3 == len(judge.prompts)
    assert {"ratings"} == {name for o in outcomes if isinstance(o, NotApplicable) for name in o.missing}
    assert 8 == sum(isinstance(outcome, Score) for outcome in outcomes)


@pytest.mark.parametrize("name", [metric.name for metric in CRUX])
def test_another_threshold(name):
    """It is part of name, title, version and formula; the default has the name without it."""
    (strict,) = resolve_metrics(f"{name}@4")
    (default,) = resolve_metrics(name)
    assert type(default) is type(strict)
    assert (f"{name}@4", "1(eta=4)", 4) == (strict.card.name, strict.version, strict.rating_threshold)
    assert strict.card.title != default.card.title
    assert "rating >= 3" not in strict.card.formula
    assert default.card == resolve_metrics(f"{name}@none")[0].card
    assert default.rating_threshold is None
    assert f"{name}@3" == resolve_metrics(f"{name}@3.0")[0].card.name


def test_the_threshold_decides_what_is_answered():
    """Ratings of 3, 4 and 5: the same sub-questions are answerable, and with a higher threshold fewer are answered."""
    ratings = {"a?": {"p": 3.0, "q": 0.0}, "b?": {"p": 4.0, "q": 5.0}, "c?": {"p": 0.0, "q": 5.0}}
    known = {"sub_questions": tuple(ratings), "ratings": ratings, "contexts": retrieved("p")}
    values = {
        name: score(resolve_metrics(name)[0], **known)
        for name in ("crux.coverage@4", "crux.coverage", "crux.coverage@4.5")
    }
    assert [1 / 3, 2 / 3, 0.0] == [outcome.value for outcome in values.values()]
    assert [4, 3, 4.5] == [outcome.details["eta"] for outcome in values.values()]


def test_a_stricter_threshold_never_covers_more():
    """The sub-questions were filtered again with each threshold, so the few easy ones of a strict one were all answered."""
    ratings = {"a?": {"p": 5.0, "q": 1.0}, "b?": {"p": 2.0, "q": 4.0}, "c?": {"p": 2.0, "q": 3.0}}
    for stated in ({}, {"rating_threshold": 4}):
        known = {"sub_questions": tuple(ratings), "ratings": ratings, "contexts": retrieved("p"), "metadata": stated}
        for name in ("crux.coverage", "crux.redundancy", "crux.novelty"):
            outcomes = [score(resolve_metrics(f"{name}@{eta}")[0], **known) for eta in (1, 2, 3, 4, 5)]
            assert {2 if stated else 3} == {len(o.details["answerable"]) for o in outcomes if isinstance(o, Score)}
            if name == "crux.coverage":
                values = [outcome.value for outcome in outcomes]
                assert sorted(values, reverse=True) == values
                assert values[0] > values[-1] > 0


def test_the_threshold_of_the_dataset_is_not_forgotten():
    """A row that was built with 4 counts answers from 4. An explicit 3 counts from 3, over the same sub-questions."""
    ratings = {"a?": {"p": 3.0, "q": 4.0}, "b?": {"p": 4.0, "q": 0.0}, "c?": {"p": 3.0, "q": 0.0}}
    known = {"sub_questions": tuple(ratings), "ratings": ratings, "contexts": retrieved("p")}
    found = {
        (stated, name): score(
            resolve_metrics(name)[0], metadata={"rating_threshold": stated} if stated else {}, **known
        )
        for stated in (None, 4)
        for name in ("crux.coverage", "crux.coverage@3", "crux.coverage@4")
    }
    assert [1.0, 1.0, 1 / 3, 0.5, 1.0, 0.5] == [outcome.value for outcome in found.values()]
    assert [3, 3, 4, 4, 3, 4] == [outcome.details["eta"] for outcome in found.values()]
    for stated in (0, 5.1, "4", True, float("nan")):
        outcome = score(resolve_metrics("crux.coverage")[0], metadata={"rating_threshold": stated}, **known)
        assert "rating_threshold must be a number above 0" in outcome.reason


def test_the_required_passages_are_those_of_the_threshold():
    """At 5 one passage is enough for what is covered. Comparing with the two of the threshold 3 gave 1.414."""
    ratings = {"a?": {"p": 5.0, "q": 0.0}, "b?": {"p": 0.0, "q": 3.0}}
    known = {
        "sub_questions": tuple(ratings),
        "ratings": ratings,
        "contexts": (Passage(id="p", text="one two"),),
        "metadata": {"required": {"p": "one two", "q": "six seven"}},
    }
    values = {name: score(resolve_metrics(name)[0], **known) for name in ("crux.density", "crux.density@5")}
    assert [1.0, 1.0] == [outcome.value for outcome in values.values()]
    assert [["p", "q"], ["p"]] == [outcome.details["required"] for outcome in values.values()]
    # A passage that is required at 5 may be one that was not retrieved, whose text the row has.
    swapped = {"a?": {"p": 0.0, "q": 5.0}, "b?": {"p": 3.0, "q": 0.0}}
    other = score(resolve_metrics("crux.density@5")[0], **{**known, "ratings": swapped})
    assert (["q"], 0.0) == (other.details["required"], other.value)
    # Or one that was retrieved, and is not required at 3.
    more = {"a?": {"p": 5.0, "q": 3.0}, "b?": {"p": 0.0, "q": 3.0}}
    third = score(
        resolve_metrics("crux.density@5")[0], **{**known, "ratings": more, "metadata": {"required": {"q": "six"}}}
    )
    assert (["p"], 1.0) == (third.details["required"], third.value)
    # The texts of other passages are not in the row.
    ratings["c?"] = {"r": 5.0, "q": 3.0}
    missing = score(
        resolve_metrics("crux.density@5")[0], **{**known, "ratings": ratings, "sub_questions": tuple(ratings)}
    )
    assert "the passage 'r' is required" in missing.reason
    assert "--rating-threshold 5" in missing.reason
    assert ("required",) == missing.missing


def test_thresholds_share_the_ratings():
    """The judge rates each passage once, whatever the number of thresholds."""
    judge = FakeJudge(4)

    async def both():
        with share_work():
            sample = Sample(id="s", sub_questions=("a?",), contexts=retrieved("p"))
            metrics = resolve_metrics(["crux.coverage", "crux.coverage@5"])
            return await asyncio.gather(*(metric.score(sample, judge) for metric in metrics))

    asyncio.run(both())
    assert 1 == len(judge.prompts)


@pytest.mark.parametrize("argument", ["0", "6", "-1", "x", "nan", "inf"])
def test_impossible_thresholds(argument):
    """The message names the argument, the metric, the rule and the value."""
    with pytest.raises(
        ConfigurationError, match=rf"rating_threshold of crux.coverage must be .* at most 5, or none, got '{argument}'"
    ):
        resolve_metrics(f"crux.coverage@{argument}")
