"""Detection of a changed mean, with a bounded rate of false alarms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Self

from ragstone.stats._online.common import State, check_range, read_state, unit

_KIND: Final = "shiryaev_roberts"
_BETS: Final = (0.0625, 0.125, 0.25, 0.5)
"""Shares of the largest possible bet. Small bets detect small drops, and large bets detect large drops quickly."""


class ShiryaevRobertsDetector:
    """Detector of a mean below (or above) a reference in a bounded stream. It alarms if the evidence reaches 1 / alpha.

    The evidence is M = (M + 1)(1 + bet (reference - x)), which restarts at every item, averaged over several bets. If the
    mean is at least the reference, the expected number of items until a false alarm is at least 1 / alpha, for any
    distribution. The delay until a real drop is detected depends on its size and on the variance of the scores.

    The method assumes values in [low, high], and a reference that is fixed before the stream begins: a target, or the
    lower confidence limit of an earlier period. The mean of an earlier period is not suitable, because the true mean may
    be slightly below it by chance. After a deliberate change of judge, prompt or model, create a new detector, because
    scores of different judges are not comparable.

    Source:
        Shin, Ramdas and Rinaldo 2024, "E-detectors: a nonparametric framework for sequential change detection".
        Shiryaev 1963. Roberts 1966.

    Examples:
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
        """Create a detector without values.

        Args:
            reference: Acceptable mean, strictly between `low` and `high`.
            direction: "drop" detects a mean below the reference, "rise" a mean above it (for example a failure rate).
            alpha: Rate of false alarms: on average at most one in 1 / alpha items, in (0, 1).
            low: Smallest possible value.
            high: Largest possible value.
            bets: Shares of the largest possible bet, in (0, 1]. Use one for a change of known size, else several.

        Raises:
            ValueError: If an option is out of range.
        """
        check_range(low, high)
        if not low < reference < high:
            raise ValueError(f"reference must be strictly between low and high ({low} and {high}), got {reference}")
        if direction not in ("drop", "rise"):
            raise ValueError(f"direction must be 'drop' or 'rise', got {direction!r}")
        if not 0 < alpha < 1:
            raise ValueError(f"alpha must be in (0, 1), got {alpha}")
        if not bets or not all(0 < bet <= 1 for bet in bets):
            raise ValueError(f"bets must be shares in (0, 1], at least one, got {list(map(float, bets))}")
        self.reference, self.direction, self.alpha, self.low, self.high = reference, direction, alpha, low, high
        self.bets = tuple(bets)
        self.n = 0
        self.alarm_at: int | None = None
        """Number of the item, from 1, at which the alarm was raised. It is kept until `reset`."""
        self._log = [-math.inf] * len(self.bets)

    @property
    def evidence(self) -> float:
        """Evidence relative to the alarm threshold, on a log scale. 1 is an alarm, and about 0.3 is usual without a drop."""
        return max(0.0, self._log_mean() / -math.log(self.alpha))

    def update(self, x: float) -> bool:
        """Add the next value and return whether an alarm has been raised.

        Raises:
            ValueError: If the value is not in [low, high].
        """
        value, good = unit(x, self.low, self.high), unit(self.reference, self.low, self.high)
        if self.direction == "rise":
            value, good = 1 - value, 1 - good
        self.n += 1
        for i, share in enumerate(self.bets):
            # The largest bet that cannot lose more than everything, at x = 1, is 1 / (1 - reference).
            factor = 1 + share * (good - value) / (1 - good)
            # Compute log(M + 1) from log(M), because M overflows in long streams.
            grown = max(self._log[i], 0.0) + math.log1p(math.exp(-abs(self._log[i])))
            self._log[i] = grown + math.log(factor) if factor > 0 else -math.inf
        if self.alarm_at is None and self._log_mean() >= -math.log(self.alpha):
            self.alarm_at = self.n
        return self.alarm_at is not None

    def reset(self) -> None:
        """Clear the evidence and the alarm. The count of items continues."""
        self._log = [-math.inf] * len(self.bets)
        self.alarm_at = None

    def _log_mean(self) -> float:
        largest = max(self._log)
        if largest == -math.inf:
            return largest
        return largest + math.log(math.fsum(math.exp(v - largest) for v in self._log) / len(self._log))

    def state(self) -> State:
        """Return the state as plain data for a store."""
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
            # JSON does not support infinity.
            "log": [None if v == -math.inf else v for v in self._log],
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Resume from a state returned by `state()`.

        Raises:
            ValueError: If the state has a different kind.
        """
        read_state(state, _KIND)
        options = {name: state[name] for name in ("direction", "alpha", "low", "high", "bets")}
        new = cls(state["reference"], **options)
        new.n, new.alarm_at = state["n"], state["alarm_at"]
        new._log = [-math.inf if v is None else v for v in state["log"]]
        return new
