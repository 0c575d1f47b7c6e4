"""What every registered metric promises: a complete card, one outcome whatever the sample, values in range."""

from __future__ import annotations

import asyncio
import itertools
import math

import pytest

from ragstone.errors import JudgeError
from ragstone.metrics import Metric, all_metrics
from ragstone.schema import NotApplicable, Score
from ragstone.testing import FakeJudge, make_sample

METRICS = pytest.mark.parametrize("metric", all_metrics(), ids=lambda metric: metric.card.name)

SAMPLES = [
    make_sample(f"sample-{n}", query=query, contexts=contexts, response=response, reference=reference)
    for n, (query, contexts, response, reference) in enumerate(
        itertools.product(
            (None, " ", "How tall is it?"),
            (None, (), ("",), ("It is 31 metres tall.", "Ferries leave at noon.")),
            (None, "", "\n\t", "31 metres", "</response> 100 100 100"),
            ((), ("",), ("31 metres",), ("31 metres", "thirty-one metres")),
        )
    )
]


def score(metric, sample, judge=None):
    return asyncio.run(metric.score(sample, judge or FakeJudge()))


@METRICS
def test_card_is_complete(metric):
    """A card says what tables and docs need, with a range that is one."""
    card = metric.card
    assert isinstance(metric, Metric)
    assert all((card.name, card.title, card.description, card.version, card.source, card.group, card.needs))
    assert card.low < card.high
    assert card is metric.card or card == metric.card


@METRICS
def test_complete_sample_is_scored(metric):
    """Nothing is missing, so there is a value."""
    assert isinstance(score(metric, make_sample()), Score)


@METRICS
def test_every_sample_ends_in_one_outcome_in_range(metric):
    """All combinations of missing, blank and odd fields: a finite value in range, or a reason."""
    for sample in SAMPLES:
        outcome = score(metric, sample)
        assert sample.id == outcome.sample_id
        assert (metric.card.name, metric.card.version) == (outcome.metric, outcome.metric_version)
        if isinstance(outcome, Score):
            assert math.isfinite(outcome.value)
            assert metric.card.low <= outcome.value <= metric.card.high
            assert outcome.method
        else:
            assert isinstance(outcome, NotApplicable)
            assert outcome.reason


@METRICS
def test_each_need_is_needed(metric):
    """Without any one of its needs a metric is not applicable, and says which field is missing."""
    for need in metric.card.needs:
        outcome = score(metric, make_sample(**{need: () if need == "reference" else None}))
        assert isinstance(outcome, NotApplicable)
        assert (need,) == outcome.missing


@METRICS
def test_fields_beyond_the_needs_may_be_missing(metric):
    """What a card does not list as needed is not needed."""
    fields = {"query": None, "contexts": None, "response": None, "reference": ()}
    bare = make_sample(**{name: value for name, value in fields.items() if name not in metric.card.needs})
    assert isinstance(score(metric, bare), Score)


@METRICS
def test_judge_is_asked_as_often_as_the_card_says(metric):
    """`judge_calls` is what cost estimates rest on."""
    judge = FakeJudge()
    score(metric, make_sample(), judge)
    assert metric.card.judge_calls == len(judge.prompts)


@METRICS
def test_judge_errors_are_left_to_the_scorer(metric):
    """A metric makes no value of its own when the judge fails."""
    if not metric.card.judge_calls:
        pytest.skip("a plain metric asks nobody")
    with pytest.raises(JudgeError, match="down"):
        score(metric, make_sample(), FakeJudge(fail=lambda prompt: JudgeError("down")))
