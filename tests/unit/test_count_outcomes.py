"""Counts of outcomes against a count of the records, one by one."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from unittest import mock

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragstone.schema import Captured, Failure, NotApplicable, Score, Trace
from ragstone.store import Completion, PlannedMetric, SqliteStore, _checksums, _metric_counts

METRICS = [PlannedMetric(name="grounded", version="1", judge_hash="j"), PlannedMetric(name="recall", version="1")]

values = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e9, max_value=1e9) | st.sampled_from(
    [0.0, -0.0, 1.0]
)
outcomes = st.one_of(values, st.sampled_from(["failure", "not applicable"]))
requests = st.lists(
    st.tuples(st.sampled_from([1.0, 0.5, 0.1]), st.lists(outcomes, min_size=2, max_size=2)), min_size=1, max_size=30
)


def record(trace_id: str, metric: PlannedMetric, what: float | str) -> Score | Failure | NotApplicable:
    """An outcome of a request."""
    about = {
        "sample_id": trace_id, "metric": metric.name, "metric_version": metric.version, "judge_hash": metric.judge_hash
    }  # fmt: skip
    if what == "failure":
        return Failure(**about, kind="bug", reason="broken")
    if what == "not applicable":
        return NotApplicable(**about, reason="no claims")
    return Score(**about, value=what, method="judged", n=1)


@settings(max_examples=30)
@given(requests=requests, is_sampled=st.booleans(), rows=st.sampled_from([1, 2, 10_000]))
def test_counts_by_value_and_by_trace_equal_a_count_of_the_records(requests, is_sampled, rows):
    """With and without sampling, on one page and on several: the same scores, probabilities, failures and traces."""
    with (
        mock.patch.object(_metric_counts, "_ROWS", rows),
        tempfile.TemporaryDirectory() as folder,
        SqliteStore.open(Path(folder) / "store.db", mode="own") as store,
    ):
        store.plan.set(METRICS, [])
        p = {f"t{i}": probability if is_sampled else 1.0 for i, (probability, _) in enumerate(requests)}
        store.traces.ingest("a", 1, [
            Captured(trace=Trace(trace_id=id_, query="q", started_at=1.0, inclusion_probability=p[id_])) for id_ in p
        ])  # fmt: skip
        store.outcomes.complete_many(
            [
                Completion(
                    trace_id=f"t{i}", outcomes=[record(f"t{i}", *pair) for pair in zip(METRICS, found, strict=True)]
                )
                for i, (_, found) in enumerate(requests)
            ]
        )
        stored = list(store.outcomes.read())
        by_value, by_trace = store.outcomes.count(), store.outcomes.count(by_trace=True)

    assert len(stored) == 2 * len(requests)
    for metric, values, traces in zip(METRICS, by_value, by_trace, strict=True):
        own = [outcome for outcome in stored if outcome.metric == metric.name]
        scores = {outcome.sample_id: outcome.value for outcome in own if isinstance(outcome, Score)}
        expected = Counter((value, p[id_]) for id_, value in scores.items())
        pairs = list(zip(values.values, values.probabilities, strict=True))
        assert expected == dict(zip(pairs, values.repeats, strict=True))
        assert len(pairs) == len(expected)
        assert [1] * len(scores) == traces.repeats.tolist()
        assert scores == dict(zip(traces.trace_ids, traces.values, strict=True))
        assert {id_: p[id_] for id_ in scores} == dict(zip(traces.trace_ids, traces.probabilities, strict=True))
        for counts in (values, traces):
            assert counts.metric == metric.name
            assert counts.n_failed == sum(isinstance(outcome, Failure) for outcome in own)
            assert counts.n_not_applicable == sum(isinstance(outcome, NotApplicable) for outcome in own)
            assert counts.is_sampled == (len({p[outcome.sample_id] for outcome in own}) > 1)


@example(scores=[(-0.0, 2), (0.0, 3), (5e-324, 1)])
@given(
    scores=st.lists(
        st.tuples(st.floats(allow_nan=False, allow_infinity=False), st.integers(min_value=1, max_value=10**6)),
        max_size=99,
    )
)
def test_many_scores_have_the_sum_of_checksums_of_single_ones(scores):
    """The sum that is computed with arrays is the sum over one score after another, also of negative zeros and tiny numbers."""
    values, repeats = [value for value, _ in scores], [n for _, n in scores]
    with mock.patch.object(_checksums, "_FEW", -1):
        found = _checksums.sum_checksums(values, repeats)
    assert found == sum(n * _checksums.sum_checksums([value], [1]) for value, n in scores)
