"""`WatchTables` in memory, and traffic of sessions for it."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import numpy as np

from ragstone.store import AlarmRow, StreamKey, StreamRow, WatchedOutcome, WatchTables

DAY_S = 86_400.0
KEY = StreamKey("qa-bot", "ccrs.qr", "1", "judge-1")


class MemoryQueue(list):
    """The queued outcomes, in the order in which they were stored."""

    def __init__(self):
        super().__init__()
        self.pending = {}
        """First pending request by session."""

    def closed_outcomes(self, *, now, gap_s, max_s, limit=None):
        sessions = {}
        for o in self:
            if o.requested_at <= now:
                sessions.setdefault((o.key.app, o.session), []).append(o)
        found = []
        for (_, session), outcomes in sessions.items():
            at = sorted(o.requested_at for o in outcomes)
            pauses = [a for a, b in zip(at, [*at[1:], None], strict=True) if b is None or b - a >= gap_s]
            pending_at = self.pending.get(session)
            if at[0] <= now - max_s or any(a <= now - gap_s for a in pauses):
                found += [
                    replace(o, pending_at=pending_at)
                    for o in outcomes
                    if pending_at is None or o.requested_at < pending_at
                ]
        return sorted(found, key=lambda o: o.seq)[:limit]

    def time(self, n, *, after=None):
        times = sorted(o.requested_at for o in self if after is None or o.requested_at > after)
        return times[n] if n < len(times) else None

    def remove(self, seqs):
        gone = set(seqs)
        self[:] = [o for o in self if o.seq not in gone]


class MemoryTables(WatchTables):
    """All tables as lists and dicts. What is stored passes through JSON, as in a store."""

    def __init__(self):
        self.queue, self.stored, self.rows, self.kept, self.spent = MemoryQueue(), [], {}, {}, None
        self.events = []
        self.ended = []

    def copy(self):
        return copy.deepcopy(self)

    def put(self, *outcomes):
        """Queue outcomes, as `complete` does."""
        start = max((o.seq for o in self.queue), default=0)
        fields = ("key", "trace_id", "session", "requested_at", "value", "probability", "labels", "is_backfilled")
        self.queue += [
            WatchedOutcome(**{name: getattr(o, name) for name in fields}, seq=start + 1 + i)
            for i, o in enumerate(outcomes)
        ]

    def ended_backfills(self):
        return list(self.ended)

    def mark_learned(self, backfill):
        self.ended = [each for each in self.ended if each.id != backfill]

    def last_units(self, sessions, *, since):
        wanted, found = set(sessions), {}
        for key, unit in self.stored:
            if unit.session in wanted and unit.closed_at >= since:
                found[key, unit.session] = max(unit.closed_at, found.get((key, unit.session), 0.0))
        return found

    def add_units(self, units):
        self.stored += units

    def units(self, key, *, since, until):
        mine = [u for k, u in self.stored if k == key and since <= u.closed_at <= until]
        return sorted(mine, key=lambda u: (u.closed_at, u.session))

    def unit_amounts(self, key, since, until, *, limit=None):
        return [unit.amounts for unit in self.units(key, since=since, until=until)[:limit]]

    def streams(self):
        return [self._read(row) for _, row in sorted(self.rows.items())]

    def save_stream(self, row):
        self.rows[row.key, row.kind] = StreamRow(key=row.key, kind=row.kind, state=json.dumps(row.state))

    def _read(self, row):
        return StreamRow(key=row.key, kind=row.kind, state=json.loads(row.state))

    def budget(self):
        return None if self.spent is None else json.loads(self.spent)

    def save_budget(self, state):
        self.spent = json.dumps(state)

    def alarms(self):
        return [
            AlarmRow(number=row.number, state=row.state, body=json.loads(row.body))
            for _, row in sorted(self.kept.items())
        ]

    def save_alarm(self, row, *, event=None):
        self.kept[row.number] = AlarmRow(number=row.number, state=row.state, body=json.dumps(row.body))
        if event is not None:
            self.events.append((event, row.number))


def sessions(days, *, per_day=40, drop=(), size=2, start=0.0, seed=0, key=KEY, fail=(), labels=None, p=1.0):
    """Outcomes of sessions of some requests each, evenly over days.

    Args:
        days: First and last day.
        per_day: Sessions a day.
        drop: Pairs of a first day and the loss of the mean from then on, or with labels a third: the label that has it.
        size: Requests of a session.
        start: Time of day 0.
        seed: Of the scores.
        key: The stream.
        fail: Pairs of a first day and the share of failures from then on.
        labels: Function of the number of a session that returns its labels.
        p: Sampling probability.
    """
    rng = np.random.default_rng(seed)
    outcomes = []
    for i in range(int((days[1] - days[0]) * per_day)):
        day = days[0] + (i + 0.5) / per_day
        label = {} if labels is None else labels(i)
        loss = 0.0
        for first, amount, *only in drop:
            if day >= first and (not only or only[0] in label.values()):
                loss = amount
        share = max([s for first, s in fail if day >= first], default=0.0)
        for j in range(size):
            score = 1.0 if rng.random() < 0.62 else 0.21 + 0.79 * rng.random()
            score = 0.8 * rng.random() if rng.random() < loss / 0.45 else score
            outcomes.append(
                WatchedOutcome(
                    key=key,
                    trace_id=f"{key.app}-{seed}-{days[0]}-{i}-{j}",
                    session=f"{key.app}-{seed}-{days[0]}-{i}",
                    requested_at=start + day * DAY_S + j * 60.0,
                    value=None if rng.random() < share else round(score, 3),
                    probability=p,
                    labels=label,
                )
            )
    return outcomes
