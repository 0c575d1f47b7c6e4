"""Means over time: parts of at least 20 scores that start at round times, and the releases in between."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ragstone.experiments._table import MetricScores, ScoreTable
from ragstone.views import MetricRow, ReleaseMark, TrendPoint, TrendRow, TrendView

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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

    def time_of(self, sample_id: str) -> float | None:
        """Return the time of a sample, if it has one."""
        return self._times.get(sample_id)

    @property
    def since(self) -> float | None:
        """First time, Unix seconds."""
        return min(self._times.values(), default=None)

    @property
    def until(self) -> float | None:
        """Last time, Unix seconds."""
        return max(self._times.values(), default=None)

    def view(self, metrics: Sequence[MetricRow], table: ScoreTable, confidence_level: float) -> TrendView | None:
        """Return the means over time, or None if no metric has two parts of at least 20 scores."""
        import numpy as np

        if self.since is None or self.until is None or self.until - self.since < _MIN_SPAN:
            return None
        span = self.until - self.since
        length = next((each for each in _LENGTHS if span / each <= _MAX_PARTS), _LENGTHS[-1])
        times = np.asarray([self._times.get(id_, math.nan) for id_ in table.sample_ids])
        rows = []
        for metric in metrics:
            scores, points = table.metrics[metric.name], []
            for part in _parts(scores, times, length):
                mean = table.estimate(
                    scores.values[part, 0], part, low=scores.low, high=scores.high, confidence_level=confidence_level
                )
                if mean is not None:
                    since, until = float(times[part].min()), float(times[part].max())
                    points.append(TrendPoint(since=since, until=until, estimate=mean))
            if len(points) > 1:
                rows.append(TrendRow(metric=metric.name, title=metric.title, axis=metric.axis, points=tuple(points)))
        if not rows:
            return None
        return TrendView(rows=tuple(rows), releases=self._marks(), part_s=length)

    def _marks(self) -> tuple[ReleaseMark, ...]:
        """Return the releases after the first one, by the time of their first request."""
        first = next((each for each in self._releases.values() if len(each) > 1), {})
        marks = [ReleaseMark(name=name, time=time) for name, time in sorted(first.items(), key=lambda item: item[1])]
        return tuple(marks[1:]) if len(marks) <= _MAX_RELEASES else ()


def _parts(scores: MetricScores, times: NDArray[np.float64], length: float) -> list[NDArray[np.intp]]:
    """Return the rows with a score of each part of the time. A part with few scores is joined with the next."""
    import numpy as np

    rows = scores.scored()
    rows = rows[~np.isnan(times[rows])]
    numbers = np.floor(times[rows] / length)
    order = np.argsort(numbers, kind="stable")
    parts: list[NDArray[np.intp]] = []
    waiting = rows[:0]
    for part in np.split(rows[order], np.flatnonzero(np.diff(numbers[order])) + 1):
        waiting = np.concatenate([waiting, part])
        if waiting.size >= _MIN_SCORES:
            parts.append(waiting)
            waiting = rows[:0]
    if waiting.size and parts:
        parts[-1] = np.concatenate([parts[-1], waiting])
    return parts
