"""Confidence levels: the rule that they obey, and how tables name them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ragstone.errors import ConfigurationError
from ragstone.stats import Estimate

CONFIDENCE_LEVEL: Final = 0.95
"""The level of intervals and gates that do not state another."""
_LEAST_OF_A_GATE: Final = 0.5


def check_level(confidence_level: float, *, decides_gate: bool = False) -> None:
    """Check a confidence level.

    Args:
        confidence_level: The level.
        decides_gate: Whether a one-sided limit of this level decides a gate. At 0.5 the limit is the mean itself.

    Raises:
        ConfigurationError: If it is not in (0, 1), or for a gate not in (0.5, 1).
    """
    if not 0 < confidence_level < 1:
        raise ConfigurationError(
            f"confidence_level must be between 0 and 1, got {confidence_level!r}. For 95% write 0.95"
        )
    if decides_gate and not confidence_level > _LEAST_OF_A_GATE:
        raise ConfigurationError(
            f"the confidence_level of a one-sided gate must be above 0.5 and below 1, got {confidence_level!r}"
        )


def ci_heading(estimates: Iterable[Estimate | None]) -> str:
    """Return the heading of a column of means: "mean [95% CI]". All estimates of a table have the same level."""
    level = next((e.confidence_level for e in estimates if e is not None), CONFIDENCE_LEVEL)
    return f"mean [{100 * level:.4g}% CI]"
