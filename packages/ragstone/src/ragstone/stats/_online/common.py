"""What sequences share: the range of a score, and their state as plain data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

__all__ = ["State", "check_level", "check_range", "read_state", "unit"]

State = dict[str, Any]
"""Numbers, texts and lists of numbers, fit for JSON."""

_SAME = 1e-9


def check_range(low: float, high: float) -> None:
    """Refuse an empty or infinite range."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"a range needs finite low < high, got low={low!r} and high={high!r}")


def check_level(confidence_level: float) -> None:
    """Refuse what is no probability."""
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must lie in (0, 1), got {confidence_level!r}")


def unit(x: float, low: float, high: float) -> float:
    """Map a value of [low, high] to [0, 1]; rounding errors at the bounds are forgiven."""
    mapped = (x - low) / (high - low)
    if not -_SAME <= mapped <= 1 + _SAME:
        raise ValueError(f"every value must lie in [{low!r}, {high!r}], got {x!r}")
    return min(max(mapped, 0.0), 1.0)


def read_state(state: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Check that a state is of this kind."""
    if state.get("kind") != kind:
        raise ValueError(f"this state is of kind {state.get('kind')!r}, expected {kind!r}")
    return state
