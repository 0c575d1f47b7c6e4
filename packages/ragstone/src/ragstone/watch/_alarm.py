"""`Alarm`: what changed in a stream, since when, by how much, in which slices and traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import TypeAdapter

from ragstone.settings import Watch
from ragstone.store import StreamKey, StreamKind, Unit
from ragstone.watch._baseline import DAY_S, MAX_DAYS
from ragstone.watch._change import Change, SliceDrop, drop_between, find_change, find_slices
from ragstone.watch._stream import Stream

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

History = Callable[[float, float], Sequence[Unit]]
"""Returns the units that closed from one time up to and including another, in order of closing."""

_SIGNIFICANT: Final = 0.02
"""Limit of the corrected p-values. In simulations of uniform drops with skewed scores, at most 5% of alarms then name a
slice."""
_N_TRACES: Final = 10
_MOST_DAYS: Final = 98
"""Units are stored for 100 days."""
_MOST_UNITS: Final = 50_000
"""More units around an alarm are read only of the last 28 days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A change in the direction of an alarm, with its 95% confidence interval.

    Estimated from units after the alarm, or from the judge's scores for the same requests (positive if it has become
    stricter).
    """

    drop: float
    low: float
    high: float
    n: int
    """Number of units or canaries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """A change of a stream for the worse. Means and losses are in [0, 1], times are Unix seconds."""

    number: int
    key: StreamKey
    kind: StreamKind
    scale: tuple[float, float, bool]
    """Lowest and highest value of the metric, and whether higher values are better."""
    raised_at: float
    since: float
    """Most likely time of the change."""
    since_first: float
    since_last: float
    before: float
    """Mean before the change, or the required mean if that was never reached."""
    before_se: float
    after: float
    drop: float
    low: float
    high: float
    n: int
    """Units from the change to the alarm."""
    slices: tuple[SliceDrop, ...] = ()
    """Slices that lost significantly more than the rest."""
    n_slices: int = 0
    """Number of slices that were compared."""
    rates: tuple[float, float] = (1.0, 1.0)
    """Median of the sampling probabilities before and after the change."""
    failed: tuple[float, float] = (0.0, 0.0)
    """Share of failures before and after the change."""
    traces: tuple[str, ...] = ()
    """Traces with the worst scores since the change, one per session."""
    is_required: bool = False
    """Whether `before` is a required mean, and the alarm is about all units."""
    is_covered: bool = True
    """Whether the promised number of false alarms covers the stream."""
    state: Literal["open", "recovered", "accepted"] = "open"
    closed_at: float | None = None
    muted_until: float | None = None
    follow_up: Shift | None = None
    judge: Shift | None = None
    """How far the judge has moved, or None if no canaries were scored since the change."""

    @property
    def judge_explains(self) -> bool:
        """Whether the judge has moved, and by at least half of the change."""
        return self.judge is not None and self.judge.low > 0 and self.judge.drop >= 0.5 * self.drop

    @property
    def worst(self) -> float:
        """Worst plausible mean after the change."""
        return self.before - self.high if self.scale[2] else self.before + self.high

    @property
    def drop_if_failures_were_best(self) -> float:
        """The loss if every failure had the best possible score: if it is 0 or less, failures may explain the alarm."""
        best = 1.0 if self.scale[2] else 0.0
        before, after = (
            mean * (1 - share) + best * share
            for mean, share in zip((self.before, self.after), self.failed, strict=True)
        )
        return before - after if self.scale[2] else after - before

    def is_muted(self, now: float) -> bool:
        """Return whether notifications of this stream are muted."""
        return self.muted_until is not None and now < self.muted_until

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data for a store or JSON."""
        return asdict(self) | {"key": self.key._asdict()}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Alarm:
        """Read what `to_dict` returned."""
        return _adapter().validate_python(values)


@cache
def _adapter() -> TypeAdapter[Alarm]:
    return TypeAdapter(Alarm)


def describe_alarm(number: int, stream: Stream, *, raised_at: float, options: Watch, history: History) -> Alarm:
    """Describe the change behind an alarm that a stream has just raised.

    The unit that raised it closed at `raised_at` (Unix seconds). `history` has the stored units of the stream.
    """
    import numpy as np

    everything = history(_start(stream, raised_at), raised_at)
    units = [unit for unit in everything if stream.watches(unit)]
    x, w = _values(stream, units)
    change = find_change(x, w, sign=stream.sign, min_before=min(30, max(len(units) // 2, 1)))
    if change is None or (stream.target is not None and change.low <= 0):
        change = _always(stream, x, w)
    labels = [unit.labels for unit in units]
    slices = find_slices(
        x, w, labels, start=change.start, before=change.before, fields=options.slices, sign=stream.sign
    )
    named = _significant(slices)
    before, after = units[: change.start] or units, units[change.start :]
    began = after[0].closed_at
    return Alarm(
        **{name: getattr(change, name) for name in ("before", "before_se", "after", "drop", "low", "high")},
        number=number,
        key=stream.key,
        kind=stream.kind,
        scale=(stream.scale.low, stream.scale.high, stream.scale.higher_is_better),
        raised_at=raised_at,
        since=units[change.start].closed_at - options.session_gap_s,
        since_first=units[change.first].closed_at - options.session_gap_s,
        since_last=units[change.last].closed_at - options.session_gap_s,
        n=len(after),
        slices=named,
        n_slices=len(slices),
        rates=(float(np.median([u.p_min for u in before])), float(np.median([u.p_min for u in after]))),
        failed=(
            _failed([u for u in everything if u.closed_at < began] or everything),
            _failed([u for u in everything if u.closed_at >= began]),
        ),
        traces=_worst(after, named, sign=stream.sign, kind=stream.kind),
        is_required=change.start == 0,
        is_covered=stream.is_covered,
    )


def _start(stream: Stream, raised_at: float) -> float:
    """Return the time from which units are compared with those after a change.

    A small change of a stream with little traffic raises its alarm after weeks, so more than four weeks are needed.
    """
    per_day = stream.n_units * DAY_S / max(raised_at - stream.started_at, DAY_S)
    days = MAX_DAYS if per_day * _MOST_DAYS > _MOST_UNITS else _MOST_DAYS
    return max(stream.learns_from, raised_at - days * DAY_S)


def units_around(alarm: Alarm, stream: Stream, history: History, *, until: float) -> Sequence[Unit]:
    """Return the units of a stream before an alarm and after it."""
    return [unit for unit in history(_start(stream, alarm.raised_at), until) if stream.watches(unit)]


def _always(stream: Stream, x: NDArray[np.float64], w: NDArray[np.float64]) -> Change:
    """Return the distance of all units from a required mean."""
    aim = stream.reference
    assert aim is not None  # noqa: S101 - an alarm needs a reference
    loss, low, high = drop_between(x, w, before=aim, before_se=0.0, sign=stream.sign)
    after = aim - stream.sign * loss
    return Change(start=0, first=0, last=0, before=aim, before_se=0.0, after=after, drop=loss, low=low, high=high)


def follow_up(alarm: Alarm, stream: Stream, units: Sequence[Unit], *, options: Watch) -> Alarm:
    """Return an alarm with its size estimated from the units after it, and its slices from all units since the change.

    `units` are before and after the change, at least two of them after the alarm.
    """
    x, w = _values(stream, units)
    start = sum(unit.closed_at - options.session_gap_s < alarm.since for unit in units)
    later = sum(unit.closed_at <= alarm.raised_at for unit in units)
    drop, low, high = drop_between(
        x[later:], w[later:], before=alarm.before, before_se=alarm.before_se, sign=stream.sign
    )
    labels = [unit.labels for unit in units]
    slices = find_slices(x, w, labels, start=start, before=alarm.before, fields=options.slices, sign=stream.sign)
    named = _significant(slices)
    return replace(
        alarm,
        follow_up=Shift(drop=drop, low=low, high=high, n=len(units) - later),
        slices=named,
        n_slices=len(slices),
        traces=_worst(units[start:], named, sign=stream.sign, kind=stream.kind),
    )


def _significant(slices: Sequence[SliceDrop]) -> tuple[SliceDrop, ...]:
    return tuple(s for s in slices if s.p <= _SIGNIFICANT and s.excess > 0)


def _values(stream: Stream, units: Sequence[Unit]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    import numpy as np

    pairs = [stream.value_of(unit) for unit in units]
    return np.array([x for x, _ in pairs]), np.array([stream.weight(total) for _, total in pairs])


def _failed(units: Sequence[Unit]) -> float:
    failed = sum(u.failed_weight for u in units)
    return failed / (failed + sum(u.weight for u in units))


def _worst(units: Sequence[Unit], slices: Sequence[SliceDrop], *, sign: int, kind: StreamKind) -> tuple[str, ...]:
    if slices:
        field, _, value = slices[0].name.partition("=")
        units = [u for u in units if u.labels.get(field) == value]
    if kind == "failures":
        failed = [u for u in units if u.failed_weight and u.worst_trace]
        return tuple(u.worst_trace for u in sorted(failed, key=lambda u: -u.failed_share)[:_N_TRACES])
    scored = [
        (sign * u.worst_value, u.closed_at, u.worst_trace) for u in units if u.worst_value is not None and u.worst_trace
    ]
    return tuple(trace for *_, trace in sorted(scored)[:_N_TRACES])
