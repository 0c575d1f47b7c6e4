"""`[[sampling.rules]]` with feedback: requests are selected again when feedback arrives, with a known probability."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest

from ragstone.capture import Capture
from ragstone.requests import TraceDraft
from ragstone.schema import Captured, Feedback, SampledOut, Score
from ragstone.settings import Retention, Sampling, read_table
from ragstone.spool import SpoolReader, SpoolWriter
from ragstone.store import PlannedMetric, SqliteStore
from ragstone.worker import StepErrors
from ragstone.worker._retention import RetentionStep

T0 = 1_790_000_000.0
OTEL = "4bf92f3577b34da6a3ce929d0e0e4736"
METRIC = PlannedMetric(name="m", version="1")
RULES = {"rules": [{"feedback": "negative", "rate": 1.0, "within": "2h"}]}


def entries(directory, drafts, *, rules=RULES, sample_rate=0.1):
    """Record drafts, and return what the spool has, in their order."""
    sampling = read_table(Sampling, rules, source="test").rules
    with Capture(
        partial(SpoolWriter, directory), sample_rate=sample_rate, sampling=sampling, queue_size=9999
    ) as capture:
        for draft in drafts:
            assert capture.record(draft)
        assert capture.flush(120)
    reader = SpoolReader(directory)
    return [e for s in reader.segments() for e in reader.read(s.name, 0, max_entries=10**6).entries]


def draft(k, **fields):
    return TraceDraft(trace_id=f"t{k}", **{"started_at": T0, "query": f"q{k}", "response": "r", "app": "bot"} | fields)


def said(trace_id, value):
    return Feedback(request_id=trace_id, value=value, given_at=T0)


def score(trace_id, value):
    return Score(sample_id=trace_id, metric="m", metric_version="1", value=value, method="exact")


class Clock:
    now = T0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(tmp_path, clock):
    with SqliteStore.open(tmp_path / "a.db", mode="own", clock=clock) as store:
        store.set_plan([METRIC], [])
        yield store


def put(store, *entries):
    store.ingest("a", store.segment_offsets().get("a", 0) + 1, entries)


def score_pending(store, values):
    while traces := store.claim("w", 500, lease_s=60):
        for trace in traces:
            store.complete(trace.trace_id, [score(trace.trace_id, values[trace.trace_id])], owner="w")


def mean_of(store):
    (counts,) = store.count_outcomes()
    weights = np.array(counts.repeats) / np.array(counts.probabilities)
    return float(np.average(np.array(counts.values), weights=weights))


def rows(store, sql):
    with store._database.read() as db:
        return db.execute(sql).fetchall()


def split(found):
    """The requests that were kept, and those that were not."""
    kept = [e for e in found if isinstance(e, Captured)]
    return kept, [e for e in found if isinstance(e, SampledOut)]


def test_texts_wait_only_if_feedback_can_select_them(tmp_path):
    """With a rate of 0.5 half of the texts wait: those whose hash is below it. And only where the rule applies."""
    rules = {
        "rules": [
            {"app": "batch", "rate": 0.1},
            {"feedback": "negative", "rate": 0.5},
            {"feedback": "positive", "rate": 0.05},
        ]
    }
    kept, skipped = split(entries(tmp_path / "a", map(draft, range(2000)), rules=rules))
    waiting = [e for e in skipped if e.trace is not None]
    assert abs(len(kept) - 200) < 60
    assert abs(len(waiting) - 800) < 100
    # A lower rate than that of the first decision changes nothing.
    assert {(0.5, None, 86_400.0)} == {
        (e.after_feedback.negative, e.after_feedback.positive, e.after_feedback.wait_s) for e in [*kept, *waiting]
    }
    assert all(e.trace.query for e in waiting)
    batch = entries(tmp_path / "b", [draft(k, app="batch") for k in range(200)], rules=rules)
    assert {None} == {e.after_feedback for e in batch}
    assert {None} == {e.trace for e in split(batch)[1]}


@pytest.mark.parametrize("seed", range(3))
def test_weighted_mean_is_that_of_all_requests(tmp_path, store, seed):
    """At every moment: before feedback, in the middle of it, and after it, whenever scores and feedback arrive."""
    rng = random.Random(seed)
    n = 6000
    found = entries(tmp_path / "spool", [draft(f"{seed}-{k}", query="q") for k in range(n)])
    ids = [e.trace.trace_id if isinstance(e, Captured) else e.trace_id for e in found]
    unhappy = {id_ for id_ in ids if rng.random() < 0.2}
    values = {id_: min(max(rng.gauss(0.3 if id_ in unhappy else 0.9, 0.1), 0.0), 1.0) for id_ in ids}
    truth = sum(values.values()) / n
    feedback = [said(id_, 0.0) for id_ in sorted(unhappy)] + [said(id_, 1.0) for id_ in ids if rng.random() < 0.1]
    rng.shuffle(feedback)
    early, middle, late = feedback[:300], feedback[300:900], feedback[900:]
    # Some feedback is there before its request.
    put(store, *early, *found)
    score_pending(store, values)
    means = [mean_of(store)]
    put(store, *middle)
    means.append(mean_of(store))  # before the new ones are scored
    score_pending(store, values)
    means.append(mean_of(store))
    put(store, *late)
    score_pending(store, values)
    means.append(mean_of(store))
    # All but one moment are unbiased: there, requests that were selected again wait for their scores.
    assert all(abs(mean - truth) < 0.03 for mean in (means[0], *means[2:]))
    total = store.ledger().total
    assert total.balanced
    assert not total.pending
    assert total.scored == len(unhappy) + sum(e.trace.trace_id not in unhappy for e in split(found)[0])
    assert [] == store.recount(correct=False)
    # Every request with negative feedback has probability 1, and the others that of the first decision.
    known = store.inclusion_probabilities()
    assert not known.keys() & unhappy
    assert {0.1} == set(known.values())


def test_error_is_smaller_than_without_the_rule(tmp_path, clock):
    """What the rule is for: the scores of the requests that users complain about are all known."""
    for rules, expected in ((RULES, 400), ({"rules": [{"app": "x", "rate": 1}]}, 60)):
        directory = tmp_path / str(expected)
        with SqliteStore.open(tmp_path / f"{expected}.db", mode="own", clock=clock) as store:
            store.set_plan([METRIC], [])
            put(store, *entries(directory, map(draft, range(2000)), rules=rules))
            put(store, *(said(f"t{k}", 0.0) for k in range(0, 2000, 5)))
            score_pending(store, dict.fromkeys((f"t{k}" for k in range(2000)), 0.5))
            scored = {trace for (trace,) in rows(store, "SELECT sample_id FROM outcomes")}
        complained = sum(int(id_[1:]) % 5 == 0 for id_ in scored)
        assert complained == 400 if expected == 400 else complained < expected


def test_streams_see_what_they_would_see_without_the_rule(tmp_path, clock):
    """The queue of the monitoring is the same, row by row, so the promise about false alarms is not affected."""
    queues = []
    for name, rules in (("with", RULES), ("without", {"rules": [{"app": "x", "rate": 1}]})):
        with SqliteStore.open(tmp_path / f"{name}.db", mode="own", clock=clock) as store:
            store.set_plan([METRIC], [])
            values = {f"t{k}": k / 1000 for k in range(1000)}
            found = entries(tmp_path / name, [draft(k, session_id=f"s{k // 3}") for k in range(1000)], rules=rules)
            put(store, *found[:500])
            put(store, *(said(f"t{k}", 0.0) for k in range(0, 1000, 4)))
            score_pending(store, values)
            put(store, *found[500:])
            put(store, *(said(f"t{k}", 0.0) for k in range(1, 1000, 4)))
            with store.watching() as tables:
                closed = tables.closed_outcomes(now=T0 + 1e6, gap_s=1800, max_s=14_400)
            # Requests that feedback has selected are pending, and their sessions close nevertheless.
            assert len({o.trace_id for o in closed if o.key.metric == "m"}) > 30
            score_pending(store, values)
            queues.append(rows(store, "SELECT trace_id, metric, value, probability FROM watch_queue ORDER BY 1, 2, 3"))
            n_scored = store.ledger().total.scored
    assert queues[0] == queues[1]
    assert {0.1} == {probability for *_, probability in queues[0]}
    assert len({trace for trace, *_ in queues[0]}) == n_scored


def test_selected_request_is_as_if_it_was_captured(tmp_path, store):
    """Known by the id of OpenTelemetry too, with its text, labels and probability, and it is not selected twice."""
    (skipped,) = entries(
        tmp_path / "s", [draft(0, otel_trace_id=OTEL, session_id="s", release="7", tags=("topic:x",))], sample_rate=0.0
    )
    put(store, skipped)
    report = store.explain("t0")
    assert ("sampled_out", None) == (report.state, report.trace)
    assert [] == rows(store, "SELECT * FROM trace_bodies")
    assert [(None, None, None, OTEL)] == rows(store, "SELECT app, session_id, release, otel_trace_id FROM traces")
    put(store, said("t0", 0.9))
    assert "sampled_out" == store.explain("t0").state
    put(store, said(OTEL, 0.49))
    report = store.explain("t0")
    assert ("pending", "q0", 1.0, 1.0) == (
        report.state,
        report.trace.query,
        report.inclusion_probability,
        report.trace.inclusion_probability,
    )
    assert [("bot", "s", "7", '{"tag:topic": "x"}')] == rows(
        store, "SELECT app, session_id, release, slices FROM traces"
    )
    score_pending(store, {"t0": 0.5})
    put(store, said("t0", 0.0), skipped)
    total = store.ledger().total
    assert (1, 1, 0) == (total.captured, total.scored, total.sampled_out)
    assert [] == rows(store, "SELECT trace_id FROM watch_queue")


def test_late_feedback_changes_nothing(tmp_path, store, clock):
    """Neither of requests that wait nor of those that were kept. Their texts are removed by the worker."""
    found = entries(tmp_path / "s", [draft(k, otel_trace_id=f"{k:032x}") for k in range(300)])
    kept, skipped = split(found)
    put(store, *found)
    clock.now = T0 + 7200.5
    put(store, *(said(f"t{k}", 0.0) for k in range(300)))
    total = store.ledger().total
    assert (len(kept), len(skipped)) == (total.pending, total.sampled_out)
    assert {0.1} == set(store.inclusion_probabilities().values())
    retention = RetentionStep(Retention(), errors=StepErrors(), clock=clock)
    while retention.update(store, is_idle=True):
        pass
    assert [(0,)] == rows(store, "SELECT count(*) FROM feedback_rates")
    assert [(len(kept),)] == rows(store, "SELECT count(*) FROM traces WHERE otel_trace_id IS NOT NULL")
    assert [(len(kept),)] == rows(store, "SELECT count(*) FROM trace_bodies")


def test_retention_ends_waiting_for_all_requests_of_its_time(tmp_path, store):
    """A shorter retention removes the waiting texts, and then does not change the requests that were kept either."""
    put(store, *entries(tmp_path / "s", map(draft, range(100))))
    while store.forget_unselected(before=T0 + 1, limit=7):
        pass
    put(store, *(said(f"t{k}", 0.0) for k in range(100)))
    assert {0.1} == set(store.inclusion_probabilities().values())
    assert store.ledger().total.pending < 30


def test_damaged_text_stays_sampled_out(tmp_path, store):
    """It cannot be scored, and other requests of the batch arrive."""
    found = entries(tmp_path / "s", map(draft, range(2)), sample_rate=0.0)
    put(store, *found)
    with store._database.write() as db:
        db.execute("UPDATE feedback_rates SET body = '{' WHERE seq = 1")
    put(store, said("t0", 0.0), said("t1", 0.0))
    assert ["sampled_out", "pending"] == [store.explain(id_).state for id_ in ("t0", "t1")]


def test_waiting_texts_are_redacted(tmp_path):
    """As those of all requests."""
    (skipped,) = entries(
        tmp_path / "s", [draft(0, query="key sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD")], sample_rate=0
    )
    assert "abcdefghij" not in skipped.trace.query
