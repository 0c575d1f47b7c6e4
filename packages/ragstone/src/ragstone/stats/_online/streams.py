"""Streams of more than plain scores: yes or no, scores that may be missing, and two versions side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from ragstone.stats._online.betting import BettingSequence
from ragstone.stats._online.common import State, check_level, check_range, read_state
from ragstone.stats._sequential import beta_mixture_interval

__all__ = ["DifferenceSequence", "ManskiSequence", "ProportionSequence"]

_PROPORTION: Final = "proportion"
_MANSKI: Final = "manski"
_DIFFERENCE: Final = "difference"


class ProportionSequence:
    """An interval for a rate, valid at all times at once, from two counts.

    For failures, abstentions, passes. See `beta_mixture_interval`.

    Example:
        >>> sequence = ProportionSequence()
        >>> for _ in range(20):
        ...     sequence.update(False)
        >>> low, high = sequence.interval()
        >>> low, round(high, 2)
        (0.0, 0.22)
    """

    def __init__(self, *, confidence_level: float = 0.95) -> None:
        """Start with nothing seen; `confidence_level` is the probability that the interval never misses."""
        check_level(confidence_level)
        self.confidence_level = confidence_level
        self.n = 0
        self.successes = 0

    @property
    def mean(self) -> float | None:
        """The share so far; None without any item."""
        return None if self.n == 0 else self.successes / self.n

    def update(self, x: float) -> None:
        """Take in the next item: True or 1, False or 0.

        Raises:
            ValueError: Anything else.
        """
        if x not in (0, 1):
            raise ValueError(
                f"a rate counts True and False (1 and 0), got {x!r}; BettingSequence takes scores in between"
            )
        self.n += 1
        self.successes += int(x)

    def interval(self) -> tuple[float, float] | None:
        """The interval now; it always exists."""
        return beta_mixture_interval(self.successes, self.n, confidence_level=self.confidence_level)

    def state(self) -> State:
        """All of it as plain data, for a store."""
        return {
            "kind": _PROPORTION,
            "confidence_level": self.confidence_level,
            "n": self.n,
            "successes": self.successes,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Go on where `state()` was taken.

        Raises:
            ValueError: A state of another kind.
        """
        read_state(state, _PROPORTION)
        made = cls(confidence_level=state["confidence_level"])
        made.n, made.successes = state["n"], state["successes"]
        return made


class ManskiSequence:
    """An interval for the mean of a stream of which some values are missing, for whatever reason.

    Two sequences run side by side, one that takes a missing value for the lowest possible and gives the lower end, one
    that takes it for the highest and gives the upper end. So the interval holds, at all times at once, even if only the
    bad answers time out. It cannot become narrower than the share that is missing.

    Its `failures` are a stream of their own: an interval for the rate, and something to raise an alarm about.

    Source:
        Manski 1989 (worst-case bounds); Waudby-Smith and Ramdas 2023 (the sequences).

    Example:
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
        """Start with nothing seen; the options are those of `BettingSequence`."""
        self.pessimist = BettingSequence(low=low, high=high, confidence_level=confidence_level, grid=grid)
        self.optimist = BettingSequence(low=low, high=high, confidence_level=confidence_level, grid=grid)
        self.failures = ProportionSequence(confidence_level=confidence_level)

    @property
    def n(self) -> int:
        """Items so far, with and without a value."""
        return self.pessimist.n

    def update(self, x: float | None) -> None:
        """Take in the next item; None where its value is missing.

        Raises:
            ValueError: It is not in [low, high].
        """
        if x is None:
            self.pessimist.update(self.pessimist.low)
            self.optimist.update(self.optimist.high)
        else:
            self.pessimist.update(x)
            self.optimist.update(x)
        self.failures.update(x is None)

    def interval(self) -> tuple[float, float] | None:
        """The interval now; None where no single mean can have made this stream.

        Each end is wrong with half the probability, so that one level covers both.
        """
        below, above = self.pessimist.interval(), self.optimist.interval()
        if below is None or above is None or below[0] > above[1]:
            return None
        return below[0], above[1]

    def state(self) -> State:
        """All of it as plain data, for a store."""
        return {
            "kind": _MANSKI,
            "pessimist": self.pessimist.state(),
            "optimist": self.optimist.state(),
            "failures": self.failures.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Go on where `state()` was taken.

        Raises:
            ValueError: A state of another kind.
        """
        read_state(state, _MANSKI)
        made = cls()
        made.pessimist = BettingSequence.from_state(state["pessimist"])
        made.optimist = BettingSequence.from_state(state["optimist"])
        made.failures = ProportionSequence.from_state(state["failures"])
        return made


class DifferenceSequence:
    """An interval for how much better the second of two versions is, both scored on the same requests.

    The paired differences lie in [low - high, high - low]; a `BettingSequence` watches them. One may stop as soon as 0
    is out.

    Example:
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
        """Start with nothing seen; `low` and `high` are the range of one score, the others as for `BettingSequence`."""
        check_range(low, high)
        self.sequence = BettingSequence(low=low - high, high=high - low, confidence_level=confidence_level, grid=grid)

    @property
    def n(self) -> int:
        """Pairs so far."""
        return self.sequence.n

    @property
    def mean(self) -> float | None:
        """Mean difference so far, second minus first; None without a pair."""
        return self.sequence.mean

    def update(self, first: float, second: float) -> None:
        """Take in both scores of one request.

        Raises:
            ValueError: They are further apart than the range is wide.
        """
        self.sequence.update(second - first)

    def interval(self) -> tuple[float, float] | None:
        """The interval of second minus first now; None where no single difference can have made this stream."""
        return self.sequence.interval()

    def state(self) -> State:
        """All of it as plain data, for a store."""
        return {"kind": _DIFFERENCE, "sequence": self.sequence.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Go on where `state()` was taken.

        Raises:
            ValueError: A state of another kind.
        """
        read_state(state, _DIFFERENCE)
        made = cls()
        made.sequence = BettingSequence.from_state(state["sequence"])
        return made
