"""The confidence sequence for a rate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from ragstone.stats._mean import Bounds
from ragstone.stats._online.common import State, check_level, read_state
from ragstone.stats._sequential import beta_mixture_interval

_KIND: Final = "proportion"


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
        return {"kind": _KIND, "confidence_level": self.confidence_level, "n": self.n, "successes": self.successes}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Resume from a state returned by `state()`.

        Raises:
            ValueError: If the state has a different kind.
        """
        read_state(state, _KIND)
        new = cls(confidence_level=state["confidence_level"])
        new.n, new.successes = state["n"], state["successes"]
        return new
