"""Summaries of a metric without an upper bound: honest ends, and JSON that any reader takes."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import ragstone
from completions import complete
from ragstone.experiments import Experiment, format_table, summarize_store
from ragstone.judges.lexical import LexicalJudge
from ragstone.metrics import MetricCard
from ragstone.schema import Captured, Failure, Score, Trace, Usage
from ragstone.settings import Analysis
from ragstone.store import PlannedMetric, SqliteStore
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


def test_bounds_of_sampled_rows_are_unknown():
    """Failed rows would need their weights."""
    rows = [
        {"id": str(i), "query": "Why?", "response": "So.", "inclusion_probability": share}
        for i, share in enumerate((0.5, 1.0))
    ]
    found = ragstone.evaluate(rows, ["token_f1"])
    failed = replace(found, outcomes=tuple(outcomes(0.5, None)), cards=(replace(CARD, high=1.0),))
    assert failed.summary()[0].bounds is None
    whole = replace(failed, samples=tuple(s.model_copy(update={"metadata": {}}) for s in found.samples))
    assert (0.25, 0.75) == whole.summary()[0].bounds


def test_an_outcome_that_a_later_one_replaces_is_not_counted():
    """Neither its kind of failure, nor its judge."""
    first, second = (each[0] for each in (outcomes(None), outcomes(0.5)))
    early, late = (each.model_copy(update={"judge": name}) for each, name in ((first, "old"), (second, "new")))
    (summary,) = summarize([early, late], [CARD])
    assert ({}, ("new",), 1, 0) == (summary.failure_kinds, summary.judges, summary.n_scored, summary.n_failed)


def test_bounds_of_a_store_are_those_of_the_range_of_the_metric(tmp_path):
    """Of 0.5 and a failure between 0 and 10."""
    with SqliteStore.open(tmp_path / "s.db", mode="own") as store:
        store.plan.set([PlannedMetric("density", "1", "")], [])
        for n, outcome in enumerate(outcomes(0.5, None)):
            store.traces.ingest("s", n + 1, [Captured(trace=Trace(trace_id=str(n), started_at=0.0))])
            complete(store, str(n), [outcome])
        (summary,), _ = summarize_store(store, {"density": replace(CARD, high=10.0)}, Analysis())
    assert (1, 1, (0.25, 5.25)) == (summary.n_scored, summary.n_failed, summary.bounds)
