"""Numbers with their nouns."""

from __future__ import annotations


def count(n: int, singular: str, plural: str | None = None) -> str:
    """Write a number with its noun.

    Examples:
        >>> count(1, "answer"), count(1200, "answer")
        ('1 answer', '1,200 answers')
    """
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"
