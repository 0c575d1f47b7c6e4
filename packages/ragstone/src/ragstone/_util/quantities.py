"""Numbers with their nouns, and ages."""

from __future__ import annotations

import re

from ragstone.errors import ConfigurationError


def count(n: int, singular: str, plural: str | None = None) -> str:
    """Write a number with its noun.

    Examples:
        >>> count(1, "answer"), count(1200, "answer")
        ('1 answer', '1,200 answers')
    """
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def parse_age(text: object, *, name: str) -> float:
    """Return an age such as "30d", "12h" or "90m" in seconds. Raise ConfigurationError if it is not a positive age."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([dhm])", text) if isinstance(text, str) else None
    if found is None or float(found[1]) == 0:
        raise ConfigurationError(f"{name} must be a positive age such as 30d, 12h or 90m, got {text!r}.")
    return float(found[1]) * {"d": 86_400.0, "h": 3600.0, "m": 60.0}[found[2]]
