"""Detection of a changed mean with a bounded number of false alarms per quarter, over all streams together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Literal, Self

_DETECTOR: Final = "calendar"
_BUDGET: Final = "alarm_budget"
_DAY_S: Final = 86_400.0
_LONGEST_S: Final = 7 * _DAY_S

QUARTER_S: Final = 365.25 / 4 * _DAY_S
"""A quarter of a year in seconds."""

BETS: Final = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
"""Shares of the largest possible bet. Small bets detect small drops, and large bets detect large drops quickly."""

State = dict[str, Any]
"""State as numbers, texts and lists of numbers, serializable as JSON."""

_SAME = 1e-9


class AlarmBudget:
    """The number of false alarms that a group of detectors may be expected to raise, as a function of calendar time.

    The budget grows by `per_quarter` in each quarter, and `take` moves a part of it to one detector. The sum of all
    parts never exceeds what has accrued since `start`, for any number of streams, at any traffic and if streams pause.
    At most seven days can be saved: the parts of any period are at most the budget of this period plus seven days.

    Args:
        per_quarter: Expected number of false alarms per quarter, positive.
        start: Start of the first period, Unix seconds.

    Examples:
        >>> budget = AlarmBudget(1.0, start=0.0)
        >>> part = budget.take(0.0, QUARTER_S / 100, n_streams=2)
        >>> round(part, 6)
        0.005
    """

    def __init__(self, per_quarter: float = 1.0, *, start: float) -> None:
        """Create a budget that is empty at `start`.

        Raises:
            ValueError: If a number is not finite or `per_quarter` is not positive.
        """
        if not (math.isfinite(per_quarter) and per_quarter > 0):
            raise ValueError(f"the number of false alarms per quarter must be positive, got {per_quarter}")
        if not math.isfinite(start):
            raise ValueError(f"start must be a finite number of seconds, got {start}")
        self.per_quarter = per_quarter
        self._at = start
        self._left = 0.0

    def take(self, since: float, at: float, *, n_streams: int) -> float:
        """Return the part of one stream for the time from its last unit to this one, and subtract it from the budget.

        The part is an equal share of at most seven days. It is smaller if the budget has less.

        Args:
            since: Closing time of the last unit of this stream, Unix seconds.
            at: Closing time of this unit, Unix seconds. Times before the last call add nothing to the budget.
            n_streams: Number of streams that share the budget now, at least 1.
        """
        rate = self.per_quarter / QUARTER_S
        if at > self._at:
            self._left = min(self._left + rate * (at - self._at), rate * _LONGEST_S)
            self._at = at
        part = min(rate * min(max(0.0, at - since), _LONGEST_S) / n_streams, self._left)
        self._left -= part
        return part

    def put_back(self, now: float) -> None:
        """Continue from a time if the budget is later, because the clock was ahead for a while.

        Otherwise nothing would be spent, and no alarm raised, until the clock is there again. Each such error of the
        clock adds at most the budget of seven days to the bound.

        Args:
            now: Unix seconds.
        """
        self._at = min(self._at, now)

    def state(self) -> State:
        """Return the state as plain data for a store."""
        return {"kind": _BUDGET, "per_quarter": self.per_quarter, "at": self._at, "left": self._left}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Resume from a state of `state()`. Raise ValueError if the state has a different kind."""
        _check_kind(state, _BUDGET)
        new = cls(state["per_quarter"], start=state["at"])
        new._left = state["left"]
        return new


class CalendarDetector:
    """Detector of a mean below (or above) a reference, whose false alarms are bounded by calendar time, not by items.

    For each bet `b`, the evidence after a unit with value `x` and weight `w` is

        m = m * (1 + b / (1 - reference) * (reference - x) * w) + spend

    The alarm is raised if the mean of `m` over the bets is 1 or more. All evidence is then reset to 0. If the weighted
    mean of every unit, given all earlier units, is at least the reference, then the expected number of alarms is at
    most the sum of `spend`: for any distribution, any number of units and any dependence on other streams.

    `spend` comes from an `AlarmBudget`. It may depend on the closing time of the unit, also if that is related to its
    score, because it is added after the unit has been weighed.

    The method assumes values in [low, high] and a reference that is fixed before the stream begins: a target, or the
    lower limit of an earlier period with a tolerance. Dependent requests (those of one session) must be one unit.

    Source:
        Shin, Ramdas and Rinaldo 2024, "E-detectors: a nonparametric framework for sequential change detection". The
        calendar form and its proof: docs/explanation/alarms.md.

    Examples:
        >>> budget = AlarmBudget(1.0, start=0.0)
        >>> detector = CalendarDetector(0.8)
        >>> hours = [(hour, 0.9) for hour in range(100)] + [(hour, 0.4) for hour in range(100, 200)]
        >>> for hour, x in hours:
        ...     at = hour * 3600.0
        ...     if detector.update(x, spend=budget.take(at - 3600.0, at, n_streams=1)):
        ...         break
        >>> 100 < hour < 130
        True
    """

    __slots__ = ("_m", "direction", "high", "low", "n_alarms", "reference")

    def __init__(
        self, reference: float, *, direction: Literal["drop", "rise"] = "drop", low: float = 0.0, high: float = 1.0
    ) -> None:
        """Create a detector without units.

        Args:
            reference: Acceptable mean, strictly between `low` and `high`.
            direction: "drop" detects a mean below the reference, "rise" a mean above it (for example a failure rate).
            low: Smallest possible value.
            high: Largest possible value.

        Raises:
            ValueError: If an option is out of range.
        """
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"low and high must be finite with low < high, got low={low} and high={high}")
        if not low < reference < high:
            raise ValueError(f"reference must be strictly between low and high ({low} and {high}), got {reference}")
        if direction not in ("drop", "rise"):
            raise ValueError(f"direction must be 'drop' or 'rise', got {direction!r}")
        self.reference, self.direction, self.low, self.high = reference, direction, low, high
        self.n_alarms = 0
        self._m = [0.0] * len(BETS)

    @property
    def evidence(self) -> float:
        """Mean evidence over the bets, from 0. An alarm is raised at 1."""
        return sum(self._m) / len(self._m)

    def update(self, x: float, *, spend: float, weight: float = 1.0) -> bool:
        """Add the next unit, and return whether it raises an alarm.

        Args:
            x: Value of the unit, in [low, high].
            spend: Part of the budget for the time since the last unit, 0 or more.
            weight: Weight of the unit, in [0, 1]. 0 adds only the budget, for a unit that must not bet.

        Raises:
            ValueError: If a number is out of range.
        """
        value, good = _unit(x, self.low, self.high), _unit(self.reference, self.low, self.high)
        if not 0 <= weight <= 1:
            raise ValueError(f"a weight must be in [0, 1], got {weight}")
        if not 0 <= spend < math.inf:
            raise ValueError(f"spend must be 0 or more, got {spend}")
        if self.direction == "rise":
            value, good = 1 - value, 1 - good
        # The largest bet that cannot lose more than everything, at x = 1, is 1 / (1 - reference).
        gain = (good - value) / (1 - good) * weight
        self._m = [m * (1 + bet * gain) + spend for m, bet in zip(self._m, BETS, strict=True)]
        if self.evidence < 1:
            return False
        self._m = [0.0] * len(BETS)
        self.n_alarms += 1
        return True

    def state(self) -> State:
        """Return the state as plain data for a store."""
        return {
            "kind": _DETECTOR,
            "reference": self.reference,
            "direction": self.direction,
            "low": self.low,
            "high": self.high,
            "n_alarms": self.n_alarms,
            "m": list(self._m),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Resume from a state of `state()`. Raise ValueError if the state has a different kind."""
        _check_kind(state, _DETECTOR)
        new = cls(state["reference"], direction=state["direction"], low=state["low"], high=state["high"])
        new.n_alarms, new._m = state["n_alarms"], list(state["m"])
        return new


def _unit(x: float, low: float, high: float) -> float:
    """Map a value in [low, high] to [0, 1]. Rounding errors at the bounds are allowed."""
    mapped = (x - low) / (high - low)
    if not -_SAME <= mapped <= 1 + _SAME:
        raise ValueError(f"every value must be in [{low}, {high}], got {x}")
    return min(max(mapped, 0.0), 1.0)


def _check_kind(state: Mapping[str, Any], kind: str) -> None:
    if state.get("kind") != kind:
        raise ValueError(f"the state has the kind {state.get('kind')!r}, expected {kind!r}")
