"""Which groups differ where nothing pairs them: requests of two weeks, of two releases, of two tenants."""

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
"""Statistics this near, relative to their size, are equal: sums in another order differ by rounding."""
_MANY: Final = 5000
"""Values in every group from which on means are normal for every purpose here."""
_CHUNK_NUMBERS: Final = 2_000_000
"""Numbers held at once by permutations."""


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
    """Compare groups of different items, with p-values and intervals that hold for all pairs together.

    Were the groups all alike, their values could as well have come in each other's place. So values are dealt out anew,
    the largest standardised difference of any pair is noted, and this many times; a pair's p-value is the share of deals,
    the data themselves counted as one, in which the largest reached the pair's. Differences are standardised by Welch's
    error, so that groups may differ in size and in spread: then the test holds nearly, and where they do not it is exact.
    With 5,000 values and more in each group the normal limit takes the place of deals.

    An interval is the difference, plus and minus the critical value times its standard error. Where neither group's
    values vary at all there is no such error, and the interval is made of the groups' own.

    Values of a group must be independent of each other: where users or sessions bring many each, the error is larger
    than it looks.

    Args:
        groups: Values of each group, in [low, high]; at least two groups, of at least two values each to be compared.
        probabilities: With which each value was sampled, in (0, 1]; None where all were kept. Means are Hajek's then.
        pairs: Groups to compare, (first, second); all pairs by default.
        low: Smallest possible value.
        high: Largest possible value.
        n_resamples: Deals drawn.
        confidence_level: Of the simultaneous intervals, in (0, 1).
        seed: Of the random numbers; the same seed gives the same result on any machine.

    Raises:
        ValueError: Fewer than two groups, a value or probability out of range, or an option out of range.

    Source:
        Welch 1947; Janssen 1997 and Chung and Romano 2013 for permutations of standardised differences; Westfall and
        Young 1993 for the largest of several; Hajek 1971 for weighted means.

    Example:
        >>> found = independent_tukey([[0.1, 0.2, 0.3, 0.2, 0.1], [0.8, 0.7, 0.9, 0.6, 0.9]])
        >>> round(found.pairs[0].difference, 2), found.pairs[0].p_value < 0.05
        (0.6, True)
    """
    import numpy as np

    x, w, ends = _checked(groups, probabilities, low, high, n_resamples, confidence_level)
    family = [(j, i) for i, j in itertools.combinations(range(len(x)), 2)] if pairs is None else list(pairs)
    if any(not (0 <= i < len(x) and 0 <= j < len(x) and i != j) for i, j in family) or not family:
        raise ValueError(f"pairs must name two of the {len(x)} groups each, counted from 0, got {family!r}")
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
    found = []
    for i, j in family:
        n = int(x[i].size + x[j].size)
        if i not in moments or j not in moments:
            found.append(_pair(i, j, n, None, None, None, None, None))
            continue
        difference = moments[i][0] - moments[j][0]
        if (i, j) not in tested:
            found.append(_pair(i, j, n, difference, None, None, None, None))
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
        found.append(_pair(i, j, n, difference, p, math.sqrt(p * (1 - p) / drawn.size), lower, upper))
    return TukeyResult(
        pairs=tuple(found),
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
    """Hajek's mean and the linearised variance of it; of one value, no variance."""
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
    """The largest standardised difference of each deal. A value keeps its weight wherever it goes."""
    import numpy as np

    rng = np.random.default_rng(seed)
    values, weights = np.concatenate(x), np.concatenate(w)
    # About the mean, so that the sums of squares below lose no digits.
    values = values - values.mean()
    bounds = np.cumsum([0, *(group.size for group in x)])
    place = {g: k for k, g in enumerate(compared)}
    first, second = (np.array([place[pair[side]] for pair in tested]) for side in (0, 1))
    # Per value: what the mean and its variance are made of.
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
        # Rounding must not make an error out of values that are all alike.
        errors = np.sqrt(variances[:, first] + variances[:, second])
        errors[errors < _SAME * max(1.0, float(abs(values).max()))] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            statistics = np.where(differences < _SAME, 0.0, differences / errors)
        largest[start : start + count] = statistics.max(axis=1)
    return largest


def _normal_limit(
    variances: dict[int, float], tested: Sequence[tuple[int, int]], n_draws: int, seed: int
) -> NDArray[np.float64]:
    """The largest standardised difference of means that are normal and have these variances."""
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
            f"n_resamples must be at least 1 and confidence_level in (0, 1), got {n_resamples!r} and {confidence_level!r}"
        )
    x = [np.asarray(group, dtype=float) for group in groups]
    if len(x) < 2:
        raise ValueError(f"a comparison needs at least two groups, got {len(x)}")
    p = [np.ones(g.size) for g in x] if probabilities is None else [np.asarray(q, dtype=float) for q in probabilities]
    if len(p) != len(x) or any(g.shape != q.shape or g.ndim != 1 for g, q in zip(x, p, strict=True)):
        raise ValueError("probabilities must be given for every value of every group")
    for group, chances in zip(x, p, strict=True):
        if group.size and not (np.isfinite(group).all() and low <= group.min() and group.max() <= high):
            raise ValueError(
                f"values must be finite and in [{low!r}, {high!r}], got some in [{group.min()!r}, {group.max()!r}]"
            )
        if chances.size and not ((chances > 0) & (chances <= 1)).all():
            raise ValueError(f"probabilities must lie in (0, 1], got some in [{chances.min()!r}, {chances.max()!r}]")
    return x, [1 / q for q in p], (low, high)
