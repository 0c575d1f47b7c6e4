"""Shares of claims where some verdicts are missing: three-valued logic, and between what and what the share lies.

A verdict is True, False, or None where the judge gave no usable answer. Whatever is made of verdicts is certain where
the missing ones do not matter: a claim that is right is no hallucination, whatever the passages say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "Mark",
    "ShareBounds",
    "any_of",
    "best_share",
    "both",
    "distinct",
    "harmonic",
    "highest",
    "negated",
    "share",
    "share_among",
]

Mark = bool | None
"""Yes, no, or not known."""


@dataclass(frozen=True, slots=True)
class ShareBounds:
    """Where a share lies, whatever the missing verdicts are; both ends are the same when they do not matter."""

    low: float
    high: float


def negated(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    """Not, one by one."""
    return tuple(None if mark is None else not mark for mark in marks)


def both(*columns: Sequence[Mark]) -> tuple[Mark, ...]:
    """And, row by row: one no decides."""
    return tuple(_and(row) for row in zip(*columns, strict=True))


def any_of(columns: Sequence[Sequence[Mark]], n: int) -> tuple[Mark, ...]:
    """Or, row by row: one yes decides, and nothing at all is no. `n` is the number of rows, should there be no column."""
    rows = zip(*columns, strict=True) if columns else ((),) * n
    return negated(_and(negated(row)) for row in rows)


def _and(row: Sequence[Mark]) -> Mark:
    if any(mark is False for mark in row):
        return False
    return None if any(mark is None for mark in row) else True


def share(marks: Sequence[Mark]) -> ShareBounds:
    """The share of yes.

    Raises:
        ZeroDivisionError: There is no mark.

    Example:
        >>> share([True, None, False, False])
        ShareBounds(low=0.25, high=0.5)
    """
    sure, possible = marks.count(True), len(marks) - marks.count(False)
    return ShareBounds(sure / len(marks), possible / len(marks))


def share_among(marks: Sequence[Mark], among: Sequence[Mark]) -> ShareBounds | None:
    """The share of yes among those marked in `among`; None when there is none of those.

    Where it is open whether there is any, the share may be whatever it likes.

    Example:
        >>> share_among([True, False, True], among=[True, True, False])
        ShareBounds(low=0.5, high=0.5)
    """
    if True not in among:
        return ShareBounds(0.0, 1.0) if None in among else None
    low_of = low = high_of = high = 0
    for mark, counted in zip(marks, among, strict=True):
        # What may or may not be counted is counted where that takes the share down, or up.
        if counted or (counted is None and mark is not True):
            low_of += 1
            low += mark is True
        if counted or (counted is None and mark is not False):
            high_of += 1
            high += mark is not False
    return ShareBounds(low / low_of, high / high_of)


def highest(shares: Sequence[ShareBounds]) -> ShareBounds:
    """The largest of several shares."""
    return ShareBounds(max(s.low for s in shares), max(s.high for s in shares))


def distinct(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """All texts of several groups, each once."""
    return tuple(dict.fromkeys(text for group in groups for text in group))


def best_share(groups: Iterable[Sequence[str]], texts: Sequence[str], marks: Sequence[Mark]) -> ShareBounds:
    """The share of yes in each group of texts, of the group with the largest: references, of which any one is enough."""
    by_text = dict(zip(texts, marks, strict=True))
    return highest([share([by_text[text] for text in group]) for group in groups])


def harmonic(one: ShareBounds, other: ShareBounds) -> ShareBounds:
    """The harmonic mean of two shares, which rises with either; 0 where both are 0.

    Example:
        >>> harmonic(ShareBounds(0.5, 0.5), ShareBounds(0.25, 1.0))
        ShareBounds(low=0.3333333333333333, high=0.6666666666666666)
    """
    return ShareBounds(_harmonic(one.low, other.low), _harmonic(one.high, other.high))


def _harmonic(a: float, b: float) -> float:
    return 2 * a * b / (a + b) if a and b else 0.0
