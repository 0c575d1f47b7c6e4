"""The hedged betting confidence sequence for the mean of a bounded stream."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from ragstone.stats._mean import Bounds
from ragstone.stats._online.common import State, check_level, check_range, read_state, unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_KIND: Final = "betting"
_CAP: Final = 0.5
"""Maximum share of the capital in one bet."""


class BettingSequence:
    """Confidence sequence for the mean of a bounded stream, valid at all times simultaneously.

    For every candidate mean there are two capital processes with an initial capital of 1: one bets that values are
    higher, and one bets that they are lower. For the true mean, neither bet has a positive expected gain, and the
    probability that either capital ever reaches 2 / (1 - `confidence_level`) is at most 1 - `confidence_level`. A
    candidate whose capital reaches this threshold is rejected permanently.

    The method assumes values in [low, high] and a constant conditional mean, but no other property of the distribution. If
    the mean changes, the lower limit is still below the largest mean so far, and the upper limit above the smallest. If
    all candidates are rejected, `interval()` is None: the mean has changed, or the sequence failed (with a probability of
    at most 1 - `confidence_level`).

    Time and memory of an update are proportional to the number of remaining candidates, at most `grid`.

    Source:
        Waudby-Smith and Ramdas 2023, section 4.4 (hedged capital, predictable plug-in bets), truncated at 1/2. Ville 1939.

    Examples:
        >>> sequence = BettingSequence()
        >>> for x in [0.9, 0.8, 0.7, 1.0, 0.9] * 20:
        ...     sequence.update(x)
        >>> low, high = sequence.interval()
        >>> low < 0.86 < high, sequence.n
        (True, 100)
    """

    def __init__(
        self, *, low: float = 0.0, high: float = 1.0, confidence_level: float = 0.95, grid: int = 1001
    ) -> None:
        """Create a sequence without values.

        Args:
            low: Smallest possible value.
            high: Largest possible value.
            confidence_level: Probability that the interval contains the mean at all times, in (0, 1).
            grid: Number of candidate means, at least 3. Limits are rounded outward to candidates.

        Raises:
            ValueError: If an option is out of range.
        """
        import numpy as np

        check_range(low, high)
        check_level(confidence_level)
        if grid < 3:
            raise ValueError(f"grid must be at least 3, got {grid}")
        self.low, self.high, self.confidence_level, self.grid = low, high, confidence_level, grid
        self.n = 0
        self._sum = 0.0
        self._squares = 0.0
        # Candidates `first` to `first + len - 1` of the grid are not rejected.
        self._first = 0
        self._up: NDArray[np.float64] = np.zeros(grid)
        self._down: NDArray[np.float64] = np.zeros(grid)

    @property
    def mean(self) -> float | None:
        """Mean of the values so far, or None without values."""
        return None if self.n == 0 else self.low + (self.high - self.low) * self._sum / self.n

    def update(self, x: float) -> None:
        """Add the next value.

        Raises:
            ValueError: If the value is not in [low, high].
        """
        import numpy as np

        value = unit(x, self.low, self.high)
        t = self.n + 1
        # One pseudo-value gives an initial mean of 1/2 and variance of 1/4. The bet depends only on past values.
        variance = (0.25 + self._squares) / t
        bet = math.sqrt(2 * math.log(2 / (1 - self.confidence_level)) / (variance * t * math.log1p(t)))
        m = np.arange(self._first, self._first + self._up.size) / (self.grid - 1)
        with np.errstate(divide="ignore"):
            up, down = np.minimum(bet, _CAP / m), np.minimum(bet, _CAP / (1 - m))
        self._up += np.log1p(up * (value - m))
        self._down += np.log1p(-down * (value - m))
        self.n = t
        self._sum += value
        self._squares += (value - (0.5 + self._sum) / (t + 1)) ** 2
        # The first capital decreases with the candidate and the second increases, so each rejects candidates at one end.
        threshold = math.log(2 / (1 - self.confidence_level))
        begin = int((self._up >= threshold).sum())
        end = self._up.size - int((self._down >= threshold).sum())
        if begin or end < self._up.size:
            self._first += begin
            self._up, self._down = self._up[begin : max(begin, end)], self._down[begin : max(begin, end)]

    def interval(self) -> Bounds | None:
        """Return the current interval, or None if no constant mean is consistent with the stream."""
        if not self._up.size:
            return None
        # Extend by one candidate, because means between a rejected and a remaining candidate may not be rejected.
        step, width = 1 / (self.grid - 1), self.high - self.low
        first, last = self._first - 1, self._first + self._up.size
        return Bounds(self.low + width * max(0.0, first * step), self.low + width * min(1.0, last * step))

    def state(self) -> State:
        """Return the state as plain data for a store."""
        return {
            "kind": _KIND,
            "low": self.low,
            "high": self.high,
            "confidence_level": self.confidence_level,
            "grid": self.grid,
            "n": self.n,
            "sum": self._sum,
            "squares": self._squares,
            "first": self._first,
            "up": self._up.tolist(),
            "down": self._down.tolist(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Resume from a state returned by `state()`.

        Raises:
            ValueError: If the state has a different kind.
        """
        import numpy as np

        read_state(state, _KIND)
        new = cls(low=state["low"], high=state["high"], confidence_level=state["confidence_level"], grid=state["grid"])
        new.n, new._sum, new._squares = state["n"], state["sum"], state["squares"]
        new._first = state["first"]
        new._up, new._down = np.asarray(state["up"], dtype=float), np.asarray(state["down"], dtype=float)
        return new
