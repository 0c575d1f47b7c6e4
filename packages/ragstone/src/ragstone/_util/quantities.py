"""Numbers with their nouns, numbers as texts, and ages."""

from __future__ import annotations

import re
from uuid import UUID

from ragstone.errors import ConfigurationError


def count(n: int, singular: str, plural: str | None = None) -> str:
    """Write a number with its noun.

    Examples:
        >>> count(1, "answer"), count(1200, "answer")
        ('1 answer', '1,200 answers')
    """
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def label_of(value: object) -> str | None:
    """Return a label or an id: a text that is not empty, an integer or a UUID as text. None for any other value.

    pandas and Parquet make floats of integers if a cell is empty. From 2**53 on, such a float may be another integer.

    Examples:
        >>> label_of(7.0), label_of("a"), label_of(0.5), label_of(True)
        ('7', 'a', None, None)
    """
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    return (str(value) or None) if isinstance(value, str | int | UUID) and not isinstance(value, bool) else None


def text_of(value: object) -> str:
    """Return any value as text, an integer that became a float without its fraction."""
    return label_of(value) or str(value)


def parse_age(text: object, *, name: str) -> float:
    """Return an age such as "30d", "12h" or "90m" in seconds. Raise ConfigurationError if it is not a positive age."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([dhm])", text) if isinstance(text, str) else None
    if found is None or float(found[1]) == 0:
        raise ConfigurationError(f"{name} must be a positive age such as 30d, 12h or 90m, got {text!r}.")
    return float(found[1]) * {"d": 86_400.0, "h": 3600.0, "m": 60.0}[found[2]]
