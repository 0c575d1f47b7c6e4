"""Whole streams of the product (baseline, reference, detector, alarm), fed with simulated units."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from alarm_streams import DAY_S
from ragstone.settings import Watch
from ragstone.stats import AlarmBudget
from ragstone.store import StreamKey, Unit
from ragstone.watch._alarm import Alarm, describe_alarm, follow_up
from ragstone.watch._options import Scale
from ragstone.watch._stream import Stream

KEY = StreamKey("app", "metric", "1", "judge")
OPTIONS = Watch()


@dataclass
class Run:
    """What happened to one stream."""

    stream: Stream
    alarms: list[Alarm]
    events: list[tuple[str, float]]
    """Kind and day of each event."""
    change_day: float | None
    learned_day: float | None

    @property
    def delay(self):
        """Days from the change to the first alarm after it, or infinity."""
        return min(
            (day - self.change_day for event, day in self.events if event == "alarm" and day > self.change_day),
            default=np.inf,
        )


def run_stream(
    traffic,
    rng,
    *,
    days,
    loss=lambda day: 0.0 * day,
    p=None,
    labels=None,
    kind="score",
    fail=None,
    n_active=30,
    options=OPTIONS,
    change_after=2.0,
    stop_at_alarm=False,
    sessions=None,
    change_day=None,
    only=(1, 0.0),
):
    """Feed one stream with units until a number of days after its baseline.

    Args:
        traffic: Its sessions.
        rng: Random numbers.
        days: Days after the baseline was learned.
        loss: Loss of the mean, as a function of the days since `change_after` days after the baseline.
        p: Function of day and value that returns the sampling probability of a unit, or None. The unit is then only
            seen with this probability.
        labels: Function of the number of a unit that returns the values of its slices, or None.
        kind: "score" or "failures".
        fail: Function of the days since the change and the value that returns the probability of failure, or None.
        n_active: Streams that share the budget.
        options: Options.
        change_after: Days between the end of learning and the change.
        stop_at_alarm: Stop 150 units after the first alarm.
        only: Every how many units have another loss after the change, and that loss.
        change_day: Day of the change from the first unit on, instead of `change_after`.
        sessions: Function of the number of a unit that returns its session, or None for a new session each.
    """
    per_day = traffic.units_a_day
    stream = Stream(KEY, kind, Scale(low=0.0, high=1.0), start=0.0)
    budget, units, alarms, events = AlarmBudget(1.0, start=0.0), [], [], []
    history = lambda since, until: [u for u in units if since <= u.closed_at <= until]  # noqa: E731
    amounts = lambda since, until: [u.amounts for u in history(since, until)]  # noqa: E731
    learned, i, seen = None, 0, {}

    def change(learned):
        if change_day is not None:
            return change_day
        return np.inf if learned is None else learned + change_after

    block = int(per_day) + 1
    while True:
        n0 = i
        day = (n0 + np.arange(block)) / per_day
        since = day - change(learned)
        lost = loss(np.maximum(since, 0.0)) + only[1] * ((n0 + 1 + np.arange(block)) % only[0] == 0)
        x, _k = traffic.sessions(rng, block, np.clip(traffic.loss_at(day) + np.where(since >= 0, lost, 0.0), 0, 0.4))
        for j in range(block):
            i += 1
            at = float(day[j]) * DAY_S
            value, q = float(x[j]), 1.0
            if p is not None:
                q = p(float(since[j]), value)
                if rng.random() >= q:
                    continue
            failed = fail is not None and rng.random() < fail(float(since[j]), value)
            session = f"s{i}" if sessions is None else sessions(i)
            gap_s = at - seen[session] if sessions is not None and session in seen else None
            seen[session] = at
            unit = Unit(
                session=session, closed_at=at, value=None if failed else value, weight=0.0 if failed else 1 / q,
                failed_weight=1 / q if failed else 0.0, p_min=q, gap_s=gap_s,
                worst_trace=str(i), worst_value=None if failed else value,
                labels={} if labels is None else labels(i),
            )  # fmt: skip
            if failed and kind == "score":
                continue
            units.append(unit)
            event = stream.update(unit, budget=budget, n_active=n_active, options=options, amounts=amounts)
            if learned is None and stream.phase == "watching":
                learned = float(day[j])
                since = day - change(learned)
            if event is not None:
                events.append((event, float(day[j])))
            if event == "alarm":
                alarm = describe_alarm(len(alarms) + 1, stream, raised_at=at, options=options, history=history)
                stream.open_alarm(before=alarm.before, after=alarm.after, worst=alarm.worst, options=options)
                alarms.append(alarm)
            elif event == "follow_up":
                alarms[-1] = follow_up(alarms[-1], stream, units, options=options)
            if stop_at_alarm and alarms and alarms[-1].follow_up:
                return _run(stream, alarms, events, learned, change(learned))
        if (learned is not None and day[-1] > learned + days) or day[-1] > 60 + days:
            return _run(stream, alarms, events, learned, change(learned))


def _run(stream, alarms, events, learned, change):
    return Run(stream, alarms, events, None if learned is None else change, learned)
