"""The hedged betting confidence sequence for the mean of a bounded stream."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from ragstone.stats._online.common import State, check_level, check_range, read_state, unit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["BettingSequence"]

_KIND: Final = "betting"
_CAP: Final = 0.5
"""Share of its capital that a bettor puts at stake at most."""


class BettingSequence:
    """An interval for the mean of a bounded stream, valid at all times at once.

    For every candidate mean two bettors start with the capital 1, one betting that values are higher, one that they are
    lower. If the candidate is the mean, neither game is favourable, and the chance that either ever multiplies its
    capital by 2 / (1 - level) is at most 1 - level. Candidates that were beaten are out for good.

    What it needs: values in [low, high], and a mean that stays the same given the past. Nothing else about their
    distribution. Where the mean moves, the lower end still lies below the largest of the means so far and the upper end
    above the smallest; and once no candidate is left, `interval()` is None: a moved mean, or the 5 % chance.

    An update costs time and memory for the candidates that are left, at most `grid`.

    Source:
        Waudby-Smith and Ramdas 2023, section 4.4 (hedged capital, predictable plug-in bets), truncated at 1/2; Ville 1939.

    Example:
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
        """Start with no value seen.

        Args:
            low: Smallest possible value.
            high: Largest possible value.
            confidence_level: Probability that the interval never misses, in (0, 1).
            grid: Candidate means, at least 3; ends are rounded outward to them.

        Raises:
            ValueError: An option out of range.
        """
        import numpy as np

        check_range(low, high)
        check_level(confidence_level)
        if grid < 3:
            raise ValueError(f"grid must be at least 3, got {grid!r}")
        self.low, self.high, self.confidence_level, self.grid = low, high, confidence_level, grid
        self.n = 0
        self._sum = 0.0
        self._squares = 0.0
        # Candidates `first` to `first + len - 1` of the grid are not beaten from either side.
        self._first = 0
        self._up: NDArray[np.float64] = np.zeros(grid)
        self._down: NDArray[np.float64] = np.zeros(grid)

    @property
    def mean(self) -> float | None:
        """Of the values so far; None without any."""
        return None if self.n == 0 else self.low + (self.high - self.low) * self._sum / self.n

    def update(self, x: float) -> None:
        """Take in the next value.

        Raises:
            ValueError: It is not in [low, high].
        """
        import numpy as np

        value = unit(x, self.low, self.high)
        t = self.n + 1
        # With one pseudo-value: mean 1/2 and variance 1/4 before anything is seen. The bet knows the past alone.
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
        # The first bettor's capital falls with the candidate, the second's rises: what each has beaten lies at one end.
        threshold = math.log(2 / (1 - self.confidence_level))
        begin = int((self._up >= threshold).sum())
        end = self._up.size - int((self._down >= threshold).sum())
        if begin or end < self._up.size:
            self._first += begin
            self._up, self._down = self._up[begin : max(begin, end)], self._down[begin : max(begin, end)]

    def interval(self) -> tuple[float, float] | None:
        """The interval now; None where no single mean can have made this stream."""
        if not self._up.size:
            return None
        # One candidate outward: between two candidates the outer one may be the only one that is beaten.
        step, width = 1 / (self.grid - 1), self.high - self.low
        first, last = self._first - 1, self._first + self._up.size
        return self.low + width * max(0.0, first * step), self.low + width * min(1.0, last * step)

    def state(self) -> State:
        """All of it as plain data, for a store."""
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
        """Go on where `state()` was taken.

        Raises:
            ValueError: A state of another kind.
        """
        import numpy as np

        read_state(state, _KIND)
        made = cls(low=state["low"], high=state["high"], confidence_level=state["confidence_level"], grid=state["grid"])
        made.n, made._sum, made._squares = state["n"], state["sum"], state["squares"]
        made._first = state["first"]
        made._up, made._down = np.asarray(state["up"], dtype=float), np.asarray(state["down"], dtype=float)
        return made
