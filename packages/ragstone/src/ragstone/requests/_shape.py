"""Access to objects of libraries that are not imported, by key or by attribute, and their numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, TypeGuard


def get(value: object, name: str) -> Any:
    """Return an item of a mapping or an attribute of another object, or None if it is absent or cannot be read."""
    try:
        return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a property of the application's object; it says nothing then
        return None


def is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether a value is a list of things, which a text is not."""
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)


def whole_number(value: object) -> int | None:
    """Return a count, such as a number of tokens, or None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def finite_number(value: object) -> float | None:
    """Return a finite number of any type, NumPy's too, as a float; None for anything else."""
    if type(value) is not float:  # nearly always, and asking for `Real` is slow
        if isinstance(value, bool) or not isinstance(value, Real):
            return None
        try:
            value = float(value)
        except (OverflowError, ValueError, TypeError):
            return None
    return value if math.isfinite(value) else None
