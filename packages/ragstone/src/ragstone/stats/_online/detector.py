"""An alarm for a mean that has moved, with a promise about false alarms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Self

from ragstone.stats._online.common import State, check_range, read_state, unit

__all__ = ["ShiryaevRobertsDetector"]

_KIND: Final = "shiryaev_roberts"
_BETS: Final = (0.0625, 0.125, 0.25, 0.5)
"""Shares of the largest possible bet: small ones find small drops, large ones find large drops soon."""


class ShiryaevRobertsDetector:
    """Watches a bounded stream for a mean below (or above) a reference; alarms when the evidence reaches 1 / alpha.

    The evidence is M = (M + 1)(1 + bet (reference - x)), started anew at every item, averaged over a few bets. As long as
    the mean is at least the reference, whatever the distribution, the mean number of items up to a false alarm is at
    least 1 / alpha. How soon a real drop is found depends on its size and on the spread of the scores.

    What it needs: values in [low, high], and a reference that was fixed before the stream began: a target, or the lower
    end of an earlier period's interval. An average of the earlier period will not do, for the stream may lie a little
    below it by chance alone. After a deliberate change of judge, prompt or model start a new detector: scores of two
    judges are not one stream.

    Source:
        Shin, Ramdas and Rinaldo 2024, "E-detectors: a nonparametric framework for sequential change detection";
        Shiryaev 1963; Roberts 1966.

    Example:
        >>> detector = ShiryaevRobertsDetector(0.8, alpha=0.002)
        >>> for x in [0.8] * 50 + [0.5] * 50:
        ...     if detector.update(x):
        ...         break
        >>> 50 < detector.alarm_at <= 100
        True
    """

    def __init__(
        self,
        reference: float,
        *,
        direction: Literal["drop", "rise"] = "drop",
        alpha: float = 0.001,
        low: float = 0.0,
        high: float = 1.0,
        bets: Sequence[float] = _BETS,
    ) -> None:
        """Start watching.

        Args:
            reference: The mean that is fine, strictly inside [low, high].
            direction: "drop" alarms when the mean is below it, "rise" when it is above (a failure rate).
            alpha: At most one false alarm in 1 / alpha items on average; in (0, 1).
            low: Smallest possible value.
            high: Largest possible value.
            bets: Shares of the largest possible bet, in (0, 1]; one for a change of known size, several otherwise.

        Raises:
            ValueError: An option out of range.
        """
        check_range(low, high)
        if not low < reference < high:
            raise ValueError(
                f"the reference must lie inside ({low!r}, {high!r}), got {reference!r}: nothing is below the lowest value"
            )
        if direction not in ("drop", "rise"):
            raise ValueError(f"direction must be 'drop' or 'rise', got {direction!r}")
        if not 0 < alpha < 1:
            raise ValueError(f"alpha must lie in (0, 1), got {alpha!r}")
        if not bets or not all(0 < bet <= 1 for bet in bets):
            raise ValueError(f"bets are shares in (0, 1], at least one, got {tuple(bets)!r}")
        self.reference, self.direction, self.alpha, self.low, self.high = reference, direction, alpha, low, high
        self.bets = tuple(bets)
        self.n = 0
        self.alarm_at: int | None = None
        """Number of the item at which the alarm was raised, from 1; it stays until `reset`."""
        self._log = [-math.inf] * len(self.bets)

    @property
    def evidence(self) -> float:
        """Share of the way to an alarm, on the scale of logarithms: 1 is an alarm; a quiet stream stays near 0.3."""
        return max(0.0, self._log_mean() / -math.log(self.alpha))

    def update(self, x: float) -> bool:
        """Take in the next value; True once there is an alarm.

        Raises:
            ValueError: It is not in [low, high].
        """
        value, good = unit(x, self.low, self.high), unit(self.reference, self.low, self.high)
        if self.direction == "rise":
            value, good = 1 - value, 1 - good
        self.n += 1
        for i, share in enumerate(self.bets):
            # The largest bet that cannot lose more than everything, at x = 1, is 1 / (1 - reference).
            factor = 1 + share * (good - value) / (1 - good)
            # log(M + 1) without leaving the scale of logarithms, where long streams would overflow.
            grown = max(self._log[i], 0.0) + math.log1p(math.exp(-abs(self._log[i])))
            self._log[i] = grown + math.log(factor) if factor > 0 else -math.inf
        if self.alarm_at is None and self._log_mean() >= -math.log(self.alpha):
            self.alarm_at = self.n
        return self.alarm_at is not None

    def reset(self) -> None:
        """Forget the evidence and the alarm; the count of items goes on."""
        self._log = [-math.inf] * len(self.bets)
        self.alarm_at = None

    def _log_mean(self) -> float:
        largest = max(self._log)
        if largest == -math.inf:
            return largest
        return largest + math.log(math.fsum(math.exp(v - largest) for v in self._log) / len(self._log))

    def state(self) -> State:
        """All of it as plain data, for a store."""
        return {
            "kind": _KIND,
            "reference": self.reference,
            "direction": self.direction,
            "alpha": self.alpha,
            "low": self.low,
            "high": self.high,
            "bets": list(self.bets),
            "n": self.n,
            "alarm_at": self.alarm_at,
            # JSON knows no infinity.
            "log": [None if v == -math.inf else v for v in self._log],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Go on where `state()` was taken.

        Raises:
            ValueError: A state of another kind.
        """
        read_state(state, _KIND)
        options = {name: state[name] for name in ("direction", "alpha", "low", "high", "bets")}
        made = cls(state["reference"], **options)
        made.n, made.alarm_at = state["n"], state["alarm_at"]
        made._log = [-math.inf if v is None else v for v in state["log"]]
        return made
