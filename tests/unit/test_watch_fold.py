"""Folding: each outcome once, in the order of closing, whenever a fold runs; alarms with their events."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from ragstone.errors import ConfigurationError
from ragstone.settings import Watch, read_table
from ragstone.store import StreamKey, WatchedOutcome
from ragstone.watch import render_alarm
from ragstone.watch._alarm import Alarm
from ragstone.watch._fold import accept_alarm, fold, mute_alarm, open_alarms, read_streams
from ragstone.watch._options import Scale, check_targets
from watch_tables import DAY_S, KEY, MemoryTables, sessions

SCALES = {"ccrs.qr": Scale(low=0.0, high=1.0)}
OPTIONS = Watch(slices=("release", "operation"))
T0 = 1_790_000_000.0


def labels(i):
    return {"release": "2.4.1" if i % 3 == 0 else "2.4.0", "operation": "chat" if i % 2 else "search"}


def traffic(days=(0, 12), **options):
    return sessions(days, per_day=250, start=T0, labels=labels, **{"drop": [(9, 0.4, "2.4.1")], **options})


def folded(outcomes, times, *, options=OPTIONS):
    """Queue outcomes as time passes, and fold at these times."""
    tables, waiting = MemoryTables(), sorted(outcomes, key=lambda o: o.requested_at)
    for now in times:
        n = sum(o.requested_at <= now for o in waiting)
        tables.put(*waiting[:n])
        del waiting[:n]
        fold(tables, now=now, options=options, scales=SCALES)
    return tables


def snapshot(tables):
    return {name: row.state for name, row in tables.rows.items()}, tables.spent, [r.body for r in tables.kept.values()]


def test_times_of_folds_do_not_matter():
    """One fold at the end, every two hours, or at random: streams, budget and alarms are equal bit for bit."""
    outcomes, end = traffic(), T0 + 13 * DAY_S
    once = folded(outcomes, [end])
    hourly = folded(outcomes, [T0 + 7200.0 * i for i in range(1, 157)])
    rng = random.Random(3)
    random_times = folded(outcomes, [*sorted(rng.uniform(T0, end) for _ in range(40)), end])
    assert snapshot(once) == snapshot(hourly) == snapshot(random_times)
    assert [("alarm", 1)] == once.events[:1]
    assert [] == once.queue == hourly.queue


def returning(seed, *, days=9.0):
    """Outcomes of sessions that pause for minutes, hours or days, or never, and requests without a session."""
    rng = random.Random(seed)
    found = []
    for i in range(30):
        at = T0 + rng.uniform(0, days) * DAY_S
        for j in range(rng.randint(1, 40)):
            at += rng.choice([1.0, 60.0, 1799.0, 1800.0, 3000.0, 9000.0, 20_000.0]) if j else 0.0
            session = f"s{i}" if i % 5 else f"s{i}-{j}"
            found.append(
                WatchedOutcome(
                    key=KEY,
                    trace_id=f"{i}-{j}",
                    session=session,
                    requested_at=at,
                    value=rng.choice([0.0, 0.5, 1.0, None]),
                )
            )
    return found


@pytest.mark.parametrize("seed", range(3))
def test_parts_of_a_large_queue_are_one_fold(seed):
    """Sessions that return, requests at equal times and parts that end anywhere: equal streams, budget, units and alarms."""
    outcomes, end = returning(seed), T0 + 40 * DAY_S
    options = Watch(targets={"ccrs.qr": 0.7})
    once = folded(outcomes, [end], options=options)
    for limit in (1, 30, 400):
        parts, after, n = MemoryTables(), None, 0
        parts.put(*random.Random(seed).sample(outcomes, len(outcomes)))
        while n == 0 or after is not None:
            # A worker that was killed begins at the start of the queue again.
            after = None if n in (3, 17) else after
            after = fold(parts, now=end, options=options, scales=SCALES, limit=limit, after=after).more_after
            n += 1
        assert snapshot(once) == snapshot(parts)
        assert once.stored == parts.stored
        assert [] == parts.queue
    assert once.events


@pytest.mark.parametrize("n_open", [100, 1_000])
def test_queue_of_open_sessions_is_not_divided(n_open):
    """More outcomes of open sessions than the limit are one part, and are not read as many. Nor are ten times as many."""
    tables = MemoryTables()
    tables.put(
        *sessions((0, 0.01), per_day=100 * n_open, size=1, start=T0), *sessions((-1, -0.99), per_day=500, start=T0)
    )
    result = fold(tables, now=T0 + 1000, options=OPTIONS, scales=SCALES, limit=20)
    assert (10, None) == (result.n_outcomes, result.more_after)
    assert len(tables.queue) == n_open


def test_a_backlog_is_never_read_as_a_whole(monkeypatch):
    """Not even to find out whether it needs parts: that took four seconds for a million outcomes."""
    tables, read = MemoryTables(), []
    find = tables.queue.closed_outcomes
    monkeypatch.setattr(tables.queue, "closed_outcomes", lambda **asked: read.append(asked["now"]) or find(**asked))
    tables.put(*sessions((0, 4), per_day=100, size=1, start=T0))
    after = None
    while read == [] or after is not None:
        after = fold(tables, now=T0 + 5 * DAY_S, options=OPTIONS, scales=SCALES, limit=30, after=after).more_after
    assert [] == tables.queue
    steps = [later - sooner for sooner, later in itertools.pairwise([T0, *read[:-1]])]
    assert len(steps) >= 12
    assert max(steps) <= 0.32 * DAY_S


def test_session_that_never_ends_is_divided():
    """All traffic has one session id, and its last request is always pending: each four hours are a unit."""
    tables, n = MemoryTables(), 0
    for minute in range(0, 24 * 60, 10):
        at = T0 + 60.0 * minute
        tables.queue.pending = {"default": at}
        n += fold(tables, now=at, options=OPTIONS, scales=SCALES).n_units
        tables.put(WatchedOutcome(key=KEY, trace_id=str(minute), session="default", requested_at=at, value=1.0))
    assert 5 == n == len(tables.stored)
    assert len(tables.queue) == 24


def test_what_came_before_a_pending_request_is_closed():
    """A pending request belongs to the open part of its session, or to an earlier one, which waits."""
    at = [T0, T0 + 60, T0 + 7200, T0 + 14_000]
    tables = MemoryTables()
    tables.put(*(WatchedOutcome(key=KEY, trace_id=str(t), session="s", requested_at=t, value=0.5) for t in at))
    for pending_at, n_units in ((T0 + 1000, 0), (T0 + 1860, 1), (T0 + 8000, 1), (T0 + 9000, 2)):
        trial = tables.copy()
        trial.queue.pending = {"s": pending_at}
        assert n_units == fold(trial, now=T0 + DAY_S, options=OPTIONS, scales=SCALES).n_units


def test_clock_that_was_ahead():
    """An hour in which the clock was a year ahead does not stop alarms for a year, and not the learning of a new stream."""
    other = StreamKey("other", "ccrs.qr", "1", "judge-1")
    tables, year = MemoryTables(), 365 * DAY_S
    tables.put(*traffic(days=(0, 8), drop=()))
    fold(tables, now=T0 + 8.1 * DAY_S, options=OPTIONS, scales=SCALES)
    for key in (KEY, other):
        at = T0 + 8.1 * DAY_S + year
        tables.put(WatchedOutcome(key=key, trace_id=f"bad-{key.app}", session="bad", requested_at=at, value=0.9))
    fold(tables, now=T0 + 8.2 * DAY_S + year, options=OPTIONS, scales=SCALES)
    for days in ((8.2, 8.3), (8.3, 18)):
        tables.put(*traffic(days=days), *sessions(days, per_day=250, start=T0, key=other, seed=4))
        fold(tables, now=T0 + (days[1] + 0.1) * DAY_S, options=OPTIONS, scales=SCALES)
    fold(tables, now=T0 + 19 * DAY_S, options=OPTIONS, scales=SCALES)
    assert ["qa-bot"] == [alarm.key.app for alarm in open_alarms(tables) if alarm.kind == "score"]
    phases = {stream.key.app: stream.phase for stream in read_streams(tables) if stream.kind == "score"}
    assert {"qa-bot": "alarm", "other": "watching"} == phases


def test_alarm_says_since_when_how_large_and_where():
    """The planted drop of one release is dated, sized and named, with traces of that release."""
    tables = folded(traffic(), [T0 + 13 * DAY_S])
    alarm = open_alarms(tables)[0]
    assert (1, "score", "open") == (alarm.number, alarm.kind, alarm.state)
    assert alarm.since_first <= T0 + 9 * DAY_S <= alarm.since_last + 600.0
    assert ["release=2.4.1"] == [s.name for s in alarm.slices]
    assert alarm.n_slices == 4
    assert alarm.low <= 0.4 / 3 <= alarm.high
    assert 0 < len(alarm.traces) <= 10
    of_release = {o.trace_id for o in traffic() if o.labels["release"] == "2.4.1"}
    assert set(alarm.traces) <= of_release
    assert alarm.follow_up.n == 150
    assert Alarm.from_dict(json.loads(json.dumps(alarm.to_dict()))) == alarm


def test_a_missed_target_is_one_alarm_until_it_is_reached():
    """It says which mean is required, divides by slices, and a dip by chance is neither a drop nor a recovery."""
    options = Watch(targets={"ccrs.qr": 0.8}, slices=("release",))
    rng, now = random.Random(5), T0 + 21 * DAY_S

    def answers(days, share):
        at = [(days[0] + i / 50) * DAY_S for i in range(50 * (days[1] - days[0]))]
        return [
            WatchedOutcome(
                key=KEY, trace_id=str(t), session=str(t), requested_at=T0 + t, value=float(rng.random() < share), labels=labels(n),
            )
            for n, t in enumerate(at)
        ]  # fmt: skip

    tables = folded([*answers((0, 14), 0.6), *answers((14, 20), 0.9)], [now - 7 * DAY_S, now], options=options)
    assert ["alarm", "follow_up", "recovered"] == [event for event, _ in tables.events]
    (alarm,) = (Alarm.from_dict(row.body) for row in tables.alarms())
    assert alarm.closed_at > T0 + 14 * DAY_S
    assert (0.8, True) == (alarm.before, alarm.is_required)
    assert alarm.low < 0.2 < alarm.high
    assert (2, ()) == (alarm.n_slices, alarm.slices)
    assert " was 0.463" in render_alarm(alarm)
    assert ", required 0.800: a difference of about " in render_alarm(alarm)
    assert "(all sessions)" in render_alarm(alarm)


def test_a_drop_below_a_target_is_dated():
    """It is said from which mean to which one."""
    options = Watch(targets={"ccrs.qr": 0.8}, slices=())
    (alarm,) = open_alarms(folded(traffic(drop=[(9, 0.3)]), [T0 + 13 * DAY_S], options=options))
    assert alarm.since_first <= T0 + 9 * DAY_S <= alarm.since_last + 600.0
    assert " fell by about " in render_alarm(alarm)


def test_session_waits_for_its_pending_traces():
    """A session with a pending trace is not closed, and then counts whole."""
    tables = MemoryTables()
    tables.put(*sessions((0, 0.1), per_day=10, start=T0))
    tables.queue.pending = {tables.queue[0].session: T0}
    result = fold(tables, now=T0 + DAY_S, options=OPTIONS, scales=SCALES)
    assert (0, 2) == (result.n_outcomes, len(tables.queue))
    tables.queue.pending = {}
    result = fold(tables, now=T0 + DAY_S, options=OPTIONS, scales=SCALES)
    assert (2, 1) == (result.n_outcomes, result.n_units)


def test_open_session_keeps_its_rows():
    """Of a session with a pause, the closed part is folded and the open part waits."""
    tables = MemoryTables()
    at = [T0, T0 + 60, T0 + 3 * 3600, T0 + 4.4 * 3600]
    tables.put(*(WatchedOutcome(key=KEY, trace_id=str(t), session="s", requested_at=t, value=0.5) for t in at))
    fold(tables, now=T0 + 4.5 * 3600, options=OPTIONS, scales=SCALES)
    assert [T0 + 4.4 * 3600] == [o.requested_at for o in tables.queue]
    assert [False, True] == [unit.is_repeated for _, unit in tables.stored]


def test_late_request_is_repeated_for_a_day():
    """A unit of a session that had one within 24 hours is repeated, also if it comes with a later fold."""
    tables = MemoryTables()
    for day in (0.0, 0.5, 2.0):
        at = T0 + day * DAY_S
        tables.put(WatchedOutcome(key=KEY, trace_id=str(at), session="s", requested_at=at, value=0.5))
        fold(tables, now=at + 1800.0, options=OPTIONS, scales=SCALES)
    assert [False, True, False] == [unit.is_repeated for _, unit in tables.stored]
    assert {(3, 2)} == {(s.n_units, s.n_repeated) for s in read_streams(tables)}


def test_streams_are_by_application_version_and_judge():
    """A new judge starts a stream of its own, and each has one for its failures."""
    tables = MemoryTables()
    other = StreamKey("qa-bot", "ccrs.qr", "1", "judge-2")
    tables.put(*sessions((0, 8), per_day=250, start=T0), *sessions((8, 9), per_day=50, start=T0, key=other, seed=1))
    fold(tables, now=T0 + 10 * DAY_S, options=OPTIONS, scales=SCALES)
    phases = {(s.key.judge_hash, s.kind): s.phase for s in read_streams(tables)}
    assert {
        ("judge-1", "score"): "watching",
        ("judge-1", "failures"): "watching",
        ("judge-2", "score"): "learning",
        ("judge-2", "failures"): "learning",
    } == phases


def test_metric_without_finite_range_is_discarded():
    """Outcomes of metrics that cannot be watched leave the queue without a stream."""
    tables = MemoryTables()
    tables.put(*sessions((0, 1), start=T0, key=StreamKey("qa-bot", "perplexity", "1", "")))
    result = fold(tables, now=T0 + 2 * DAY_S, options=OPTIONS, scales=SCALES)
    assert (80, 0, []) == (result.n_outcomes, result.n_units, tables.queue)


def test_failures_alarm_and_do_not_alarm_quality():
    """If good answers start to fail, the failures alarm and the scores do not."""
    tables = folded(
        sessions((0, 14), per_day=400, start=T0, fail=[(0, 0.03), (9, 0.12)]), [T0 + i * DAY_S for i in range(1, 16)]
    )
    assert {"failures"} == {alarm.kind for alarm in open_alarms(tables)}
    alarm = open_alarms(tables)[0]
    assert alarm.failed == pytest.approx((0.03, 0.12), abs=0.05)


def test_accept_makes_the_change_the_new_baseline():
    """The accepted alarm is closed, and its stream learns from the change on."""
    tables = folded(traffic(drop=[(9, 0.1)]), [T0 + 12 * DAY_S])
    assert accept_alarm(tables, 7, now=T0) is None
    assert "accepted" == accept_alarm(tables, 1, now=T0 + 12 * DAY_S).state
    assert [] == open_alarms(tables)
    (stream,) = (s for s in read_streams(tables) if s.kind == "score")
    assert "learning" == stream.phase
    assert stream.learns_from == pytest.approx(T0 + 9 * DAY_S, abs=0.5 * DAY_S)


def test_muted_alarm_sends_nothing():
    """Recovery of a muted alarm is stored without a notification."""
    outcomes = traffic(days=(0, 16), drop=[(9, 0.2), (12, 0.0)])
    tables, early = MemoryTables(), [o for o in outcomes if o.requested_at < T0 + 10 * DAY_S]
    tables.put(*early)
    fold(tables, now=T0 + 10 * DAY_S, options=OPTIONS, scales=SCALES)
    assert mute_alarm(tables, 99, until=0.0) is None
    assert mute_alarm(tables, 1, until=T0 + 30 * DAY_S).is_muted(T0 + 29 * DAY_S)
    before = list(tables.events)
    tables.put(*(o for o in outcomes if o.requested_at >= T0 + 10 * DAY_S))
    fold(tables, now=T0 + 17 * DAY_S, options=OPTIONS, scales=SCALES)
    assert before == tables.events
    assert "recovered" == Alarm.from_dict(tables.alarms()[0].body).state


def test_sampling_that_changes_is_reported():
    """The alarm shows the sampling probability before and after the change."""
    first = sessions((0, 9), per_day=250, start=T0, p=0.1)
    later = sessions((9, 12), per_day=250, start=T0, p=0.5, drop=[(9, 0.2)], seed=2)
    tables = folded([*first, *later], [T0 + 13 * DAY_S])
    assert (0.1, 0.5) == open_alarms(tables)[0].rates


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"false_alarms": 1}, "'watch.false_alarms' is not a setting. Did you mean 'false_alarms_per_quarter'"),
        ({"notify": ["mail:me"]}, "notify must be slack:URL, webhook:URL, otlp or otlp:URL"),
        ({"notify": ["otlp:secret@host"]}, r"with URLs that start with https:// or http://\.$"),
        ({"targets": [1]}, "targets must be a table of numbers, .* got .1."),
        ([], "must be a table .watch., got"),
    ],
)
def test_bad_options_are_refused(table, message):
    """Each message names the key and the rule."""
    with pytest.raises(ConfigurationError, match=message):
        read_table(Watch, table, source="ragstone.toml")


@pytest.mark.parametrize(
    ("targets", "message"),
    [({"ccrs.qr": 1.0}, "strictly between 0 and 1"), ({"bleu": 0.5}, "names 'bleu'"), ({"ccrs.qr": -0.1}, "strictly")],
)
def test_targets_lie_inside_the_range(targets, message):
    """A target at the end of a range or of an unknown metric is refused."""
    with pytest.raises(ConfigurationError, match=message):
        check_targets(targets, SCALES)
    check_targets({"ccrs.qr": 0.8}, SCALES)
