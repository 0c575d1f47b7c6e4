"""Text of alarms and of streams, for terminals, Slack and webhooks."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Final

from ragstone.errors import ConfigurationError
from ragstone.metrics import resolve_metrics
from ragstone.stats import BETS, QUARTER_S
from ragstone.store import Unit
from ragstone.watch._alarm import Alarm
from ragstone.watch._baseline import DAY_S
from ragstone.watch._options import Scale
from ragstone.watch._stream import Stream

_DROPS: Final = (0.05, 0.10, 0.20)
_LONGEST_DAYS: Final = 90.0


def stream_name(app: str, title: str, metric: str, kind: str) -> str:
    """Return the display name of a stream."""
    name = metric if title in ("", metric) else f"{title} ({metric})"
    return f"{app + ' · ' if app else ''}{'failures of ' if kind == 'failures' else ''}{name}"


def render_alarm(
    alarm: Alarm, *, title: str = "", store: str = "STORE", event: str = "alarm", zone: tzinfo | None = None
) -> str:
    """Return an alarm as lines of text. The arguments are those of `alarm_lines`."""
    heading, lines = alarm_lines(alarm, title=title, store=store, event=event, zone=zone)
    return "\n".join([heading, *(f"{key:<10} {text}" for key, text in lines)])


def alarm_lines(
    alarm: Alarm, *, title: str = "", store: str = "STORE", event: str = "alarm", zone: tzinfo | None = None
) -> tuple[str, list[tuple[str, str]]]:
    """Return the heading of an alarm, and what it says by name.

    `title` is the display name of the metric, and `store` a command's argument. `event` is "alarm", "follow_up" or
    "recovered". Times are in `zone`, by default the local one.
    """
    scale = Scale(low=alarm.scale[0], high=alarm.scale[1], higher_is_better=alarm.scale[2])
    change = "fell" if alarm.scale[2] else "rose"
    name = stream_name(alarm.key.app, title, alarm.key.metric, alarm.kind)
    heading = {"recovered": "RECOVERED", "follow_up": "FOLLOW-UP"}.get(event, "ALARM")
    cause = "the judge changed: " if alarm.judge_explains else ""
    before, after = (_mean(alarm, scale, mean) for mean in (alarm.before, alarm.after))
    size = f"{_points(alarm.drop)} points [{_points(alarm.low)}, {_points(alarm.high)}]"
    what = f"{change} by about {size}, from {before} to {after}"
    if alarm.is_required:
        what = f"was {after}, required {before}: a difference of about {size}"
    first = f"{heading} {alarm.number} · {cause}{name} {what}"
    lines = [("since", _since(alarm, zone)), ("where", _where(alarm)), ("judge", _judge(alarm))]
    if alarm.kind == "score":
        lines.append(("failures", _failures(alarm)))
        if rule := _rule(alarm.key.metric):
            lines.append(("value", f"the mean of the scores is watched, but one answer is {rule}"))
    if alarm.follow_up is not None:
        later = alarm.follow_up
        interval = f"[{_points(later.low)}, {_points(later.high)}]"
        lines.append(("follow-up", f"{_points(later.drop)} points {interval} in {later.n} sessions after it"))
    if alarm.state != "open" and alarm.closed_at is not None:
        lines.append((alarm.state, _time(alarm.closed_at, zone)))
    elif alarm.is_muted(time.time()):
        lines.append(("muted", f"until {_time(alarm.muted_until or 0.0, zone)}"))
    if not alarm.is_covered:
        lines.append(("note", "more than 10% of the units are of sessions seen before: the promise does not cover it"))
    if alarm.traces:
        shown = f"({len(alarm.traces)} shown, one per session)"
        lines.append(("traces", f"ragstone traces {store} --alarm {alarm.number}   {shown}"))
    return first, lines


def _rule(metric: str) -> str:
    """Say which answers are good, if another number than the score decides it. Empty if not, or if it is not known."""
    try:
        (found,) = resolve_metrics([metric])
    except (ConfigurationError, ValueError):
        return ""
    return found.card.rule if found.card.decided_by else ""


def describe_delay(stream: Stream, units: Sequence[Unit], *, per_quarter: float, n_active: int) -> dict[float, float]:
    """Estimate the days to find a drop, by its size (a share of the range), by the growth of evidence on recent units.

    The stream has a reference, and `units` of the last weeks. `n_active` streams share the budget `per_quarter`.
    Infinite if it takes more than 90 days.
    """
    import numpy as np

    reference = stream.reference
    if reference is None or stream.phase == "alarm" or len(units) < 30:
        return {}
    values = [stream.value_of(unit) for unit in units]
    x, w = np.array([v for v, _ in values]), np.array([stream.weight(total) for _, total in values])
    good = reference
    if stream.direction == "rise":
        x, good = 1 - x, 1 - reference
    per_day = len(units) / max((units[-1].closed_at - units[0].closed_at) / DAY_S, 1.0)
    spend = per_quarter * DAY_S / QUARTER_S / n_active / per_day
    mean = float((w * x).sum() / w.sum())
    found: dict[float, float] = {}
    for drop in _DROPS:
        # Each unit loses the same share of its value, so values stay in the range.
        lower = x * max(1 - drop / mean, 0.0) if mean > 0 else x
        needed = math.inf
        for bet in BETS:
            growth = float(np.log1p(bet * (good - lower) / (1 - good) * w).mean())
            if growth > 0:
                needed = min(needed, math.log1p(len(BETS) * growth / spend) / growth)
        days = needed / per_day
        found[drop] = days if days <= _LONGEST_DAYS else math.inf
    return found


def _points(loss: float) -> str:
    return f"{100 * loss:.1f}"


def _mean(alarm: Alarm, scale: Scale, unit: float) -> str:
    return f"{unit:.1%}" if alarm.kind == "failures" else f"{scale.to_value(unit):.3f}"


def _since(alarm: Alarm, zone: tzinfo | None) -> str:
    first = _time(alarm.since_first, zone)
    span = "all sessions" if alarm.is_required else f"95%: {first} to {_time(alarm.since_last, zone)}"
    # The reader of a message does not know the time zone of the worker.
    name = datetime.fromtimestamp(alarm.since, zone).astimezone(zone).tzname()
    return f"{_time(alarm.since, zone)} {name} ({span}); alarm at {_time(alarm.raised_at, zone)}, {alarm.n} sessions"


def _where(alarm: Alarm) -> str:
    if not alarm.n_slices:
        return "not divided: fewer than 30 sessions in every slice, or all are in one"
    tested = f"({alarm.n_slices} slices, family-wise 5%)"
    if not alarm.slices:
        return f"everywhere: no slice differs from the rest {tested}"
    found = ", ".join(f"{each.name}: {-100 * each.drop:+.1f} points" for each in alarm.slices)
    return f"{found}; no other slice differs {tested}"


def _judge(alarm: Alarm) -> str:
    before, after = alarm.rates
    sampling = f"unchanged: {after:.0%}" if before == after else f"changed from {before:.1%} to {after:.1%} (weighted)"
    judge = "same model and prompt by name, not checked with canaries"
    if alarm.judge is not None:
        shift = alarm.judge
        moved = "stricter" if shift.low > 0 else "more lenient" if shift.high < 0 else "unchanged"
        # The sign is that of the scores, as in `where`.
        judge = (
            f"{moved}: {shift.n} canaries {_change(shift.drop)} "
            f"[{_change(shift.high)}, {_change(shift.low)}], same model and prompt by name"
        )
    return f"{judge}. Sampling {sampling}"


def _change(loss: float) -> str:
    return f"{-100 * loss + 0.0:+.1f}"


def _failures(alarm: Alarm) -> str:
    before, after = alarm.failed
    share = f"{after:.1%}, before {before:.1%}"
    if after <= 0:
        return share
    best = alarm.drop_if_failures_were_best
    bound = (
        f"if every failure had the best score, still {-100 * best:+.1f}" if best > 0 else "failures could explain it"
    )
    return f"{share}; {bound}"


def _time(at: float, zone: tzinfo | None) -> str:
    return datetime.fromtimestamp(at, zone).strftime("%a %d %b %H:%M")
