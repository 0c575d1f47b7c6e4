"""The empirical-Bernstein confidence sequence: a few numbers of state, and no grid."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Self

from ragstone.stats._online.common import State, check_level, check_range, read_state, unit

__all__ = ["BernsteinSequence"]

_KIND: Final = "empirical_bernstein"
_CAP: Final = 0.5


class BernsteinSequence:
    """An interval for the mean of a bounded stream, valid at all times at once, from six numbers.

    It is wider than `BettingSequence`, most of all for the first hundred values, and an update costs a microsecond or
    two. Where the mean moves it stays an interval for the weighted mean of the means so far, with weights that favour
    the early values: it does not break, and it does not tell either.

    What it needs: values in [low, high].

    Source:
        Waudby-Smith and Ramdas 2023, theorem 2 (predictable plug-in empirical Bernstein), truncated at 1/2.

    Example:
        >>> sequence = BernsteinSequence()
        >>> for x in [0.9, 0.8, 0.7, 1.0, 0.9] * 20:
        ...     sequence.update(x)
        >>> low, high = sequence.interval()
        >>> low < 0.86 < high
        True
    """

    __slots__ = ("_bets", "_penalty", "_squares", "_sum", "_weighted", "confidence_level", "high", "low", "n")

    def __init__(self, *, low: float = 0.0, high: float = 1.0, confidence_level: float = 0.95) -> None:
        """Start with no value seen.

        Args:
            low: Smallest possible value.
            high: Largest possible value.
            confidence_level: Probability that the interval never misses, in (0, 1).

        Raises:
            ValueError: An option out of range.
        """
        check_range(low, high)
        check_level(confidence_level)
        self.low, self.high, self.confidence_level = low, high, confidence_level
        self.n = 0
        self._sum = self._squares = self._bets = self._weighted = self._penalty = 0.0

    @property
    def mean(self) -> float | None:
        """Of the values so far; None without any."""
        return None if self.n == 0 else self.low + (self.high - self.low) * self._sum / self.n

    def update(self, x: float) -> None:
        """Take in the next value.

        Raises:
            ValueError: It is not in [low, high].
        """
        value = unit(x, self.low, self.high)
        t = self.n + 1
        # Mean and variance of the past, with one pseudo-value of 1/2 and 1/4.
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

    def interval(self) -> tuple[float, float] | None:
        """The interval now; it always exists."""
        if not self.n:
            return self.low, self.high
        centre = self._weighted / self._bets
        half = (math.log(2 / (1 - self.confidence_level)) + self._penalty) / self._bets
        width = self.high - self.low
        return self.low + width * max(0.0, centre - half), self.low + width * min(1.0, centre + half)

    def state(self) -> State:
        """All of it as plain data, for a store."""
        return {"kind": _KIND} | {name.removeprefix("_"): getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Go on where `state()` was taken.

        Raises:
            ValueError: A state of another kind.
        """
        read_state(state, _KIND)
        made = cls(low=state["low"], high=state["high"], confidence_level=state["confidence_level"])
        for name in cls.__slots__:
            setattr(made, name, state[name.removeprefix("_")])
        return made
