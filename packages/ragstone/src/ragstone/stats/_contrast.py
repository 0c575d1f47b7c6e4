"""Two unrelated sets of scores side by side: their means, how far apart, and how much they overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragstone.stats._mean import Estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["GroupDifference", "GroupMean", "compare_groups"]

_CELLS: Final = 1_000_000
"""Resamples times items worked on at once: 8 MB a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMean:
    """The mean of one set, with the two things that a plus-minus sign may mean."""

    mean: Estimate
    """With its bootstrap interval."""
    spread: float | None
    """Standard deviation of the scores: how much single items differ. It does not shrink with more items. None for one."""
    standard_error: float
    """Standard deviation of the mean over resamples: how well the mean is known. It shrinks with more items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDifference:
    """Two sets of scores, first minus second."""

    first: GroupMean
    second: GroupMean
    difference: Estimate
    """Of the means, with a bootstrap interval."""
    superiority: Estimate
    """Probability that a random item of the first set scores above one of the second, ties half: 0.5 is no difference."""


def compare_groups(
    first: Sequence[float],
    second: Sequence[float],
    *,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> GroupDifference:
    """Contrast two independent sets of scores by bootstrap.

    Each resample draws as many items as there are, with replacement, from each set on its own. (Drawing fewer, say 50
    of 200, would show the error of a mean of 50.) What varies is which items were asked; noise of a judge that would
    score the same items otherwise is in it only as far as it differs from item to item.

    Args:
        first: Finite scores.
        second: Finite scores of other items.
        n_resamples: Bootstrap resamples, at least 1.
        confidence_level: Nominal coverage, in (0, 1).
        seed: Of the random numbers.

    Raises:
        ValueError: A set without scores, a score that is not finite, or an option out of range.

    Source:
        VERA, sections 3.3 and 3.4 (there 50 of 200 items and 500 resamples); Efron and Tibshirani 1993, chapters 8 and 13.

    Example:
        >>> found = compare_groups([0.9, 0.8, 1.0, 0.9], [0.2, 0.1, 0.3])
        >>> round(found.difference.value, 2), found.superiority.value
        (0.7, 1.0)
    """
    import numpy as np

    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if not (a.size and b.size and np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError(
            f"a contrast needs finite scores on both sides, got {a.size} and {b.size}; leave failures out, and count them"
        )
    if n_resamples < 1 or not 0 < confidence_level < 1:
        raise ValueError(
            f"a bootstrap needs n_resamples >= 1 and confidence_level in (0, 1), got {n_resamples!r} and {confidence_level!r}"
        )
    values, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
    k = values.size
    counts = [np.bincount(side, minlength=k) for side in (codes[: a.size], codes[a.size :])]
    rngs = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2)]
    # Items of one value are alike: resampling items is resampling how often each value occurs.
    found = [_compare(counts[0][None, :], counts[1][None, :], values)]
    step = max(1, _CELLS // k)
    for start in range(0, n_resamples, step):
        size = min(step, n_resamples - start)
        drawn = [rng.multinomial(c.sum(), c / c.sum(), size=size) for rng, c in zip(rngs, counts, strict=True)]
        found.append(_compare(drawn[0], drawn[1], values))
    table = np.concatenate(found)

    def estimate(column: int, n: int) -> Estimate:
        value = float(table[0, column])
        low, high = np.quantile(table[1:, column], [(1 - confidence_level) / 2, (1 + confidence_level) / 2])
        return Estimate(
            value=value,
            low=min(float(low), value),
            high=max(float(high), value),
            confidence_level=confidence_level,
            method="bootstrap",
            n=n,
        )

    def side(column: int, x: NDArray[np.float64]) -> GroupMean:
        return GroupMean(
            mean=estimate(column, x.size),
            spread=float(x.std(ddof=1)) if x.size > 1 else None,
            standard_error=float(table[1:, column].std(ddof=1)) if n_resamples > 1 else 0.0,
        )

    return GroupDifference(
        first=side(0, a),
        second=side(1, b),
        difference=estimate(2, a.size + b.size),
        superiority=estimate(3, a.size + b.size),
    )


def _compare(first: NDArray[np.intp], second: NDArray[np.intp], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Both means, their difference and the probability of superiority, from how often each value occurs (rows: resamples)."""
    import numpy as np

    p, q = first / first.sum(axis=1, keepdims=True), second / second.sum(axis=1, keepdims=True)
    below = np.cumsum(q, axis=1) - q / 2
    one, two = p @ values, q @ values
    return np.stack([one, two, one - two, (p * below).sum(axis=1)], axis=1)
