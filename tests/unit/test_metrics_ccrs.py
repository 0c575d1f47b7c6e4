"""CCRS: the formulas, and what the source leaves open."""

from __future__ import annotations

import asyncio
import re

import pytest

from builders import make_sample
from ragstone.errors import ConfigurationError
from ragstone.judges import NumberReply
from ragstone.judges.lexical import LexicalJudge
from ragstone.metrics import resolve_metrics
from ragstone.metrics.ccrs import CCRS, AnswerCorrectness, ContextualCoherence, InformationRecall
from ragstone.schema import Interval, NotApplicable, Score, Turn
from ragstone.testing import FakeJudge


def score(metric, judge=None, **fields):
    return asyncio.run(metric.score(make_sample(**fields), judge or FakeJudge(80)))


@pytest.mark.parametrize("metric", [metric for metric in CCRS if metric.card.name != "ccrs.ac"], ids=repr)
def test_value_is_the_judges_number_of_a_hundred(metric):
    """CC, QR, ID and IR: judge / 100, with the reply and its method kept."""
    outcome = score(metric, FakeJudge(85))
    assert (0.85, "single_reply", 1, "85") == (outcome.value, outcome.method, outcome.n, outcome.raw)
    assert outcome.interval is None
    assert outcome.metric_version.endswith(outcome.prompt_hash)


@pytest.mark.parametrize(
    ("response", "reference", "judge", "expected"),
    [
        ("31 metres", "31 metres", 100, 1.0),
        ("31 metres", "31 metres", 0, 0.7),
        ("31 metres", "31 Metres", 100, 0.3),
        ("31 metres.", "31 metres", 50, 0.15),
        (" 31 metres\n", "31 metres", 60, 0.7 + 0.18),
        ("31 metres", ("thirty-one metres", "31 metres"), 60, 0.7 + 0.18),
        ("31 metres", ("thirty-one metres", "31 m"), 60, 0.18),
    ],
)
def test_answer_correctness(response, reference, judge, expected):
    """0.7 EM + 0.3 judge / 100; EM letter by letter but for outer white space, the best of several references."""
    outcome = score(AnswerCorrectness(), FakeJudge(judge), response=response, reference=reference)
    assert pytest.approx(expected) == outcome.value
    assert {"em": float(expected >= 0.7), "judge": judge / 100} == outcome.details


def test_weight_of_the_exact_match():
    """Another λ is another metric version, within [0, 1]."""
    judged = AnswerCorrectness(em_weight=0)
    assert 0.8 == score(judged, response="31 metres", reference="31 metres").value
    assert judged.card.version != AnswerCorrectness().card.version
    with pytest.raises(ConfigurationError, match="em_weight"):
        AnswerCorrectness(em_weight=1.5)


@pytest.mark.parametrize("response", ["", " \n\t "])
def test_empty_response_scores_zero_without_a_call(response):
    """On all five, and the judge is not asked."""
    judge = FakeJudge(fail=lambda prompt: AssertionError("asked"))
    outcomes = [score(metric, judge, response=response) for metric in CCRS]
    assert [(0.0, "empty_response")] * 5 == [(outcome.value, outcome.method) for outcome in outcomes]
    assert [] == judge.prompts


def test_reference_is_needed_by_two():
    """Without one, or with blank ones, AC and IR are not applicable; the others are scored."""
    for reference in ((), ("", " ")):
        outcomes = {metric.card.name: score(metric, reference=reference) for metric in CCRS}
        assert {"ccrs.ac", "ccrs.ir"} == {name for name, out in outcomes.items() if isinstance(out, NotApplicable)}
        assert ("reference",) == outcomes["ccrs.ac"].missing


def test_retrieval_that_found_nothing():
    """CC has no meaning, which is not the same as a missing field; the others are scored."""
    for contexts in ((), ("", " ")):
        outcome = score(ContextualCoherence(), contexts=contexts)
        assert isinstance(outcome, NotApplicable)
        assert ((), True) == (outcome.missing, outcome.reason.startswith("retrieval returned no passages"))
    assert all(isinstance(score(metric, contexts=()), Score) for metric in CCRS[1:])


def test_reference_is_shown_to_two():
    """CC, QR and ID judge without knowing the right answer."""
    judge = FakeJudge()
    for metric in CCRS:
        score(metric, judge)
    shown = {prompt.construct: list(prompt.fields) for prompt in judge.prompts}
    base = ["query", "contexts", "response"]
    assert [base, base, base, [*base, "reference"], [*base, "reference"]] == list(shown.values())


def test_tasks_state_the_scale_and_the_empty_response():
    """Each task names both ends of 0-100 and none demands a form of reply: that is the judge's part."""
    for metric in CCRS:
        assert metric.task.startswith("Your assignment: ")
        assert all(f"\n{mark}: " in metric.task for mark in (100, 50, 0))
        assert not re.search("reply|print|output", metric.task, re.IGNORECASE)
        assert not metric.task.endswith("\n")


def test_versions_differ():
    """Five prompts, five hashes."""
    assert 5 == len({metric.card.version for metric in CCRS})


def test_lexical_baseline_answers_all_five():
    """The embedded default covers the default metrics."""
    outcomes = [score(metric, LexicalJudge()) for metric in CCRS]
    assert ["lexical"] * 5 == [outcome.method for outcome in outcomes]
    assert 1.0 == score(InformationRecall(), LexicalJudge(), reference="31 metres tall").value


@pytest.mark.parametrize(
    ("metric", "response", "expected"),
    [
        (InformationRecall(), "31 metres", (0.5, 0.4, 0.75)),
        (AnswerCorrectness(), "31 metres", (0.7 + 0.3 * 0.5, 0.7 + 0.3 * 0.4, 0.7 + 0.3 * 0.75)),
        (AnswerCorrectness(), "31 m", (0.3 * 0.5, 0.3 * 0.4, 0.3 * 0.75)),
        (AnswerCorrectness(em_weight=1), "31 m", (0.0, 0.0, 0.0)),
    ],
)
def test_the_judges_interval_goes_the_way_of_its_number(metric, response, expected):
    """Scaled to the metric's range, and for AC shifted by the exact match; its level, method and replies are kept."""

    class Drawing(FakeJudge):
        async def ask_number(self, prompt, *, low=0, high=100):
            interval = Interval(low=40, high=75, confidence_level=0.9, method="betting")
            return NumberReply(value=50, raw="40, 60", method="sampled", n=2, interval=interval, mass=0.8)

    outcome = score(metric, Drawing(), response=response, reference="31 metres")
    assert pytest.approx(expected) == (outcome.value, outcome.interval.low, outcome.interval.high)
    assert (0.9, "betting", 2, "sampled") == (
        outcome.interval.confidence_level,
        outcome.interval.method,
        outcome.n,
        outcome.method,
    )
    assert 0.8 == outcome.details["format_mass"]


LETTERS = {"r": "response", "q": "query", "C": "contexts", "g": "reference"}


@pytest.mark.parametrize("name", ["ccrs.cc", "ccrs.qr", "ccrs.id", "ccrs.ac", "ccrs.ir"])
def test_a_prompt_can_have_the_fields_of_the_formula_alone(name):
    """As in the paper. The scores are those of another metric, so that the two are never mixed."""
    sample = make_sample(reference="31 meters").model_copy(
        update={"history": (Turn(role="user", text="Is there a lighthouse?"),)}
    )
    (usual,), (own,) = resolve_metrics(name), resolve_metrics(f"{name}@fields=formula")
    letters = re.search(r"judge\(([^)]+)\)", own.card.formula)[1].split(", ")
    expected = {LETTERS[letter] for letter in letters} | ({"earlier_turns"} if "q" in letters else set())
    judge = FakeJudge(80)
    outcome = asyncio.run(own.score(sample, judge))
    assert expected == set(judge.prompts[0].fields)
    assert (f"{name}@fields=formula", own.card.version) == (outcome.metric, outcome.metric_version)
    assert own.card.version != usual.card.version
    asyncio.run(usual.score(sample, judge))
    everything = {"earlier_turns", "query", "contexts", "response"} | ({"reference"} & expected)
    assert everything == set(judge.prompts[1].fields)
    assert judge.prompts[0].task == judge.prompts[1].task


def test_the_fields_are_an_argument_of_the_group():
    """It is part of the name of each metric."""
    names = [metric.card.name for metric in resolve_metrics("ccrs@fields=formula")]
    assert [f"ccrs.{name}@fields=formula" for name in ("cc", "qr", "id", "ac", "ir")] == names
    assert "ccrs.ac@em_weight=0,fields=formula" == resolve_metrics("ccrs.ac@0,fields=formula")[0].card.name
    with pytest.raises(ConfigurationError, match=r"fields of ccrs\.cc must be one of all, formula, got 'own'"):
        resolve_metrics("ccrs@fields=own")
