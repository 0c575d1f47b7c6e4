"""Summaries of a metric without an upper bound: honest ends, and JSON that any reader takes."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import ragstone
from ragstone.experiments import Experiment, format_table
from ragstone.judges.lexical import LexicalJudge
from ragstone.metrics import MetricCard
from ragstone.schema import Failure, Score, Usage
from summaries import summarize

CARD = MetricCard(
    name="density", title="Density", description="", low=0.0, high=math.inf, needs=(), version="1", source="", group="x"
)


def outcomes(*values: float | None):
    return [
        Failure(sample_id=str(i), metric="density", metric_version="1", kind="timeout", reason="slow")
        if value is None
        else Score(sample_id=str(i), metric="density", metric_version="1", value=value, method="exact")
        for i, value in enumerate(values)
    ]


def test_a_mean_above_1_is_no_longer_cut():
    """A density of 1.2 is possible, and its interval has both ends."""
    (summary,) = summarize(outcomes(1.2, 0.9, 1.5), [CARD])
    assert 1.2 == round(summary.estimate.value, 9)
    assert 0 <= summary.estimate.low < 1.2 < summary.estimate.high < math.inf
    assert summary.bounds == (summary.estimate.value, summary.estimate.value)


def test_a_failed_sample_may_have_any_density():
    """The mean then has a lower bound only, and the table says so in words."""
    summaries = summarize(outcomes(1.2, None), [CARD])
    assert (0.6, math.inf) == summaries[0].bounds
    table = format_table(summaries)
    assert "Depending on their scores, the mean is at least 0.600" in table
    assert "1.200 [0.000, no bound]" in table


def test_a_metric_without_a_lower_bound_is_told_from_above():
    """The same mirrored, and with neither bound nothing is known."""
    below = replace(CARD, low=-math.inf, high=0.0)
    assert "the mean is at most -0.600" in format_table(summarize(outcomes(-1.2, None), [below]))
    nowhere = replace(CARD, low=-math.inf)
    assert "the mean may be anything" in format_table(summarize(outcomes(-1.2, None), [nowhere]))


def test_a_rounding_error_beyond_the_range_is_cut():
    """A scorer accepts such values, and an interval of a mean refuses them."""
    (summary,) = summarize(outcomes(1 + 5e-10, -5e-10), [replace(CARD, high=1.0)])
    assert (0.5, (0.5, 0.5)) == (summary.estimate.value, summary.bounds)


def test_json_has_no_infinity():
    """Strict JSON readers refuse `Infinity`: no bound is null."""
    found = Experiment(
        samples=(),
        outcomes=tuple(outcomes(1.2, None)),
        cards=(CARD,),
        judge=LexicalJudge().identity,
        usage=Usage(),
        wall_s=0.0,
    ).to_dict()
    (metric,) = json.loads(json.dumps(found, allow_nan=False))["metrics"]
    assert ([0.0, None], [0.6, None], "range") == (metric["ci"], metric["bounds"], metric["method"])


def test_metrics_that_lack_the_same_share_a_line():
    """One line names the field, where it comes from, and all metrics that lack it."""
    rows: list[dict[str, object]] = [
        {"id": "1", "query": "Why?", "contexts": ["Rain."], "response": "Rain.", "sub_questions": ["What?"]}
    ]
    rows[0]["ratings"] = {"What?": {}}
    told = str(ragstone.evaluate(rows, ["exact_match", "recall@5", "crux.density", "token_f1"], judge="lexical"))
    assert "not applicable without reference: exact_match, token_f1" in told
    assert "not applicable without qrels (--qrels FILE, or in the rows): recall@5" in told
    assert "not applicable without required passages (`ragstone lab dataset build` writes them): crux.density" in told
