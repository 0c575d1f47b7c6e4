"""Baselines: the mean of the first weeks of a stream, and the reference that follows from it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from ragstone._util.distributions import student_quantile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DAY_S: Final = 86_400.0
LEARNING_DAYS: Final = 7
MAX_DAYS: Final = 28
MIN_SESSIONS: Final = 200

_TOLERANCE: Final = 0.3
"""Share of `min_drop` that the mean may fall without being below the reference."""
_CONFIDENCE_LEVEL: Final = 0.99
_NORMAL: Final = 2.5758293035489004


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """Mean of a stream while it was learned. All means are mapped to [0, 1]."""

    mean: float
    margin: float
    """Distance of the reference from the mean: the tolerance, or half of the 99% confidence interval if that is
    larger."""
    n: int
    """Number of units."""
    days: int
    cap: float
    """Units whose weight is this or more count fully."""
    p_floor: float
    """Smallest sampling probability in the baseline."""

    def weight(self, total: float) -> float:
        """Return the weight of a unit, in (0, 1], by `total`: the sum of 1 / probability over its scores."""
        return min(total * self.p_floor, self.cap) / self.cap

    def reference(self, direction: Literal["drop", "rise"]) -> float | None:
        """Return the acceptable mean, or None if the mean is so close to the end of the range that it cannot get worse."""
        reference = self.mean - self.margin if direction == "drop" else self.mean + self.margin
        return reference if 0 < reference < 1 else None

    def state(self) -> dict[str, Any]:
        """Return the fields as plain data for a store."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningUnits:
    """The units of a stream that learns its baseline, with the error of their mean between sessions and between days."""

    values: Sequence[float] | NDArray[np.float64]
    """Values in [0, 1]."""
    totals: Sequence[float] | NDArray[np.float64]
    """Sum of 1 / probability of each unit."""
    days: Sequence[int] | NDArray[np.int_]
    """Number of the day of each unit, from 0."""
    p_floor: float = 1.0
    """Smallest sampling probability."""
    min_drop: float = 0.05
    """Smallest drop that matters, as a share of the range."""
    is_last: bool = False
    """Accept a margin above the tolerance, because the longest time has passed."""

    def learn(self) -> Baseline | None:
        """Estimate the mean of the stream, or return None with fewer than 200 units, or an error above the tolerance.

        The margin is the largest of: 0.3 `min_drop`, 2.58 standard errors over sessions, and the 99.5% quantile of
        Student's t times the standard error over days.
        """
        if len(self.values) < MIN_SESSIONS:
            return None
        found = self._estimate()
        if found is None:
            return None
        half, tolerance = max(found.over_sessions, found.over_days), _TOLERANCE * self.min_drop
        if half > tolerance and not self.is_last:
            return None
        return Baseline(
            mean=found.mean,
            margin=max(half, tolerance),
            n=len(self.values),
            days=found.n_days,
            cap=found.cap,
            p_floor=self.p_floor,
        )

    def n_missing(self) -> int:
        """Return how many more units `learn` needs.

        That is at least the rest of 200 units. From the second day on, it is also the number of units after which the
        error between sessions is within the tolerance, if they vary as those so far do. The error between days depends
        on time alone.
        """
        n = len(self.values)
        least = max(MIN_SESSIONS - n, 0)
        found = None if self.is_last else self._estimate()
        if found is None:
            return least
        return max(least, math.ceil(n * (found.over_sessions / (_TOLERANCE * self.min_drop)) ** 2) - n)

    def _estimate(self) -> _Estimate | None:
        """Estimate the mean and its errors, or return None for units of one day."""
        import numpy as np

        x, total, day = np.asarray(self.values, float), np.asarray(self.totals, float), np.asarray(self.days, int)
        n_days = int(np.unique(day).size)
        if n_days < 2:
            return None
        # A single request with the smallest probability is never cut: with a smaller cap, the mean would be biased.
        cap = max(1.0, float(np.quantile(total * self.p_floor, 0.9)))
        w = np.minimum(total * self.p_floor, cap) / cap
        mean = float((w * x).sum() / w.sum())
        part = w * (x - mean) / w.sum()
        by_day = np.bincount(day, weights=part)
        over_sessions = _NORMAL * math.sqrt(float((part**2).sum()) * x.size / (x.size - 1))
        t = student_quantile(n_days - 1, (1 + _CONFIDENCE_LEVEL) / 2)
        over_days = t * math.sqrt(float((by_day**2).sum()) * n_days / (n_days - 1))
        return _Estimate(mean=mean, over_sessions=over_sessions, over_days=over_days, n_days=n_days, cap=cap)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Estimate:
    """Mean and half widths of its 99% confidence intervals, in [0, 1]."""

    mean: float
    over_sessions: float
    over_days: float
    n_days: int
    cap: float
