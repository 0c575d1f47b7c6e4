"""`fold`: moves the outcomes of closed sessions from the queue into streams, and raises, closes and follows up alarms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from ragstone.errors import DataError
from ragstone.settings import Watch
from ragstone.stats import AlarmBudget
from ragstone.store import (
    FEEDBACK_STREAM,
    AlarmRow,
    StreamKey,
    StreamKind,
    StreamRow,
    Unit,
    WatchedOutcome,
    WatchTables,
)
from ragstone.watch._alarm import Alarm, describe_alarm, follow_up, units_around
from ragstone.watch._baseline import DAY_S
from ragstone.watch._options import SESSION_MAX_S, Scale
from ragstone.watch._stream import ACTIVE_S, Event, Stream
from ragstone.watch._units import segments, to_unit

_KINDS: Final[tuple[StreamKind, ...]] = ("score", "failures")
_BACKLOG: Final = 10
"""Parts in a queue of which it is not examined first whether it needs parts: that takes time in proportion to its
length."""
_SEEN_S: Final = 28 * DAY_S
"""How long a session counts as seen before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """Result of one fold."""

    n_outcomes: int
    n_units: int
    alarms: tuple[Alarm, ...]
    """Alarms that were raised, closed or followed up."""
    more_after: float | None = None
    """If later outcomes are queued: where the next fold begins."""


def fold(
    tables: WatchTables,
    *,
    now: float,
    options: Watch,
    scales: Mapping[str, Scale],
    limit: int | None = None,
    after: float | None = None,
) -> Folded:
    """Move the outcomes of closed sessions from the queue into streams.

    Units are processed in the order in which their sessions closed, so the result does not depend on when a fold runs.
    So a part of a large queue is a fold at an earlier time. A queue is large if more outcomes than `limit` have closed.
    `now` is in Unix seconds. Outcomes of metrics without scale are discarded. A fold ends after `limit` outcomes (None:
    all), so that other transactions do not wait long. The next one then begins at `after`, where it ended.
    """
    clock, more_after = now, None
    closed = partial(tables.queue.closed_outcomes, gap_s=options.session_gap_s, max_s=SESSION_MAX_S)
    queued = None
    if (
        limit is not None
        and after is None
        and not _is_backlog(tables, _BACKLOG * limit, until=now - options.session_gap_s)
    ):
        queued = closed(now=now, limit=limit + 1)
        if len(queued) > limit:
            queued = None
    if queued is None:
        horizon = None if limit is None else tables.queue.time(limit, after=after)
        if horizon is not None and horizon < now:
            now = more_after = horizon
        queued = closed(now=now)
    # Read before their streams: what ends during this fold may have outcomes that it has not read.
    ended = {backfill.id for backfill in tables.ended_backfills()} if more_after is None else set()
    # Backfilled outcomes are for baselines, and never evidence.
    old, old_seqs = _units(tables, [o for o in queued if o.is_backfilled], now=now, options=options, scales=scales)
    units, seqs = _units(tables, [o for o in queued if not o.is_backfilled], now=now, options=options, scales=scales)
    if seqs or old_seqs:
        tables.add_units(old + units)
        tables.queue.remove(old_seqs + seqs)
    changed: list[Alarm] = []
    if units:
        run = _Fold(tables, options, scales, start=units[0][1].closed_at, clock=clock)
        for key, unit in units:
            run.add(key, unit)
        run.save()
        changed = run.changed
    if ended:
        _learn_from_backfills(tables, ended, now=now, options=options, scales=scales)
    return Folded(
        n_outcomes=len(old_seqs) + len(seqs),
        n_units=len(old) + len(units),
        alarms=tuple(changed),
        more_after=more_after,
    )


def _is_backlog(tables: WatchTables, n: int, *, until: float) -> bool:
    """Return whether more than `n` outcomes are queued whose session may have closed, without a look at the sessions."""
    at = tables.queue.time(n)
    return at is not None and at <= until


def _learn_from_backfills(
    tables: WatchTables, ended: Collection[str], *, now: float, options: Watch, scales: Mapping[str, Scale]
) -> None:
    """Let the streams of backfills that have ended learn their baselines, so that a new metric is watched at once."""
    streams = {(stream.key, stream.kind): stream for stream in read_streams(tables)}
    for backfill in [each for each in tables.ended_backfills() if each.id in ended]:
        for key in backfill.keys:
            if key.metric in scales:
                for kind in _KINDS:
                    stream = streams.setdefault((key, kind), Stream(key, kind, scales[key.metric], start=now))
                    stream.learn_from(backfill.since, now, options, partial(tables.unit_amounts, key))
                    tables.save_stream(StreamRow(key=key, kind=kind, state=stream.state()))
        tables.mark_learned(backfill.id)


def read_streams(tables: WatchTables) -> list[Stream]:
    """Return all streams."""
    return [Stream.from_state(row.key, row.kind, row.state) for row in tables.streams()]


def all_alarms(tables: WatchTables) -> list[Alarm]:
    """Return all alarms, oldest first."""
    return [Alarm.from_dict(row.body) for row in tables.alarms()]


def open_alarms(tables: WatchTables) -> list[Alarm]:
    """Return the open alarms, oldest first."""
    return [alarm for alarm in all_alarms(tables) if alarm.state == "open"]


def read_alarm(tables: WatchTables, number: int) -> Alarm:
    """Return an alarm. Raise DataError if the store does not have it."""
    alarms = all_alarms(tables)
    if (found := next((alarm for alarm in alarms if alarm.number == number), None)) is not None:
        return found
    known = {0: "no alarms so far", 1: "only alarm 1"}.get(len(alarms), f"alarms 1 to {len(alarms)}")
    raise DataError(f"alarm {number} not found. This store has {known}: ragstone watch STORE")


def accept_alarm(tables: WatchTables, number: int, *, now: float) -> Alarm | None:
    """Make the units since an alarm the new baseline of its stream. The result is None if it is not open or unknown."""
    alarms = open_alarms(tables)
    alarm = next((a for a in alarms if a.number == number), None)
    if alarm is None:
        return None
    for stream in read_streams(tables):
        if (stream.key, stream.kind) == (alarm.key, alarm.kind):
            stream.relearn(alarm.since_last)
            tables.save_stream(StreamRow(key=stream.key, kind=stream.kind, state=stream.state()))
    for other in alarms:
        if (other.key, other.kind) == (alarm.key, alarm.kind):
            save_alarm(tables, replace(other, state="accepted", closed_at=now))
    return replace(alarm, state="accepted", closed_at=now)


def mute_alarm(tables: WatchTables, number: int, *, until: float) -> Alarm | None:
    """Send no notifications about the stream of an open alarm until a time, and return the alarm, or None if not found."""
    alarm = next((a for a in open_alarms(tables) if a.number == number), None)
    if alarm is not None:
        alarm = replace(alarm, muted_until=until)
        save_alarm(tables, alarm)
    return alarm


def save_alarm(tables: WatchTables, alarm: Alarm, *, event: Event | Literal["judge"] | None = None) -> None:
    """Store an alarm, and queue an event of it for all destinations."""
    tables.save_alarm(AlarmRow(number=alarm.number, state=alarm.state, body=alarm.to_dict()), event=event)


def _units(
    tables: WatchTables, queued: Sequence[WatchedOutcome], *, now: float, options: Watch, scales: Mapping[str, Scale]
) -> tuple[list[tuple[StreamKey, Unit]], list[int]]:
    """Return the units of closed sessions in the order of closing, and the queue rows that they consume."""
    sessions: defaultdict[tuple[str, str], list[WatchedOutcome]] = defaultdict(list)
    for outcome in queued:
        sessions[outcome.key.app, outcome.session].append(outcome)
    closed: list[tuple[float, StreamKey, str, list[WatchedOutcome]]] = []
    seqs: list[int] = []
    for (_, session), outcomes in sessions.items():
        pending_at = outcomes[0].pending_at
        until = now if pending_at is None else min(now, pending_at)
        for closes_at, part in segments(outcomes, gap_s=options.session_gap_s):
            if closes_at > until:
                break
            seqs += [outcome.seq for outcome in part]
            by_stream: defaultdict[StreamKey, list[WatchedOutcome]] = defaultdict(list)
            for outcome in part:
                if outcome.key.metric in scales:
                    by_stream[outcome.key].append(outcome)
            closed += [(closes_at, key, session, rows) for key, rows in by_stream.items()]
    closed.sort(key=lambda c: c[:3])
    since = min((c[0] for c in closed), default=now) - _SEEN_S
    last = tables.last_units({c[2] for c in closed}, since=since) if closed else {}
    units = []
    for closes_at, key, session, rows in closed:
        before = last.get((key, session))
        # A late request may belong before the last unit of its session.
        gap_s = None if before is None else max(closes_at - before, 0.0)
        last[key, session] = max(closes_at, before or 0.0)
        better = scales[key.metric].higher_is_better
        unit = to_unit(rows, closed_at=closes_at, gap_s=gap_s, higher_is_better=better, slices=options.slices)
        units.append((key, unit))
    return units, seqs


class _Fold:
    """Streams, budget and alarms during one fold."""

    def __init__(
        self, tables: WatchTables, options: Watch, scales: Mapping[str, Scale], *, start: float, clock: float
    ) -> None:
        self._tables, self._options, self._scales = tables, options, scales
        self._streams = {(s.key, s.kind): s for s in read_streams(tables)}
        self._touched: set[tuple[StreamKey, StreamKind]] = set()
        self._alarms = {row.number: Alarm.from_dict(row.body) for row in tables.alarms()}
        kept = tables.budget()
        self._budget = AlarmBudget(1.0, start=start) if kept is None else AlarmBudget.from_state(kept)
        self._budget.per_quarter = options.false_alarms_per_quarter
        # If the clock was ahead for a while, nothing would be spent until it is there again, and no alarm raised.
        self._budget.put_back(clock)
        for stream in self._streams.values():
            stream.put_back(clock)
        self._last = {name: s.last_at for name, s in self._streams.items() if s.detector is not None}
        """Last unit of each stream that shares the budget."""
        self.changed: list[Alarm] = []

    def add(self, key: StreamKey, unit: Unit) -> None:
        """Add one unit to its stream of scores, if it has a score, and to its stream of failures."""
        # Feedback cannot fail.
        for kind in _KINDS[:1] if key[1:] == FEEDBACK_STREAM else _KINDS:
            name = (key, kind)
            stream = self._streams.get(name)
            if stream is None:
                stream = Stream(key, kind, self._scales[key.metric], start=unit.closed_at)
            if not stream.watches(unit):
                continue
            self._streams[name] = stream
            self._touched.add(name)
            n_active = 1 + sum(unit.closed_at - at <= ACTIVE_S for other, at in self._last.items() if other != name)
            amounts = partial(self._tables.unit_amounts, key)
            event = stream.update(unit, budget=self._budget, n_active=n_active, options=self._options, amounts=amounts)
            if stream.detector is not None:
                self._last[name] = stream.last_at
            if event is not None:
                self._on_event(event, stream, unit, partial(self._history, key))

    def save(self) -> None:
        """Store the streams that changed, and the budget."""
        for key, kind in sorted(self._touched):
            self._tables.save_stream(StreamRow(key=key, kind=kind, state=self._streams[key, kind].state()))
        self._tables.save_budget(self._budget.state())

    def _history(self, key: StreamKey, since: float, until: float) -> list[Unit]:
        return self._tables.units(key, since=since, until=until)

    def _on_event(self, event: Event, stream: Stream, unit: Unit, history: partial[list[Unit]]) -> None:
        at = unit.closed_at
        mine = [a for a in self._alarms.values() if a.state == "open" and (a.key, a.kind) == (stream.key, stream.kind)]
        if event == "alarm":
            number = max(self._alarms, default=0) + 1
            muted = max((a.muted_until or 0.0 for a in mine), default=0.0) or None
            alarm = describe_alarm(number, stream, raised_at=at, options=self._options, history=history)
            stream.open_alarm(before=alarm.before, after=alarm.after, worst=alarm.worst, options=self._options)
            changed = [replace(alarm, muted_until=muted)]
        elif event == "follow_up":
            changed = [
                follow_up(alarm, stream, units_around(alarm, stream, history, until=at), options=self._options)
                for alarm in mine[-1:]
            ]
        else:
            changed = [replace(alarm, state="recovered", closed_at=at) for alarm in mine]
        for alarm in changed:
            self._alarms[alarm.number] = alarm
            self.changed.append(alarm)
            save_alarm(self._tables, alarm, event=None if alarm.is_muted(at) else event)
