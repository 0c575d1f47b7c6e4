"""Passages of which only the ids are known: a format of traces may name documents without their texts."""

from __future__ import annotations

import asyncio

import pytest

from fake_models import FakeReader
from ragstone.metrics import ReaderMetric, all_metrics
from ragstone.schema import NotApplicable, Passage, Sample
from ragstone.testing import FakeJudge

SAMPLE = Sample(
    id="s",
    query="How tall is it?",
    contexts=(Passage(text="", id="a"), Passage(text="", id="b")),
    response="It is 31 m tall.",
    reference=("31 m",),
    qrels={"a": 1.0, "c": 1.0},
)
METRICS = {
    metric.card.name: metric
    for metric in all_metrics()
    if metric.card.extra is None and "contexts" in metric.card.needs
}


@pytest.mark.parametrize("name", METRICS)
def test_only_metrics_of_ids_score_passages_without_text(name):
    """All others say that they do not apply, and ask no one: an empty text is no evidence of anything."""
    judge, metric = FakeJudge(), METRICS[name]
    if isinstance(metric, ReaderMetric):
        metric = metric.with_reader(FakeReader())
    outcome = asyncio.run(metric.score(SAMPLE, judge))

    if metric.card.needs == ("contexts", "qrels"):
        assert not isinstance(outcome, NotApplicable)
        return
    assert isinstance(outcome, NotApplicable)
    assert "no text" in outcome.reason or outcome.missing
    assert [] == judge.prompts
