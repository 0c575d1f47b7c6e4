"""Comparison of two independent groups of scores: means, difference and probability of superiority."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragstone.stats._bootstrap import resampled_means
from ragstone.stats._cluster import check_resampling, codes_of
from ragstone.stats._mean import Estimate, estimate_around
from ragstone.stats._weight import estimate_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SIZES: Final = (50, 100, 200, 500, 1000, 2000, 5000, 10_000)
"""Numbers of resamples for which standard errors are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMean:
    """Mean of one group, with standard deviation and standard error."""

    mean: Estimate
    """Mean with the interval of `mean_interval`, or over clusters with that of `hajek_mean`."""
    spread: float | None
    """Standard deviation of the scores, which does not shrink with more items. None for a single item."""
    standard_error: float
    """Standard deviation of the mean over resamples, which shrinks with more items."""
    standard_errors: Mapping[int, float]
    """The same from the first B resamples, by B: it converges, but does not shrink, with more resamples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDifference:
    """Difference of two groups of scores, first minus second."""

    first: GroupMean
    second: GroupMean
    difference: Estimate
    """Difference of the means. Its interval combines those of both means."""
    superiority: Estimate
    """Probability that a random item of the first group scores higher than one of the second, with ties counted half.
    It is 0.5 if the groups do not differ."""


def compare_groups(
    first: Sequence[float],
    second: Sequence[float],
    *,
    low: float = -math.inf,
    high: float = math.inf,
    clusters: tuple[Sequence[Hashable], Sequence[Hashable]] | None = None,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> GroupDifference:
    """Compare two independent groups of scores.

    The intervals of the means are those of `mean_interval`, or over clusters of `hajek_mean`. Those of the difference
    and of the superiority combine the distances to the limits of both groups (the method of variance estimates
    recovery, MOVER). They cover the sampling of items, and judge noise only as far as it varies between items.

    The standard errors come from a bootstrap. Each resample draws the original number of items with replacement from
    each group separately, or whole clusters. (Drawing fewer items, for example 50 of 200, would give the error of a
    mean of 50.) `clusters` are the labels of the clusters of both groups' items, such as sessions, in which each None
    is a cluster of its own.

    Source:
        VERA, sections 3.3 and 3.4 (with 50 of 200 items and 500 resamples). Efron and Tibshirani 1993, chapters 8 and
        13. Zou and Donner 2008 (MOVER). Superiority as a mean over items: DeLong, DeLong and Clarke-Pearson 1988.

    Examples:
        >>> result = compare_groups([0.9, 0.8, 1.0, 0.9], [0.2, 0.1, 0.3])
        >>> round(result.difference.value, 2), result.superiority.value
        (0.7, 1.0)
    """
    import numpy as np

    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if not (a.size and b.size and np.isfinite(a).all() and np.isfinite(b).all()):
        raise ValueError(
            f"both groups need at least one score, and all scores must be finite, got {a.size} and {b.size} scores. "
            "Omit failures, and report their number"
        )
    check_resampling(n_resamples, confidence_level)
    labels = (None, None) if clusters is None else clusters
    rngs = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(2)]

    def side(x: NDArray[np.float64], own: Sequence[Hashable] | None, rng: np.random.Generator) -> GroupMean:
        means, sizes = x, None
        if own is not None:
            codes = codes_of(x.size, own)
            sizes = np.bincount(codes).astype(float)
            means = np.bincount(codes, weights=x) / sizes
        drawn = resampled_means(means, n_resamples, rng, weights=sizes)
        shown = [size for size in _SIZES if size < n_resamples]
        errors = {size: float(drawn[:size].std(ddof=1)) if size > 1 else 0.0 for size in (*shown, n_resamples)}
        return GroupMean(
            mean=mean_of(x, own, low, high),
            spread=float(x.std(ddof=1)) if x.size > 1 else None,
            standard_error=errors[n_resamples],
            standard_errors=errors,
        )

    def mean_of(x: NDArray[np.float64], own: Sequence[Hashable] | None, least: float, most: float) -> Estimate:
        found = estimate_mean(x, low=least, high=most, clusters=own, confidence_level=confidence_level)
        assert found is not None  # noqa: S101  there are scores, see above
        return found

    one, two = (side(x, own, rng) for x, own, rng in zip((a, b), labels, rngs, strict=True))
    # The share of items below each item of the first group, and of items above each item of the second.
    wins = [find_placements(a, b), 1 - find_placements(b, a)]
    shares = [mean_of(x, own, 0.0, 1.0) for x, own in zip(wins, labels, strict=True)]
    return GroupDifference(
        first=one,
        second=two,
        difference=_combined(one.mean.value - two.mean.value, one.mean, two.mean, sign=-1),
        superiority=_combined(shares[0].value, *shares, sign=1, bounds=(0.0, 1.0)),
    )


def _combined(
    value: float, one: Estimate, two: Estimate, *, sign: int, bounds: tuple[float, float] = (-math.inf, math.inf)
) -> Estimate:
    """Combine the distances to the limits of two independent estimates (the second one subtracted if sign is -1)."""
    down, up = one.value - one.low, one.high - one.value
    other = two.value - two.low, two.high - two.value
    below, above = other if sign > 0 else other[::-1]
    low, high, n = value - math.hypot(down, below), value + math.hypot(up, above), one.n + two.n
    return estimate_around(value, low, high, one.confidence_level, method="mover", n=n, bounds=bounds)


def find_placements(x: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute the share of the others below each value, with ties counted half."""
    import numpy as np

    ranked = np.sort(others)
    below = np.searchsorted(ranked, x) + np.searchsorted(ranked, x, side="right")
    return np.asarray(below / (2 * others.size), dtype=float)
