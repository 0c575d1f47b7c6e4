"""Shared functions of sequences: checks of ranges, and serializable states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

State = dict[str, Any]
"""State as numbers, texts and lists of numbers, serializable as JSON."""

_SAME = 1e-9


def check_range(low: float, high: float) -> None:
    """Check that a range is finite and not empty."""
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"low and high must be finite with low < high, got low={low} and high={high}")


def check_level(confidence_level: float) -> None:
    """Check that a confidence level is in (0, 1)."""
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must be in (0, 1), got {confidence_level}")


def unit(x: float, low: float, high: float) -> float:
    """Map a value in [low, high] to [0, 1]. Rounding errors at the bounds are allowed."""
    mapped = (x - low) / (high - low)
    if not -_SAME <= mapped <= 1 + _SAME:
        raise ValueError(f"every value must be in [{low}, {high}], got {x}")
    return min(max(mapped, 0.0), 1.0)


def read_state(state: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Check the kind of a state and return the state."""
    if state.get("kind") != kind:
        raise ValueError(f"the state has the kind {state.get('kind')!r}, expected {kind!r}")
    return state
