"""One table of scores: summaries, gates, comparisons and reports of the same outcomes have the same numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragstone
from ragstone.experiments import build_report, check_source
from ragstone.metrics import resolve_metrics
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.settings import Analysis
from summaries import summarize

METRICS = ("ccrs.qr", "ccrs.cc")
CARDS = [metric.card for metric in resolve_metrics(METRICS)]
AnyOutcome = Score | NotApplicable | Failure


@st.composite
def outcomes(draw: st.DrawFn) -> AnyOutcome:
    """A score, a failure with or without bounds, or a metric that does not apply."""
    shared = {
        "sample_id": f"q{draw(st.integers(0, 7))}",
        "metric": draw(st.sampled_from(METRICS)),
        "metric_version": "1",
        "judge": "j",
        "judge_hash": "h",
    }
    match draw(st.sampled_from(("score", "score", "failure", "not_applicable"))):
        case "score":
            return Score(value=draw(st.integers(0, 4)) / 4, method="x", **shared)
        case "failure":
            ends = draw(st.sampled_from((None, [0.25, 0.5], [0.0, 1.0], [0.5, 7.0], [0.75, 0.5])))
            kind = draw(st.sampled_from(("timeout", "rejected")))
            return Failure(kind=kind, reason="late", details={} if ends is None else {"bounds": ends}, **shared)
    return NotApplicable(reason="why", missing=draw(st.sampled_from(((), ("reference",)))), **shared)


@settings(max_examples=20, deadline=None)
@given(st.lists(outcomes(), min_size=1, max_size=30), st.integers(0, 10))
def test_all_views_of_the_same_outcomes_have_the_same_numbers(read: list[AnyOutcome], n_scored_more: int) -> None:
    """The last outcome of a sample and metric counts, whatever reads it, and its bounds limit the mean."""
    read += [
        Score(sample_id=f"r{i}", metric=m, metric_version="1", judge="j", judge_hash="h", value=0.5, method="x")
        for i in range(n_scored_more + 1)
        for m in METRICS
    ]
    last = {(outcome.metric, outcome.sample_id): outcome for outcome in read}
    with TemporaryDirectory() as folder:
        path = Path(folder) / "o.jsonl"
        path.write_text("".join(json.dumps(o.model_dump(mode="json")) + "\n" for o in read), encoding="utf-8")
        report = {row.name: row for row in build_report(path).metrics}
        gates = {gate.metric: gate for gate in check_source(path, dict.fromkeys(METRICS, 0.6), Analysis()).gates}
        compared = {m.metric: m for m in ragstone.compare({"a": path, "b": path}).metrics}
    for summary in summarize(last.values(), CARDS):
        row, gate, comparison = report[summary.metric], gates[summary.metric], compared[summary.metric]
        (first, second), (pair,) = comparison.systems, comparison.pairs
        own = [outcome for (metric, _), outcome in last.items() if metric == summary.metric]
        scores = [outcome.value for outcome in own if isinstance(outcome, Score)]
        counts = [len(scores), sum(isinstance(o, Failure) for o in own), sum(isinstance(o, NotApplicable) for o in own)]
        for found in (summary, row, gate, first, second):
            assert counts == [found.n_scored, found.n_failed, found.n_not_applicable]
        mean = math.fsum(scores) / len(scores)
        assert mean == pytest.approx(gate.mean)
        for estimate in (summary.estimate, row.estimate, first.estimate):
            assert estimate == summary.estimate
            assert mean == pytest.approx(estimate.value)
        lowest, highest = ([_end(outcome, side) for outcome in own] for side in (0, 1))
        known = [(low, high) for low, high in zip(lowest, highest, strict=True) if low is not None]
        bounds = [math.fsum(ends) / len(known) for ends in zip(*known, strict=True)]
        assert bounds == pytest.approx(summary.bounds)
        assert (row.bounds is None) == (counts[1] == 0)
        assert gate.low <= bounds[0] + 1e-9
        assert gate.high >= bounds[1] - 1e-9
        # A system is compared with itself: a failed sample may have had any two of its scores.
        width = [high - low for low, high in known]
        assert (counts[1], 0.0) == (pair.n_failed, pair.difference)
        assert pair.bounds == pytest.approx((-math.fsum(width) / len(known), math.fsum(width) / len(known)))


def _end(outcome: AnyOutcome, side: int) -> float | None:
    if isinstance(outcome, Score):
        return outcome.value
    if isinstance(outcome, NotApplicable):
        return None
    low, high = outcome.details.get("bounds", (0.0, 1.0))
    return (low, high)[side] if 0 <= low <= high <= 1 else (0.0, 1.0)[side]
