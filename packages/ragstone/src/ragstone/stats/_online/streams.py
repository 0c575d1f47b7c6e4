"""Confidence sequences for rates, for scores with missing values, and for paired differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from ragstone.stats._mean import Bounds
from ragstone.stats._online.betting import BettingSequence
from ragstone.stats._online.common import State, check_level, check_range, read_state
from ragstone.stats._sequential import beta_mixture_interval

_PROPORTION: Final = "proportion"
_MANSKI: Final = "manski"
_DIFFERENCE: Final = "difference"


class ProportionSequence:
    """Confidence sequence for a rate (for example of failures or abstentions), from two counts.

    See `beta_mixture_interval`.

    Examples:
        >>> sequence = ProportionSequence()
        >>> for _ in range(20):
        ...     sequence.update(False)
        >>> low, high = sequence.interval()
        >>> low, round(high, 2)
        (0.0, 0.22)
    """

    def __init__(self, *, confidence_level: float = 0.95) -> None:
        """Create a sequence without items.

        Args:
            confidence_level: Probability that the interval contains the rate at all times, in (0, 1).
        """
        check_level(confidence_level)
        self.confidence_level = confidence_level
        self.n = 0
        self.successes = 0

    @property
    def mean(self) -> float | None:
        """Share of successes so far, or None without items."""
        return None if self.n == 0 else self.successes / self.n

    def update(self, x: float) -> None:
        """Add the next item: True or 1, False or 0.

        Raises:
            ValueError: If the item has another value.
        """
        if x not in (0, 1):
            raise ValueError(f"an item must be True or False (1 or 0), got {x}. Use BettingSequence for other scores")
        self.n += 1
        self.successes += int(x)

    def interval(self) -> Bounds | None:
        """Return the current interval, which is never None."""
        return beta_mixture_interval(self.successes, self.n, confidence_level=self.confidence_level)

    def state(self) -> State:
        """Return the state as plain data for a store."""
        return {
            "kind": _PROPORTION,
            "confidence_level": self.confidence_level,
            "n": self.n,
            "successes": self.successes,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Resume from a state returned by `state()`.

        Raises:
            ValueError: If the state has a different kind.
        """
        read_state(state, _PROPORTION)
        new = cls(confidence_level=state["confidence_level"])
        new.n, new.successes = state["n"], state["successes"]
        return new


class ManskiSequence:
    """Confidence sequence for the mean of a stream with missing values, valid for any reason of missingness.

    It consists of two sequences. One replaces each missing value by the lowest possible value and gives the lower limit.
    The other uses the highest possible value and gives the upper limit. The interval is therefore valid at all times, even
    if only bad responses time out. It cannot become narrower than the share of missing values.

    `failures` is a separate sequence for the rate of missing values.

    Source:
        Worst-case bounds: Manski 1989. Sequences: Waudby-Smith and Ramdas 2023.

    Examples:
        >>> sequence = ManskiSequence()
        >>> for x in [0.8, 0.9, None, 0.7] * 25:
        ...     sequence.update(x)
        >>> low, high = sequence.interval()
        >>> low < 0.6 and high > 0.85, sequence.failures.mean
        (True, 0.25)
    """

    def __init__(
        self, *, low: float = 0.0, high: float = 1.0, confidence_level: float = 0.95, grid: int = 1001
    ) -> None:
        """Create a sequence without items. The options are those of `BettingSequence`."""
        self.pessimist = BettingSequence(low=low, high=high, confidence_level=confidence_level, grid=grid)
        self.optimist = BettingSequence(low=low, high=high, confidence_level=confidence_level, grid=grid)
        self.failures = ProportionSequence(confidence_level=confidence_level)

    @property
    def n(self) -> int:
        """Number of items so far, with and without a value."""
        return self.pessimist.n

    def update(self, x: float | None) -> None:
        """Add the next item, with None for a missing value.

        Raises:
            ValueError: If the value is not in [low, high].
        """
        if x is None:
            self.pessimist.update(self.pessimist.low)
            self.optimist.update(self.optimist.high)
        else:
            self.pessimist.update(x)
            self.optimist.update(x)
        self.failures.update(x is None)

    def interval(self) -> Bounds | None:
        """Return the current interval, or None if no constant mean is consistent with the stream.

        Each limit has half of the error probability, so both together have the confidence level.
        """
        below, above = self.pessimist.interval(), self.optimist.interval()
        if below is None or above is None or below.low > above.high:
            return None
        return Bounds(below.low, above.high)

    def state(self) -> State:
        """Return the state as plain data for a store."""
        return {
            "kind": _MANSKI,
            "pessimist": self.pessimist.state(),
            "optimist": self.optimist.state(),
            "failures": self.failures.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Resume from a state returned by `state()`.

        Raises:
            ValueError: If the state has a different kind.
        """
        read_state(state, _MANSKI)
        new = cls()
        new.pessimist = BettingSequence.from_state(state["pessimist"])
        new.optimist = BettingSequence.from_state(state["optimist"])
        new.failures = ProportionSequence.from_state(state["failures"])
        return new


class DifferenceSequence:
    """Confidence sequence for the difference of two versions scored on the same requests, second minus first.

    A `BettingSequence` uses the paired differences, which are in [low - high, high - low]. The comparison may stop as soon
    as the interval excludes 0.

    Examples:
        >>> sequence = DifferenceSequence()
        >>> for old, new in [(0.5, 0.8), (0.6, 0.8), (0.7, 0.8)] * 20:
        ...     sequence.update(old, new)
        >>> low, high = sequence.interval()
        >>> 0 < low < 0.2 < high
        True
    """

    def __init__(
        self, *, low: float = 0.0, high: float = 1.0, confidence_level: float = 0.95, grid: int = 1001
    ) -> None:
        """Create a sequence without pairs.

        `low` and `high` are the range of one score. The other options are those of `BettingSequence`.
        """
        check_range(low, high)
        self.sequence = BettingSequence(low=low - high, high=high - low, confidence_level=confidence_level, grid=grid)

    @property
    def n(self) -> int:
        """Number of pairs so far."""
        return self.sequence.n

    @property
    def mean(self) -> float | None:
        """Mean difference so far, second minus first, or None without pairs."""
        return self.sequence.mean

    def update(self, first: float, second: float) -> None:
        """Add both scores of one request.

        Raises:
            ValueError: If the difference exceeds the width of the range.
        """
        self.sequence.update(second - first)

    def interval(self) -> Bounds | None:
        """Return the current interval of second minus first, or None if no constant difference is consistent."""
        return self.sequence.interval()

    def state(self) -> State:
        """Return the state as plain data for a store."""
        return {"kind": _DIFFERENCE, "sequence": self.sequence.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Resume from a state returned by `state()`.

        Raises:
            ValueError: If the state has a different kind.
        """
        read_state(state, _DIFFERENCE)
        new = cls()
        new.sequence = BettingSequence.from_state(state["sequence"])
        return new
