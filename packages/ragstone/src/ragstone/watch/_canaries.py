"""Canaries: requests that are scored again every day, to see whether the judge itself has changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ragstone._util.distributions import student_quantile
from ragstone.schema import Usage
from ragstone.settings import Watch
from ragstone.store import CanaryScore, StreamKey, WatchTables
from ragstone.watch._alarm import Alarm, Shift
from ragstone.watch._fold import open_alarms, save_alarm
from ragstone.watch._options import Scale

_PERIOD_S: Final = 86_400.0
_RECENT_S: Final = 7 * 86_400.0
"""Canaries are chosen among the requests of this time."""
_MIN_PAIRS: Final = 5
_CONFIDENCE_LEVEL: Final = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryRound:
    """The results of one round."""

    at: float
    """Unix seconds."""
    scores: Sequence[tuple[StreamKey, str, float]]
    """Metric and judge (without application), trace and score in the metric's unit."""
    usage: Usage


def begin_round(tables: WatchTables, *, now: float, options: Watch) -> list[str] | None:
    """Return the traces to score now, and record that this process scores them. None if no round is due.

    A round is due every day, and after an alarm that no round has followed. `now` is in Unix seconds.
    """
    chosen = tables.canaries.read()
    if not options.canaries:
        if chosen:
            tables.canaries.set([], now=now)
        return None
    last = tables.canaries.status()
    started = -math.inf if last is None else float(last["started_at"])
    newest_alarm = max((alarm.raised_at for alarm in open_alarms(tables) if alarm.judge is None), default=-math.inf)
    if now < started + _PERIOD_S and not started < newest_alarm:
        return None
    if len(chosen) != options.canaries:
        chosen = tables.canaries.suitable(options.canaries, since=now - _RECENT_S)
        if len(chosen) < options.canaries:
            return None
        tables.canaries.set(chosen, now=now)
    tables.canaries.save_status(dict(last or {}) | {"started_at": now})
    return chosen


def end_round(tables: WatchTables, done: CanaryRound, *, scales: Mapping[str, Scale], keep_since: float) -> list[Alarm]:
    """Store a round, delete scores before `keep_since`, and add to each open alarm how far its judge has moved.

    The alarms that have become changes of the judge are returned, and their event `judge` is queued.
    """
    tables.canaries.add_scores(
        [
            CanaryScore(key=key, trace_id=trace_id, scored_at=done.at, value=scales[key.metric].to_unit(value))
            for key, trace_id, value in done.scores
            if key.metric in scales
        ],
        keep_since=keep_since,
    )
    used = done.usage.model_dump(exclude_defaults=True)
    status: dict[str, Any] = dict(tables.canaries.status() or {})
    tables.canaries.save_status(
        status | {"at": done.at, "n": len({trace for _, trace, _ in done.scores}), "usage": used}
    )
    moved = []
    for alarm in open_alarms(tables):
        if alarm.judge is not None or alarm.kind != "score":
            continue
        scores = tables.canaries.scores(alarm.key._replace(app=""))
        shift = judge_shift(scores, before=alarm.since_first, after=alarm.since_last, sign=1 if alarm.scale[2] else -1)
        if shift is None:
            continue
        changed = replace(alarm, judge=shift)
        is_sent = changed.judge_explains and not changed.is_muted(done.at)
        save_alarm(tables, changed, event="judge" if is_sent else None)
        if changed.judge_explains:
            moved.append(changed)
    return moved


def judge_shift(scores: Sequence[CanaryScore], *, before: float, after: float, sign: int = 1) -> Shift | None:
    """Compare the scores of canaries before and after a change.

    The unit is a canary: the difference of its means before and after. So the error contains the noise of a judge whose
    replies vary, which the rounds of one canary share. Scores of one metric and judge, in [0, 1], are compared: of
    rounds before the time `before` (Unix seconds) with those from `after` on. `sign` is -1 if higher is worse, else 1.
    The result is None with fewer than five canaries on both sides.
    """
    import numpy as np

    rounds: dict[str, tuple[list[float], list[float]]] = {}
    for score in scores:
        if score.scored_at < before or score.scored_at >= after:
            rounds.setdefault(score.trace_id, ([], []))[score.scored_at >= after].append(score.value)
    pairs = [(np.mean(old), np.mean(new)) for old, new in rounds.values() if old and new]
    if len(pairs) < _MIN_PAIRS:
        return None
    loss = sign * np.array([old - new for old, new in pairs])
    t = student_quantile(len(pairs) - 1, (1 + _CONFIDENCE_LEVEL) / 2)
    mean, half = float(loss.mean()), t * float(loss.std(ddof=1)) / math.sqrt(len(pairs))
    return Shift(drop=mean, low=mean - half, high=mean + half, n=len(pairs))
