"""The empirical-Bernstein confidence sequence, with a constant-size state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Self

from ragstone.stats._mean import Bounds
from ragstone.stats._online.common import State, check_level, check_range, read_state, unit

_KIND: Final = "empirical_bernstein"
_CAP: Final = 0.5


class BernsteinSequence:
    """Confidence sequence for the mean of a bounded stream, valid at all times simultaneously, with six numbers of state.

    It is wider than `BettingSequence`, especially for the first hundred values, and an update takes 1 to 2 microseconds.
    If the mean changes, it remains an interval for the weighted mean of the means so far, with larger weights for early
    values. It does not report such a change.

    The method assumes values in [low, high].

    Source:
        Waudby-Smith and Ramdas 2023, theorem 2 (predictable plug-in empirical Bernstein), truncated at 1/2.

    Examples:
        >>> sequence = BernsteinSequence()
        >>> for x in [0.9, 0.8, 0.7, 1.0, 0.9] * 20:
        ...     sequence.update(x)
        >>> low, high = sequence.interval()
        >>> low < 0.86 < high
        True
    """

    __slots__ = ("_bets", "_penalty", "_squares", "_sum", "_weighted", "confidence_level", "high", "low", "n")

    def __init__(self, *, low: float = 0.0, high: float = 1.0, confidence_level: float = 0.95) -> None:
        """Create a sequence without values.

        Args:
            low: Smallest possible value.
            high: Largest possible value.
            confidence_level: Probability that the interval contains the mean at all times, in (0, 1).

        Raises:
            ValueError: If an option is out of range.
        """
        check_range(low, high)
        check_level(confidence_level)
        self.low, self.high, self.confidence_level = low, high, confidence_level
        self.n = 0
        self._sum = self._squares = self._bets = self._weighted = self._penalty = 0.0

    @property
    def mean(self) -> float | None:
        """Mean of the values so far, or None without values."""
        return None if self.n == 0 else self.low + (self.high - self.low) * self._sum / self.n

    def update(self, x: float) -> None:
        """Add the next value.

        Raises:
            ValueError: If the value is not in [low, high].
        """
        value = unit(x, self.low, self.high)
        t = self.n + 1
        # Mean and variance of past values, with one pseudo-value (mean 1/2, variance 1/4).
        before = (0.5 + self._sum) / t
        variance = (0.25 + self._squares) / t
        bet = min(_CAP, math.sqrt(2 * math.log(2 / (1 - self.confidence_level)) / (variance * t * math.log1p(t))))
        self._bets += bet
        self._weighted += bet * value
        # 4 (x - mean)^2 times (-log(1 - bet) - bet) / 4.
        self._penalty += (value - before) ** 2 * (-math.log1p(-bet) - bet)
        self.n = t
        self._sum += value
        self._squares += (value - (0.5 + self._sum) / (t + 1)) ** 2

    def interval(self) -> Bounds | None:
        """Return the current interval, which is never None."""
        if not self.n:
            return Bounds(self.low, self.high)
        center = self._weighted / self._bets
        half = (math.log(2 / (1 - self.confidence_level)) + self._penalty) / self._bets
        width = self.high - self.low
        return Bounds(self.low + width * max(0.0, center - half), self.low + width * min(1.0, center + half))

    def state(self) -> State:
        """Return the state as plain data for a store."""
        return {"kind": _KIND} | {name.removeprefix("_"): getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Resume from a state returned by `state()`.

        Raises:
            ValueError: If the state has a different kind.
        """
        read_state(state, _KIND)
        new = cls(low=state["low"], high=state["high"], confidence_level=state["confidence_level"])
        for name in cls.__slots__:
            setattr(new, name, state[name.removeprefix("_")])
        return new
