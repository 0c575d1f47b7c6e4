"""Both ends of an interval."""

from __future__ import annotations

from ragstone.stats import Estimate

__all__ = ["ends"]


def ends(estimate: Estimate) -> tuple[float, float]:
    """Return the limits of an estimate."""
    return estimate.low, estimate.high
