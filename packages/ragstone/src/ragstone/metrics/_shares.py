"""Shares of claims with missing verdicts: three-valued logic, and lower and upper bounds of a share.

A verdict is True, False, or None if the judge did not return a usable reply. A result is certain if missing verdicts
cannot change it. For example, a correct claim is not a hallucination, whatever the passages contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Mark = bool | None
"""A verdict: yes, no, or unknown (None)."""


@dataclass(frozen=True, slots=True)
class ShareBounds:
    """Lower and upper bound of a share under missing verdicts. They are equal if these cannot change the share."""

    low: float
    high: float


def negated(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    """Negate each verdict."""
    return tuple(None if mark is None else not mark for mark in marks)


def both(*columns: Sequence[Mark]) -> tuple[Mark, ...]:
    """Combine columns of verdicts by AND, row by row. One no decides a row."""
    return tuple(_and(row) for row in zip(*columns, strict=True))


def any_of(columns: Sequence[Sequence[Mark]], n: int) -> tuple[Mark, ...]:
    """Combine columns of verdicts by OR, row by row. One yes decides a row.

    Without columns, the result is "no" for all `n` rows.
    """
    rows = zip(*columns, strict=True) if columns else ((),) * n
    return negated(_and(negated(row)) for row in rows)


def _and(row: Sequence[Mark]) -> Mark:
    if any(mark is False for mark in row):
        return False
    return None if any(mark is None for mark in row) else True


def share(marks: Sequence[Mark]) -> ShareBounds:
    """Compute the share of yes.

    Examples:
        >>> share([True, None, False, False])
        ShareBounds(low=0.25, high=0.5)
    """
    sure, possible = marks.count(True), len(marks) - marks.count(False)
    return ShareBounds(sure / len(marks), possible / len(marks))


def share_among(marks: Sequence[Mark], among: Sequence[Mark]) -> ShareBounds | None:
    """Compute the share of yes among the rows with yes in `among`, or None if no row has yes there.

    If it is unknown whether any row has yes in `among`, the bounds are 0 and 1.

    Examples:
        >>> share_among([True, False, True], among=[True, True, False])
        ShareBounds(low=0.5, high=0.5)
    """
    if True not in among:
        return ShareBounds(0.0, 1.0) if None in among else None
    low_of = low = high_of = high = 0
    for mark, counted in zip(marks, among, strict=True):
        # A row with unknown membership counts toward the lower bound if that decreases it, and toward the upper bound
        # if that increases it.
        if counted or (counted is None and mark is not True):
            low_of += 1
            low += mark is True
        if counted or (counted is None and mark is not False):
            high_of += 1
            high += mark is not False
    return ShareBounds(low / low_of, high / high_of)


def highest(shares: Sequence[ShareBounds]) -> ShareBounds:
    """Return the bounds of the largest of several shares."""
    return ShareBounds(max(s.low for s in shares), max(s.high for s in shares))


def distinct(groups: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return all texts of several groups without duplicates."""
    return tuple(dict.fromkeys(text for group in groups for text in group))


def best_share(groups: Iterable[Sequence[str]], texts: Sequence[str], marks: Sequence[Mark]) -> ShareBounds:
    """Compute the share of yes in each group of texts and return the largest, as for alternative references."""
    by_text = dict(zip(texts, marks, strict=True))
    return highest([share([by_text[text] for text in group]) for group in groups])


def harmonic(one: ShareBounds, other: ShareBounds) -> ShareBounds:
    """Compute the harmonic mean of two shares, which increases with both. It is 0 if either share is 0.

    Examples:
        >>> harmonic(ShareBounds(0.5, 0.5), ShareBounds(0.25, 1.0))
        ShareBounds(low=0.3333333333333333, high=0.6666666666666666)
    """
    return ShareBounds(_harmonic(one.low, other.low), _harmonic(one.high, other.high))


def _harmonic(a: float, b: float) -> float:
    return 2 * a * b / (a + b) if a and b else 0.0
