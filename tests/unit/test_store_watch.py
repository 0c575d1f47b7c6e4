"""The monitoring in a store: what `complete` queues, folds in one transaction, alarms with their deliveries."""

from __future__ import annotations

import dataclasses
import random
import re
from datetime import datetime
from pathlib import Path

import pytest

from completions import complete
from ragstone.metrics import resolve_metrics
from ragstone.schema import Captured, Failure, NotApplicable, Retrieval, Score, Trace
from ragstone.settings import Watch
from ragstone.store import CanaryScore, PlannedMetric, SqliteStore, StreamKey, Unit, WatchedOutcome, open_store
from ragstone.watch import AlarmRequest
from ragstone.worker import StepErrors
from ragstone.worker._watching import StreamWatcher
from watch_tables import KEY, MemoryTables
from watched_store import DAY_S, METRIC, fill, fold_at, fold_in_parts, make, requests, snapshot

T0 = 1_790_000_000.0


@pytest.fixture
def store(tmp_path: Path):
    with SqliteStore.open(tmp_path / "store.db", mode="own", clock=lambda: T0) as store:
        yield store


def queued_in(tables):
    return tables.queue.closed_outcomes(now=1e12, gap_s=0.0, max_s=0.0)


def queued(store):
    with store.watch.read() as tables:
        return queued_in(tables)


def test_complete_queues_scores_and_failures(store):
    """Neither what does not apply nor what the budget prevented counts, and each outcome is queued once."""
    store.plan.set([PlannedMetric(name=name, version="1") for name in "abcd"], [])
    trace = Trace(
        trace_id="t", started_at=5.0, session_id="s", app="bot", release="7", name="chat", inclusion_probability=0.25
    )
    store.traces.ingest("x", 1, [Captured(trace=trace)])
    about = {"sample_id": "t", "metric_version": "1"}
    first = Score(metric="a", value=0.5, method="exact", **about)
    complete(store, "t", [first])
    assert [] == queued(store), "the trace is pending"
    complete(
        store,
        "t",
        [
            first,
            Failure(metric="b", kind="timeout", reason="slow", **about),
            NotApplicable(metric="c", reason="no reference", **about),
            Failure(metric="d", kind="budget", reason="spent", **about),
        ],
    )
    assert [("a", 0.5), ("b", None)] == [(o.key.metric, o.value) for o in queued(store)]
    one = queued(store)[0]
    assert ("bot", "s", 5.0, 0.25) == (one.key.app, one.session, one.requested_at, one.probability)
    assert {"release": "7", "operation": "chat"} == dict(one.labels)


def test_the_last_unit_of_a_session_is_the_latest(store):
    """Of several units of a session, also if an earlier one was stored later, and of the units since a time only."""
    numbers = {"weight": 1.0, "failed_weight": 0.0, "p_min": 1.0, "worst_trace": "t"}
    units = [(KEY, Unit(session="s", closed_at=at, value=0.5, **numbers)) for at in (100.0, 300.0, 200.0)]
    with store.watch.change() as tables:
        tables.add_units(units)

    with store.watch.read() as tables:
        last, later = (tables.last_units(["s", "other"], since=since) for since in (150.0, 301.0))
    assert ({(KEY, "s"): 300.0}, {}) == (last, later)


def test_units_are_kept_for_100_days_before_the_latest_one(store):
    """Also if old ones arrive together with it, as after a backfill of months."""
    numbers = {"weight": 1.0, "failed_weight": 0.0, "p_min": 1.0, "worst_trace": "t"}
    with store.watch.change() as tables:
        tables.add_units(
            [(KEY, Unit(session="s", closed_at=day * DAY_S, value=0.5, **numbers)) for day in (0.5, 1.5, 101.0)]
        )

    with store.watch.read() as tables:
        days = [each.closed_at / DAY_S for each in tables.units(KEY, since=0.0, until=T0)]
    assert [1.5, 101.0] == days


def test_scores_of_canaries_are_kept_from_a_time_on(store):
    """Those of that time are kept, and earlier ones are removed."""
    scores = [CanaryScore(key=KEY, trace_id="t", scored_at=at, value=0.5) for at in (1.0, 2.0, 3.0)]
    with store.watch.change() as tables:
        tables.canaries.add_scores(scores, keep_since=2.0)

    with store.watch.read() as tables:
        times = [each.scored_at for each in tables.canaries.scores(KEY)]
    assert [2.0, 3.0] == times


def test_canaries_are_requests_that_were_scored_completely(store):
    """With a score of a judge. One whose other metric failed may fail each day, and would say nothing about the judge."""
    judged, plain = PlannedMetric(name="a", version="1", judge_hash="j"), PlannedMetric(name="b", version="1")
    store.plan.set([judged, plain], [])
    store.traces.ingest(
        "x", 1, [Captured(trace=Trace(trace_id=id_, started_at=5.0)) for id_ in ("good", "failed", "plain")]
    )
    for id_ in ("good", "failed", "plain"):
        of_judge = {"sample_id": id_, "metric": "a", "metric_version": "1", "judge_hash": "j"}
        of_plain = {"sample_id": id_, "metric": "b", "metric_version": "1"}
        outcomes = [
            NotApplicable(reason="no answer", **of_judge)
            if id_ == "plain"
            else Score(value=0.5, method="x", **of_judge),
            Failure(kind="bug", reason="?", **of_plain)
            if id_ == "failed"
            else Score(value=0.5, method="x", **of_plain),
        ]
        complete(store, id_, outcomes)

    with store.watch.read() as tables:
        suitable, later = (tables.canaries.suitable(9, since=since) for since in (5.0, 5.1))
    assert (["good"], []) == (suitable, later)


def test_a_session_with_a_pending_trace_waits(store):
    """A session is closed only if none of its traces is pending, and another one does not wait for it."""
    store.plan.set([PlannedMetric(name="a", version="1")], [])
    store.plan.set([PlannedMetric(name="a", version="1"), PlannedMetric(name="b", version="1")], [])
    store.traces.ingest("y", 1, [Captured(trace=Trace(trace_id="alone", started_at=5.0))])
    complete(store, "alone", [Score(sample_id="alone", metric="a", metric_version="1", value=0.5, method="x")])
    assert [] == queued(store), "a request without a session is pending"
    store.plan.set([PlannedMetric(name="a", version="1")], [])
    complete(store, "alone", [])
    assert ["alone"] == [o.trace_id for o in queued(store)]
    with store.watch.change() as tables:
        tables.queue.remove([o.seq for o in queued_in(tables)])
    traces = [("t1", "s"), ("t2", "s"), ("t3", "other"), ("t4", None)]
    store.traces.ingest("x", 1, [Captured(trace=Trace(trace_id=t, started_at=5.0, session_id=s)) for t, s in traces])
    for trace_id in ("t1", "t3", "t4"):
        complete(store, trace_id, [Score(sample_id=trace_id, metric="a", metric_version="1", value=0.5, method="x")])
    assert ["t3", "t4"] == [o.trace_id for o in queued(store)]
    assert ["other", "t4"] == [o.session for o in queued(store)]
    complete(store, "t2", [Score(sample_id="t2", metric="a", metric_version="1", value=0.5, method="x")])
    assert {"t1", "t2", "t3", "t4"} == {o.trace_id for o in queued(store)}


@pytest.mark.parametrize(("now", "closed"), [(90.0, 0), (120.0, 12), (1000.0, 20)])
def test_a_session_that_goes_on_is_closed_at_its_longest_time(store, now, closed):
    """A request every ten seconds: without a gap, the session has a closed part only after 100 s, and later as a whole."""
    store.plan.set([PlannedMetric(name="a", version="1")], [])
    times = {f"t{i}": 10.0 * (i + 1) for i in range(20)}
    captured = [Captured(trace=Trace(trace_id=t, started_at=at, session_id="s")) for t, at in times.items()]
    store.traces.ingest("x", 1, captured)
    for trace_id in times:
        complete(store, trace_id, [Score(sample_id=trace_id, metric="a", metric_version="1", value=0.5, method="x")])
    with store.watch.read() as tables:
        found = tables.queue.closed_outcomes(now=now, gap_s=30.0, max_s=100.0)
    assert list(times)[:closed] == [outcome.trace_id for outcome in found]


def test_folds_at_any_time_give_equal_states(tmp_path):
    """One fold, or one every six hours with the store closed in between: streams, budget and alarms are equal."""
    once = SqliteStore.open(make(tmp_path / "once.db", T0), mode="read")
    often = SqliteStore.open(make(tmp_path / "often.db", T0, folds=[i / 4 for i in range(1, 47)]), mode="read")
    with once, often:
        assert snapshot(once) == snapshot(often)
        rows, budget, alarms = snapshot(once)
    assert ["score", "failures"] == [row.kind for row in rows]
    assert 1.0 == budget["per_quarter"]
    assert ["release=2.4.1"] == [s["name"] for s in alarms[0].body["slices"]]
    assert alarms[0].body["since"] == pytest.approx(T0 + 9 * DAY_S, abs=3600.0)


def test_a_fold_that_fails_changes_nothing(store, monkeypatch):
    """All of a fold is stored or nothing: the queue keeps its rows."""
    fill(store, T0, days=1)
    n = len(queued(store))
    monkeypatch.setattr("ragstone.watch._fold._Fold.save", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fold_at(store, T0 + 2 * DAY_S)
    assert n == len(queued(store)) > 100
    assert ([], None, []) == snapshot(store)
    monkeypatch.undo()
    assert n == fold_at(store, T0 + 2 * DAY_S).n_outcomes
    assert 0 == fold_at(store, T0 + 2 * DAY_S).n_outcomes


def test_an_alarm_is_queued_once_for_each_destination(tmp_path):
    """Deliveries share the queue of outcomes; their id is that of the event, also after a second fold."""
    path = make(tmp_path / "a.db", T0, folds=[11.5, 12.0], notify=["slack:x", "webhook:y"])
    with SqliteStore.open(path, mode="own") as store:
        due = store.deliveries.due_alarms("slack:x", limit=9)
        assert ["1:alarm", "1:follow_up"] == [d.id for d in due][:2]
        assert 1 == due[0].alarm["number"]
        assert [d.id for d in due] == [d.id for d in store.deliveries.due_alarms("webhook:y", limit=9)]
        assert [] == store.deliveries.due("slack:x", limit=9)
        store.deliveries.mark("slack:x", ["1:alarm"], "sent", kind="alarm")
        assert "1:alarm" not in [d.id for d in store.deliveries.due_alarms("slack:x", limit=9)]
        store.deliveries.mark("slack:x", ["1:follow_up"], "failed", error="gone", kind="alarm")
        with store.watch.change(notify=["slack:x"]) as tables:
            tables.save_alarm(tables.alarms()[0], event="alarm")
        counts = store.ledger().outbox["slack:x"]
        assert (1, 1) == (counts.sent, counts.failed)


def test_streams_learn_from_a_backfill_that_has_ended(store):
    """Once, and not while it runs."""
    progress = {"id": "b", "since": T0, "metrics": [], "state": "running", "started_at": T0}
    store.outcomes.save_backfill(progress)
    with store.watch.change() as tables:
        assert [] == tables.ended_backfills()
    store.outcomes.save_backfill(progress | {"state": "done"})
    with store.watch.change() as tables:
        assert ["b"] == [ended.id for ended in tables.ended_backfills()]
        tables.mark_learned("b")
        assert [] == tables.ended_backfills()


def test_old_units_are_deleted(store):
    """Units of more than 100 days ago go with the next fold of their stream."""
    fill(store, T0, days=1)
    fold_at(store, T0 + 2 * DAY_S)
    fill_later = list(requests(T0 + 150 * DAY_S, days=0.1, app="qa-bot", seed=2))
    store.traces.ingest(
        "later",
        1,
        [Captured(trace=trace.model_copy(update={"trace_id": f"x{trace.trace_id}"})) for trace, _ in fill_later],
    )
    for trace, outcome in fill_later:
        complete(store, f"x{trace.trace_id}", [outcome.model_copy(update={"sample_id": f"x{trace.trace_id}"})])
    fold_at(store, T0 + 152 * DAY_S)
    with store.watch.read() as tables:
        (key,) = {row.key for row in tables.streams()}
        units = tables.units(key, since=0.0, until=1e12)
        assert 12 == len(units)
        assert [unit.amounts for unit in units] == tables.unit_amounts(key, 0.0, 1e12)
        assert [unit.amounts for unit in units[:5]] == tables.unit_amounts(key, 0.0, 1e12, limit=5)
        assert [units[3].amounts] == tables.unit_amounts(key, units[3].closed_at, units[3].closed_at)


def test_ten_thousand_outcomes_are_folded_in_reasonable_time(store):
    """A fold reads the queue with few statements: not one for each unit."""
    fill(store, T0, days=2, per_day=600)
    statements = []
    store._database._connection.set_trace_callback(statements.append)
    fold_at(store, T0 + 3 * DAY_S)
    store._database._connection.set_trace_callback(None)
    reads = [s for s in statements if s.lstrip().startswith("SELECT")]
    assert len(reads) < 30


def test_tags_retriever_and_language_are_slices(store):
    """Tags with and without a value, the first of two, the first named retrieval; other markup stays in the value."""
    store.plan.set([PlannedMetric(name="a", version="1")], [])
    tags = (
        "topic:billing",
        "topic:other",
        "beta",
        "language=de",
        "url:http://x?a=b",
        ":odd",
        f"long:{'x' * 300}",
        "y" * 300,
    )
    named = [Retrieval(), Retrieval(name="faiss"), Retrieval(name="web")]
    trace = Trace(trace_id="t", started_at=5.0, tags=tags, retrievals=named)
    many = Trace(trace_id="m", started_at=5.0, tags=tuple(f"t{i}:1" for i in range(99)))
    store.traces.ingest("x", 1, [Captured(trace=trace), Captured(trace=many)])
    for name in "tm":
        complete(store, name, [Score(sample_id=name, metric="a", metric_version="1", value=0.5, method="exact")])
    one, other = queued(store)
    assert {
        "tag:topic": "billing", "tag:beta": "yes", "tag:language": "de", "language": "de", "tag:url": "http://x?a=b",
        "tag::odd": "yes", "tag:long": "x" * 100, "retriever": "faiss",
    } == dict(one.labels)  # fmt: skip
    assert len(other.labels) == 28


def test_a_part_of_a_queue_ends_after_the_part_before(store):
    """Also if more outcomes than the limit have the time at which that part ended."""
    store.plan.set([PlannedMetric(name="a", version="1")], [])
    traces = [Trace(trace_id=f"t{n}", started_at=at) for n, at in enumerate((1.0, 1.0, 2.0))]
    store.traces.ingest("x", 1, [Captured(trace=trace) for trace in traces])
    for name in ("t0", "t1", "t2"):
        complete(store, name, [Score(sample_id=name, metric="a", metric_version="1", value=0.5, method="exact")])
    with store.watch.read() as tables:
        assert [1.0, 1.0, 2.0, None] == [tables.queue.time(n) for n in range(4)]
        assert [2.0, None] == [tables.queue.time(n, after=1.0) for n in range(2)]


def test_units_keep_the_slices_of_the_options(tmp_path):
    """Only values by which alarms are divided are stored with a unit."""
    path = make(tmp_path / "a.db", T0, days=1, bad_from=9.0, folds=(2.0,))
    with open_store(path, mode="read") as store, store.watch.read() as tables:
        (key,) = {row.key for row in tables.streams()}
        labels = tables.units(key, since=0.0, until=1e12)[0].labels
    assert {"release": "2.4.0", "operation": "chat", "tag:topic": "billing"} == dict(labels)


class TestLargeQueue:
    """After a long stop, the queue is folded in parts that are transactions of their own."""

    @pytest.mark.parametrize("limit", [1, 7, 100])
    def test_parts_equal_the_whole(self, tmp_path, limit):
        """Streams, budget, alarms and their deliveries, bit for bit. A part exceeds its limit by sessions of one gap."""
        stores = []
        for name, days in (("whole", {"folds": (30,)}), ("parts", {"folds": ()})):
            make(tmp_path / f"{name}.db", T0, notify=["slack:x"], **days)
            stores.append(SqliteStore.open(tmp_path / f"{name}.db", mode="own", clock=lambda: T0))
        whole, parts = stores
        results = fold_in_parts(parts, T0 + 30 * DAY_S, limit=limit, notify=["slack:x"])
        assert max(result.n_outcomes for result in results) <= limit + 4
        assert [] == queued(parts)
        assert snapshot(whole) == snapshot(parts)
        assert snapshot(parts)[2]
        events = [[d.id for d in store.deliveries.due_alarms("slack:x", limit=99)] for store in stores]
        assert events[0] == events[1] != []
        for store in stores:
            store.close()

    def test_session_that_waits_does_not_stop_the_rest(self, store):
        """The oldest outcomes belong to a session with a pending request: the next parts continue after them."""
        fill(store, T0, days=2)
        waiting = [Trace(trace_id=f"w{i}", started_at=T0 + i, session_id="s", app="bot") for i in range(30)]
        store.traces.ingest("x", 1, [Captured(trace=trace) for trace in waiting])
        about = {"metric": METRIC, "metric_version": "1", "judge_hash": "j1", "value": 0.5, "method": "exact"}
        for trace in waiting[:-1]:
            complete(store, trace.trace_id, [Score(sample_id=trace.trace_id, **about)])
        results = fold_in_parts(store, T0 + 9 * DAY_S, limit=10)
        assert 240 == sum(result.n_outcomes for result in results)
        complete(store, "w29", [Score(sample_id="w29", **about)])
        assert 30 == sum(result.n_outcomes for result in fold_in_parts(store, T0 + 9 * DAY_S, limit=10))

    def test_worker_continues_at_once(self, tmp_path, monkeypatch):
        """One part in each turn, without waiting ten seconds between them."""
        monkeypatch.setattr("ragstone.worker._watching._FOLDED_OUTCOMES", 100)
        make(tmp_path / "a.db", T0, folds=())
        watcher = StreamWatcher(
            tmp_path / "a.db",
            resolve_metrics(METRIC),
            Watch(),
            requests=tmp_path / "r",
            errors=StepErrors(),
            clock=lambda: T0 + 30 * DAY_S,
        )
        with SqliteStore.open(tmp_path / "a.db", mode="own", clock=lambda: T0) as store:
            n = 0
            while watcher.update(store):
                n += 1
            assert 14 == n
            assert [] == queued(store)
            assert snapshot(store)[2]


def test_streams_are_published_with_the_last_day_and_their_own_alarms(tmp_path):
    """An alarm that was accepted is counted, and not open. Streams without sessions for a week are left out."""
    make(tmp_path / "a.db", T0)
    now = T0 + 11.5 * DAY_S
    watcher = StreamWatcher(
        tmp_path / "a.db",
        resolve_metrics(METRIC),
        Watch(),
        requests=tmp_path / "r",
        errors=StepErrors(),
        clock=lambda: now,
    )
    with SqliteStore.open(tmp_path / "a.db", mode="own", clock=lambda: now) as store:
        score, failures = watcher.statuses(store)
        with store.watch.change() as tables:
            (alarm,) = tables.alarms()
            values = [
                unit.value
                for unit in tables.units(StreamKey("qa-bot", METRIC, "1", "j1"), since=now - DAY_S, until=now)
            ]
            AlarmRequest(action="accept", number=alarm.number).apply(tables, now=now)
        accepted, _ = watcher.statuses(store)
        now += 7 * DAY_S
        assert [] == watcher.statuses(store)
        now -= 7 * DAY_S
        with store.watch.change() as tables:
            tables.save_alarm(dataclasses.replace(alarm, number=2))
            for row in tables.streams():
                newer = row.key._replace(judge_hash="a0"), row.state | {"last_at": now, "baseline": None}
                tables.save_stream(dataclasses.replace(row, key=newer[0], state=newer[1]))
        both, _ = watcher.statuses(store)
        assert (None, True, 2) == (both.mean, both.has_alarm, both.n_alarms)
    scores = [value for value in values if value is not None]
    assert 50 < len(scores) < 120
    assert sum(scores) / len(scores) == pytest.approx(score.mean)
    assert [("score", True, 1), ("failures", False, 0), ("score", False, 1)] == [
        (status.kind, status.has_alarm, status.n_alarms) for status in (score, failures, accepted)
    ]


def test_closed_outcomes_are_those_of_the_reference(store):
    """Sessions that return, never end, or have pending requests: the statement finds what a few lines of Python find."""
    rng = random.Random(8)
    gaps = [1.0, 1799.0, 1800.0, 3000.0, 9000.0, 20_000.0]
    traces = []
    for i in range(40):
        at = T0 + rng.uniform(0, 50_000)
        for j in range(rng.randint(1, 12)):
            at += rng.choice(gaps) if j else 0.0
            session = f"s{i}" if i % 4 else None
            traces.append(Trace(trace_id=f"{i}-{j}", started_at=at, session_id=session, app="ab"[i % 2]))
    rng.shuffle(traces)
    store.plan.set([PlannedMetric(name="a", version="1")], [])
    store.traces.ingest("x", 1, [Captured(trace=trace) for trace in traces])
    key, reference = StreamKey("", "a", "1", ""), MemoryTables()
    for trace in traces:
        if rng.random() < 0.1:
            if trace.session_id is not None:
                first = reference.queue.pending.get(trace.session_id, trace.started_at)
                reference.queue.pending[trace.session_id] = min(first, trace.started_at)
            continue
        outcome = Score(sample_id=trace.trace_id, metric="a", metric_version="1", value=0.5, method="x")
        complete(store, trace.trace_id, [outcome])
        named = trace.session_id or trace.trace_id
        about = {"trace_id": trace.trace_id, "session": named, "requested_at": trace.started_at, "value": 0.5}
        reference.put(WatchedOutcome(key=key._replace(app=trace.app), **about))
    n = []
    for now in (T0 + 1000.0 * k for k in range(0, 160, 5)):
        options = {"now": now, "gap_s": 1800.0, "max_s": 14_400.0}
        with store.watch.read() as tables:
            found, expected = tables.queue.closed_outcomes(**options), reference.queue.closed_outcomes(**options)
            assert [(o.trace_id, o.pending_at) for o in found] == [(o.trace_id, o.pending_at) for o in expected]
            assert found[:7] == tables.queue.closed_outcomes(**options, limit=7)
        n.append(len(found))
    assert n[0] == 0 < n[10] < n[-1]


@pytest.mark.parametrize(
    ("store", "shown"), [("a b/ragstone.db", "'a b/ragstone.db'"), ("postgresql://u:secret@h/d", "postgresql://h/d")]
)
def test_message_names_the_store_and_the_time_zone(tmp_path, store, shown):
    """A reader on another machine can run its command, and knows what its times mean. A URL can have a password."""
    options = Watch(notify=("slack:http://127.0.0.1:9/services/x",))
    watcher = StreamWatcher(
        store, resolve_metrics(METRIC), options, requests=tmp_path / "r", errors=StepErrors(), clock=lambda: T0
    )
    with open_store(make(tmp_path / "a.db", T0, notify=["slack:x"]), mode="read") as opened:
        text = watcher._render(opened.deliveries.due_alarms("slack:x", limit=1)[0])
    zone = datetime.fromtimestamp(T0).astimezone().tzname()
    assert f"ragstone traces {shown} --alarm 1 " in text
    assert re.search(rf"^since +\w+ \d+ \w+ \d\d:\d\d {re.escape(zone)} \(95%", text, re.MULTILINE)
    assert "secret" not in text
