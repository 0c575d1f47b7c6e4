"""Ranges of watched metrics, and limits of sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ragstone.errors import ConfigurationError

SESSION_MAX_S: Final = 4 * 3600.0
"""A session that has been open for four hours is closed, and its next request starts a new unit."""

LATE_SHARE: Final = 0.1
"""Largest share of units of a session seen before for which the promise covers a stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Range and direction of a metric with two finite bounds."""

    low: float
    high: float
    higher_is_better: bool = True

    def to_unit(self, value: float) -> float:
        """Map a value of the metric to [0, 1]."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)

    def to_value(self, unit: float) -> float:
        """Map a number in [0, 1] to the range of the metric."""
        return self.low + unit * (self.high - self.low)


def check_targets(targets: Mapping[str, float], scales: Mapping[str, Scale]) -> None:
    """Check that each target belongs to a watched metric and lies strictly inside its range.

    Raise ConfigurationError if one does not.
    """
    for metric, target in targets.items():
        scale = scales.get(metric)
        if scale is None:
            raise ConfigurationError(
                f"[watch.targets] names {metric!r}, which is not a computed metric with a finite range. Metrics: "
                f"{', '.join(scales) or 'none'}."
            )
        if not scale.low < target < scale.high:
            raise ConfigurationError(
                f"the target of {metric!r} must be strictly between {scale.low:g} and {scale.high:g}, got {target:g}."
            )
