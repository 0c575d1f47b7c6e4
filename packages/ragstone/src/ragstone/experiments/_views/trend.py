"""Means over time: parts of at least 20 scores that start at round times, and the releases in between."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ragstone.stats import Estimate
from ragstone.views import MetricRow, ReleaseMark, TrendPoint, TrendRow, TrendView

_MIN_SCORES: Final = 20
"""Fewest scores of a part."""
_MAX_PARTS: Final = 24
_HOUR: Final = 3600.0
_LENGTHS: Final = tuple(_HOUR * hours for hours in (1, 3, 6, 12, 24, 48, 72, 168, 336, 672, 2016, 8760))
"""Lengths of parts, in seconds."""
_MIN_SPAN: Final = 2 * _HOUR
"""Shortest time that is shown. The requests of one run over a dataset are not a trend."""
_RELEASE_KEYS: Final = ("release", "version")
_MAX_RELEASES: Final = 8

EstimateMean = Callable[[Sequence[float], Sequence[str], float, float], Estimate | None]
"""Estimates a mean from values, sample ids and the ends of the metric's range."""


class Timeline:
    """Times and releases of samples."""

    def __init__(self) -> None:
        self._times: dict[str, float] = {}
        self._releases: dict[str, dict[str, float]] = {key: {} for key in _RELEASE_KEYS}
        """Time of the first request of each release, by label and value."""

    def add(self, sample_id: str, time: float | None, labels: Mapping[str, tuple[str, ...]]) -> None:
        """Add the time and the labels of a sample. A sample without a time is not in the timeline."""
        if time is None:
            return
        self._times[sample_id] = time
        for key, first in self._releases.items():
            for value in labels.get(key, ()):
                first[value] = min(time, first.get(value, math.inf))

    @property
    def since(self) -> float | None:
        """First time, Unix seconds."""
        return min(self._times.values(), default=None)

    @property
    def until(self) -> float | None:
        """Last time, Unix seconds."""
        return max(self._times.values(), default=None)

    def view(
        self,
        metrics: Sequence[MetricRow],
        scores: Mapping[str, tuple[Sequence[str], Sequence[float]]],
        estimate: EstimateMean,
    ) -> TrendView | None:
        """Return the means over time, or None if no metric has two parts of at least 20 scores."""
        if self.since is None or self.until is None or self.until - self.since < _MIN_SPAN:
            return None
        span = self.until - self.since
        length = next((each for each in _LENGTHS if span / each <= _MAX_PARTS), _LENGTHS[-1])
        numbers = {sample_id: math.floor(time / length) for sample_id, time in self._times.items()}
        rows = []
        for metric in metrics:
            points = self._points(metric, *scores[metric.name], numbers, estimate)
            if len(points) > 1:
                rows.append(TrendRow(metric=metric.name, title=metric.title, axis=metric.axis, points=points))
        if not rows:
            return None
        return TrendView(rows=tuple(rows), releases=self._marks(), part_s=length)

    def _points(
        self,
        metric: MetricRow,
        ids: Sequence[str],
        values: Sequence[float],
        numbers: Mapping[str, int],
        estimate: EstimateMean,
    ) -> tuple[TrendPoint, ...]:
        """Return the means of the parts of one metric, whose numbers are given by sample id."""
        parts: dict[int, tuple[list[str], list[float]]] = {}
        for sample_id, value in zip(ids, values, strict=True):
            number = numbers.get(sample_id)
            if number is not None:
                own, scored = parts.setdefault(number, ([], []))
                own.append(sample_id)
                scored.append(value)
        merged: list[tuple[list[str], list[float]]] = []
        waiting: tuple[list[str], list[float]] = ([], [])
        for number in sorted(parts):
            waiting = waiting[0] + parts[number][0], waiting[1] + parts[number][1]
            if len(waiting[0]) >= _MIN_SCORES:
                merged.append(waiting)
                waiting = ([], [])
        if waiting[0] and merged:
            merged[-1] = merged[-1][0] + waiting[0], merged[-1][1] + waiting[1]
        points = []
        for own, scored in merged:
            # Scores may exceed their range by a rounding error.
            kept = [min(max(value, metric.low), metric.high) for value in scored]
            mean = estimate(kept, own, metric.low, metric.high)
            if mean is not None:
                times = [self._times[sample_id] for sample_id in own]
                points.append(TrendPoint(since=min(times), until=max(times), estimate=mean))
        return tuple(points)

    def _marks(self) -> tuple[ReleaseMark, ...]:
        """Return the releases after the first one, by the time of their first request."""
        first = next((each for each in self._releases.values() if len(each) > 1), {})
        marks = [ReleaseMark(name=name, time=time) for name, time in sorted(first.items(), key=lambda item: item[1])]
        return tuple(marks[1:]) if len(marks) <= _MAX_RELEASES else ()
