"""Unpaired comparison of groups of different items, for example requests of two weeks, releases or tenants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ragstone.stats._mean import mean_interval
from ragstone.stats._tukey import TukeyPair, TukeyResult

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["independent_tukey"]

_SAME: Final = 1e-9
"""Relative tolerance within which statistics are equal. Sums in a different order differ by rounding errors."""
_MANY: Final = 5000
"""Minimum number of values per group for the normal approximation of means."""
_CHUNK_NUMBERS: Final = 2_000_000
"""Maximum number of numbers in memory per chunk of permutations."""


def independent_tukey(
    groups: Sequence[Sequence[float] | NDArray[np.float64]],
    probabilities: Sequence[Sequence[float] | NDArray[np.float64]] | None = None,
    *,
    pairs: Sequence[tuple[int, int]] | None = None,
    low: float = 0.0,
    high: float = 1.0,
    n_resamples: int = 10_000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> TukeyResult:
    """Compare groups of different items, with simultaneous p-values and intervals for all pairs.

    If the groups do not differ, their labels are exchangeable. The test therefore permutes the values over the groups and
    computes the largest standardized difference of all pairs, `n_resamples` times. The p-value of a pair is the share of
    permutations whose largest difference is at least that of the pair, with the data counted as one permutation.
    Differences are standardized by Welch's standard error, so groups may differ in size and variance. The test is exact
    if the groups have the same distribution, and approximate if only their means are equal. With at least 5,000 values in
    each group, the normal limit replaces permutations.

    An interval is the difference plus and minus the critical value times its standard error. If the values of both groups
    are constant, that error is 0, and the interval combines the intervals of the two means.

    The values of a group must be independent. If users or sessions contribute many values each, the true error is larger
    than the estimated error.

    Args:
        groups: Values of each group, in [low, high]. At least two groups. A comparison needs at least two values per
            group.
        probabilities: Sampling probability of each value, in (0, 1], for Hajek's means. None if nothing was sampled.
        pairs: Pairs of groups to compare, (first, second). None: all pairs.
        low: Smallest possible value.
        high: Largest possible value.
        n_resamples: Number of permutations.
        confidence_level: Confidence level of the simultaneous intervals, in (0, 1).
        seed: Seed of the random numbers. The same seed gives the same result on any machine.

    Raises:
        ValueError: If there are fewer than two groups, or a value, probability or option is out of range.

    Source:
        Welch 1947. Permutations of standardized differences: Janssen 1997, Chung and Romano 2013. Maximum of several
        statistics: Westfall and Young 1993. Weighted means: Hajek 1971.

    Example:
        >>> result = independent_tukey([[0.1, 0.2, 0.3, 0.2, 0.1], [0.8, 0.7, 0.9, 0.6, 0.9]])
        >>> round(result.pairs[0].difference, 2), result.pairs[0].p_value < 0.05
        (0.6, True)
    """
    import numpy as np

    x, w, ends = _checked(groups, probabilities, low, high, n_resamples, confidence_level)
    family = [(j, i) for i, j in itertools.combinations(range(len(x)), 2)] if pairs is None else list(pairs)
    if any(not (0 <= i < len(x) and 0 <= j < len(x) and i != j) for i, j in family) or not family:
        raise ValueError(f"each of pairs must be two of the {len(x)} groups, counted from 0, got {family!r}")
    compared = sorted({g for pair in family for g in pair if x[g].size > 1})
    tested = [(i, j) for i, j in family if x[i].size > 1 and x[j].size > 1]
    moments = {g: _moments(x[g], w[g]) for g in range(len(x)) if x[g].size}
    is_large = bool(compared) and min(x[g].size for g in compared) >= _MANY
    if not tested:
        drawn = np.zeros(0)
    elif is_large:
        drawn = _normal_limit({g: moments[g][1] for g in compared}, tested, max(n_resamples, 100_000), seed)
    else:
        drawn = _permute_maxima([x[g] for g in compared], [w[g] for g in compared], tested, compared, n_resamples, seed)
    drawn.sort()
    allowed = math.floor((1 - confidence_level) * (drawn.size + 1) + _SAME) - 1
    critical = float(drawn[-1 - allowed]) if 0 <= allowed < drawn.size else None
    own_level = 1 - (1 - confidence_level) / (2 * len(family))
    results = []
    for i, j in family:
        n = int(x[i].size + x[j].size)
        if i not in moments or j not in moments:
            results.append(_pair(i, j, n, None, None, None, None, None))
            continue
        difference = moments[i][0] - moments[j][0]
        if (i, j) not in tested:
            results.append(_pair(i, j, n, difference, None, None, None, None))
            continue
        error = math.sqrt(moments[i][1] + moments[j][1])
        statistic = abs(difference) / error if error else (math.inf if difference else 0.0)
        reached = drawn.size - int(np.searchsorted(drawn, statistic * (1 - _SAME)))
        p = (reached + 1) / (drawn.size + 1)
        lower: float | None = None
        upper: float | None = None
        if not error:
            (a, b), (c, d) = (_own(x[g], ends, own_level) for g in (i, j))
            lower, upper = a - d, b - c
        elif critical is not None and math.isfinite(critical):
            lower, upper = difference - critical * error, difference + critical * error
        results.append(_pair(i, j, n, difference, p, math.sqrt(p * (1 - p) / drawn.size), lower, upper))
    return TukeyResult(
        pairs=tuple(results),
        n_systems=len(x),
        n_rows=int(sum(values.size for values in x)),
        alternative="two-sided",
        confidence_level=confidence_level,
        method="independent_normal" if is_large else "independent_permutation",
        n_resamples=int(drawn.size),
        exact=False,
        n_units=int(sum(x[g].size for g in compared)),
        seed=seed,
    )


def _pair(
    first: int,
    second: int,
    n: int,
    difference: float | None,
    p_value: float | None,
    mc_error: float | None,
    low: float | None,
    high: float | None,
) -> TukeyPair:
    return TukeyPair(
        first=first, second=second, n=n, difference=difference, p_value=p_value, mc_error=mc_error, low=low, high=high
    )


def _own(values: NDArray[np.float64], ends: tuple[float, float], confidence_level: float) -> tuple[float, float]:
    estimate = mean_interval(values.tolist(), low=ends[0], high=ends[1], confidence_level=confidence_level)
    return estimate.low, estimate.high


def _moments(x: NDArray[np.float64], w: NDArray[np.float64]) -> tuple[float, float]:
    """Compute Hajek's mean and its linearized variance, which is 0 for a single value."""
    total = float(w.sum())
    mean = float((w * x).sum()) / total
    if x.size < 2:
        return mean, 0.0
    return mean, float(((w * (x - mean)) ** 2).sum()) / total**2 * x.size / (x.size - 1)


def _permute_maxima(
    x: Sequence[NDArray[np.float64]],
    w: Sequence[NDArray[np.float64]],
    tested: Sequence[tuple[int, int]],
    compared: Sequence[int],
    n_resamples: int,
    seed: int,
) -> NDArray[np.float64]:
    """Compute the largest standardized difference of each permutation. Values keep their weights."""
    import numpy as np

    rng = np.random.default_rng(seed)
    values, weights = np.concatenate(x), np.concatenate(w)
    # Centering keeps the precision of the sums of squares below.
    values = values - values.mean()
    bounds = np.cumsum([0, *(group.size for group in x)])
    place = {g: k for k, g in enumerate(compared)}
    first, second = (np.array([place[pair[side]] for pair in tested]) for side in (0, 1))
    # Terms of the mean and its variance, per value.
    parts = np.stack([weights, weights * values, weights**2, weights**2 * values, weights**2 * values**2])
    sizes = np.diff(bounds)
    largest = np.empty(n_resamples)
    chunk = max(1, _CHUNK_NUMBERS // (values.size * len(parts)))
    for start in range(0, n_resamples, chunk):
        count = min(chunk, n_resamples - start)
        orders = rng.permuted(np.tile(np.arange(values.size), (count, 1)), axis=1)
        sums = np.add.reduceat(parts[:, orders], bounds[:-1], axis=2)
        w0, w1, v0, v1, v2 = sums
        means = w1 / w0
        variances = np.maximum(v2 - 2 * means * v1 + means**2 * v0, 0.0) / w0**2 * (sizes / (sizes - 1))
        differences = abs(means[:, first] - means[:, second])
        # Set rounding errors of constant values to 0.
        errors = np.sqrt(variances[:, first] + variances[:, second])
        errors[errors < _SAME * max(1.0, float(abs(values).max()))] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            statistics = np.where(differences < _SAME, 0.0, differences / errors)
        largest[start : start + count] = statistics.max(axis=1)
    return largest


def _normal_limit(
    variances: dict[int, float], tested: Sequence[tuple[int, int]], n_draws: int, seed: int
) -> NDArray[np.float64]:
    """Draw the largest standardized difference of normal means with these variances."""
    import numpy as np

    rng = np.random.default_rng(seed)
    order = list(variances)
    means = rng.standard_normal((n_draws, len(order))) * np.sqrt([variances[g] for g in order])
    largest = np.zeros(n_draws)
    for i, j in tested:
        error = math.sqrt(variances[i] + variances[j])
        if error:
            np.maximum(largest, abs(means[:, order.index(i)] - means[:, order.index(j)]) / error, out=largest)
    return largest


def _checked(
    groups: Sequence[Sequence[float] | NDArray[np.float64]],
    probabilities: Sequence[Sequence[float] | NDArray[np.float64]] | None,
    low: float,
    high: float,
    n_resamples: int,
    confidence_level: float,
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]], tuple[float, float]]:
    import numpy as np

    if n_resamples < 1 or not 0 < confidence_level < 1:
        raise ValueError(
            f"n_resamples must be at least 1 and confidence_level in (0, 1), got {n_resamples} and {confidence_level}"
        )
    x = [np.asarray(group, dtype=float) for group in groups]
    if len(x) < 2:
        raise ValueError(f"a comparison needs at least two groups, got {len(x)}")
    p = [np.ones(g.size) for g in x] if probabilities is None else [np.asarray(q, dtype=float) for q in probabilities]
    if len(p) != len(x) or any(g.shape != q.shape or g.ndim != 1 for g, q in zip(x, p, strict=True)):
        raise ValueError("probabilities must contain one probability for every value of every group")
    for group, chances in zip(x, p, strict=True):
        if group.size and not (np.isfinite(group).all() and low <= group.min() and group.max() <= high):
            raise ValueError(
                f"values must be finite and in [{low}, {high}], got values in [{group.min()}, {group.max()}]"
            )
        if chances.size and not ((chances > 0) & (chances <= 1)).all():
            raise ValueError(f"probabilities must be in (0, 1], got values in [{chances.min()}, {chances.max()}]")
    return x, [1 / q for q in p], (low, high)
