"""Unpaired comparison of groups of different items, for example requests of two weeks, releases or tenants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ragstone.stats._cluster import check_resampling, cluster_codes
from ragstone.stats._mean import mean_interval
from ragstone.stats._sign_flips import FamilyResult, PairResult

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SAME: Final = 1e-9
"""Relative tolerance within which statistics are equal. Sums in a different order differ by rounding errors."""
_ROUNDING: Final = 1e-14
"""Distance of a score from its mean, relative to the scores, below which it is a rounding error."""
_MANY: Final = 5000
"""Minimum number of units per group for the normal approximation of means."""
_CHUNK_NUMBERS: Final = 2_000_000
"""Maximum number of numbers in memory per chunk of permutations."""


def independent_differences(
    values: NDArray[np.float64],
    groups: NDArray[np.intp],
    probabilities: NDArray[np.float64],
    *,
    n_groups: int,
    ends: Sequence[tuple[float, float]],
    clusters: Sequence[Hashable] | None = None,
    pairs: Sequence[tuple[int, int]] | None = None,
    n_resamples: int = 10_000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> tuple[FamilyResult, ...]:
    """Compare groups on several metrics, with p-values and intervals that hold for all pairs and metrics together.

    If the groups do not differ, their labels are exchangeable. The test therefore permutes the values over the groups
    and computes the largest standardized difference of all pairs on all metrics, `n_resamples` times, with the same
    permutation of the items for all metrics. P-values are step-down, with the data counted as one permutation.
    Differences are standardized by Welch's standard error, so groups may differ in size and variance. The test is exact
    if the groups have the same distribution, and approximate if only their means are equal. With at least 5,000 values
    in each group, the normal limit replaces permutations.

    An interval is the difference plus and minus the critical value times its standard error. If the values of both
    groups are constant, that error is 0, and the interval combines the intervals of the two means. `values` are items
    by metrics, in which NaN is a missing score. `groups` are numbers, `probabilities` those with which the items were
    sampled, and `ends` the smallest and largest possible value of each metric. With `clusters`, whole clusters are
    permuted, and the error is the variation between clusters. A cluster with items in several groups counts as one in
    each. A comparison needs at least two values per group.

    Source:
        Welch 1947. Permutations of standardized differences: Janssen 1997, Chung and Romano 2013. Maximum of several
        statistics: Westfall and Young 1993. Weighted means: Hajek 1971.
    """
    import numpy as np

    check_resampling(n_resamples, confidence_level)
    family = [(j, i) for i, j in itertools.combinations(range(n_groups), 2)] if pairs is None else list(pairs)
    if any(not (0 <= i < n_groups and 0 <= j < n_groups and i != j) for i, j in family) or not family:
        raise ValueError(f"each of pairs must be two of the {n_groups} groups, counted from 0, got {family!r}")
    codes = np.arange(len(values))
    if clusters is not None:
        codes = cluster_codes([None if c is None else (g, c) for g, c in zip(groups.tolist(), clusters, strict=True)])
    units = _Units.of(values, 1 / probabilities, groups, codes, n_groups)
    n_values = np.array([(~np.isnan(values[groups == g])).sum(axis=0) for g in range(n_groups)])
    moments = [_moments(units, metric) for metric in range(values.shape[1])]
    tested = [
        [(i, j) for i, j in family if i in found and j in found and min(found[i].k, found[j].k) > 1]
        for found in moments
    ]
    compared = sorted({g for of_metric in tested for pair in of_metric for g in pair})
    is_large = bool(compared) and all(
        found[g].k >= _MANY
        for found, of_metric in zip(moments, tested, strict=True)
        for pair in of_metric
        for g in pair
    )
    if is_large:
        by_metric = _normal_limit(moments, tested, compared, max(n_resamples, 100_000), seed)
    else:
        by_metric = (
            _permute_maxima(units, tested, compared, n_resamples, seed) if compared else np.zeros((len(tested), 0))
        )
    drawn = np.sort(by_metric.max(axis=0))
    reached = [
        [_statistic(found, pair) if pair in of_metric else None for pair in family]
        for found, of_metric in zip(moments, tested, strict=True)
    ]
    p_values = step_down(list(by_metric), reached, extra=1)
    allowed = math.floor((1 - confidence_level) * (drawn.size + 1) + _SAME) - 1
    critical = float(drawn[-1 - allowed]) if 0 <= allowed < drawn.size else None
    own_level = 1 - (1 - confidence_level) / (2 * len(family) * values.shape[1])
    return tuple(
        FamilyResult(
            pairs=tuple(
                _compare(
                    pair,
                    moments[metric],
                    n=int(n_values[list(pair), metric].sum()),
                    p=p_values[metric][number] if pair in tested[metric] else None,
                    n_resamples=drawn.size,
                    critical=critical,
                    ends=ends[metric],
                    own_level=own_level,
                )
                for number, pair in enumerate(family)
            ),
            method="independent_normal" if is_large else "independent_permutation",
            n_resamples=int(drawn.size),
            exact=False,
            n_units=sum(found.k for g, found in moments[metric].items() if any(g in pair for pair in tested[metric])),
        )
        for metric in range(values.shape[1])
    )


def _compare(
    pair: tuple[int, int],
    moments: dict[int, _Moments],
    *,
    n: int,
    p: float | None,
    n_resamples: int,
    critical: float | None,
    ends: tuple[float, float],
    own_level: float,
) -> PairResult:
    """Compare one pair of groups on one metric."""
    i, j = pair
    unknown = PairResult(first=i, second=j, n=n, difference=None, p_value=None, mc_error=None, low=None, high=None)
    if i not in moments or j not in moments:
        return unknown
    first, second = moments[i], moments[j]
    difference = first.mean - second.mean
    if p is None:
        return replace(unknown, difference=difference)
    error = math.sqrt(first.variance + second.variance)
    lower: float | None = None
    upper: float | None = None
    if not error:
        (a, b), (c, d) = (_own(side, ends, own_level) for side in (first, second))
        lower, upper = a - d, b - c
    elif critical is not None and math.isfinite(critical):
        lower, upper = difference - critical * error, difference + critical * error
    error = math.sqrt(p * (1 - p) / n_resamples)
    return replace(unknown, difference=difference, p_value=p, mc_error=error, low=lower, high=upper)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Units:
    """Independent units, sorted by group: clusters of items, or single items."""

    weights: NDArray[np.float64]
    """Metrics by units: sum of the weights of the items with a score, 0 without one."""
    totals: NDArray[np.float64]
    """Metrics by units: weighted sum of the scores, each minus `centers`."""
    centers: NDArray[np.float64]
    """Mean score of each metric. Centering keeps the precision of sums of squares."""
    bounds: NDArray[np.intp]
    """Position of the first unit of each group, and the number of units."""

    @classmethod
    def of(
        cls,
        values: NDArray[np.float64],
        w: NDArray[np.float64],
        groups: NDArray[np.intp],
        codes: NDArray[np.intp],
        n_groups: int,
    ) -> _Units:
        import numpy as np

        n = int(codes.max()) + 1 if codes.size else 0
        group_of = np.zeros(n, dtype=np.intp)
        group_of[codes] = groups
        order = np.argsort(group_of, kind="stable")
        centers, weights, totals = np.zeros(values.shape[1]), [], []
        for metric, column in enumerate(values.T):
            has = ~np.isnan(column)
            centers[metric] = column[has].mean() if has.any() else 0.0
            weights.append(np.bincount(codes[has], weights=w[has], minlength=n)[order])
            totals.append(np.bincount(codes[has], weights=w[has] * (column[has] - centers[metric]), minlength=n)[order])
        sizes = np.bincount(group_of, minlength=n_groups) if n else np.zeros(n_groups, dtype=np.intp)
        return cls(
            weights=np.array(weights, dtype=float),
            totals=np.array(totals, dtype=float),
            centers=centers,
            bounds=np.concatenate([[0], np.cumsum(sizes)]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moments:
    """Hajek's mean of one group on one metric."""

    mean: float
    variance: float
    """Linearized variance over units. 0 for a single unit."""
    k: int
    """Number of units with a score."""
    moved: NDArray[np.float64]
    """Influence of each unit of the group on the mean. The sum of their squares is `variance`."""


def _moments(units: _Units, metric: int) -> dict[int, _Moments]:
    """Compute the means of the groups that have a score."""
    import numpy as np

    found = {}
    for g in range(units.bounds.size - 1):
        part = slice(units.bounds[g], units.bounds[g + 1])
        w, t = units.weights[metric, part], units.totals[metric, part]
        k, total = int((w > 0).sum()), float(w.sum())
        if not k:
            continue
        mean = float(t.sum()) / total
        moved = (t - mean * w) / total * (math.sqrt(k / (k - 1)) if k > 1 else 0.0)
        # Set rounding errors of constant values to 0.
        moved[np.abs(moved) * total < _ROUNDING * w * max(1.0, abs(float(units.centers[metric])))] = 0.0
        found[g] = _Moments(
            mean=mean + float(units.centers[metric]), variance=float((moved**2).sum()), k=k, moved=moved
        )
    return found


def _statistic(moments: dict[int, _Moments], pair: tuple[int, int]) -> float:
    """Return the standardized difference of a pair."""
    first, second = moments[pair[0]], moments[pair[1]]
    difference, error = first.mean - second.mean, math.sqrt(first.variance + second.variance)
    return abs(difference) / error * (1 - _SAME) if error else (math.inf if difference else 0.0)


def _own(group: _Moments, ends: tuple[float, float], confidence_level: float) -> tuple[float, float]:
    """Return the interval of the mean of a group whose units are all equal."""
    mean = min(max(group.mean, ends[0]), ends[1])
    estimate = mean_interval([mean] * group.k, low=ends[0], high=ends[1], confidence_level=confidence_level)
    return estimate.low, estimate.high


def _permute_maxima(
    units: _Units, tested: Sequence[Sequence[tuple[int, int]]], compared: Sequence[int], n_resamples: int, seed: int
) -> NDArray[np.float64]:
    """Compute the largest standardized difference of each metric for permutations of whole units, which keep their weights."""
    import numpy as np

    rng = np.random.default_rng(seed)
    kept = np.concatenate([np.arange(units.bounds[g], units.bounds[g + 1]) for g in compared])
    sizes = np.array([units.bounds[g + 1] - units.bounds[g] for g in compared])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    place = {g: k for k, g in enumerate(compared)}
    w, t = units.weights[:, kept], units.totals[:, kept]
    is_complete = bool((w > 0).all())
    # Terms of the mean and its variance, per unit: terms by metrics by units.
    parts = np.stack([w, t, w**2, w * t, t**2, *([] if is_complete else [(w > 0).astype(float)])])
    scale = np.maximum(1.0, np.abs(t / np.where(w > 0, w, 1.0)).max(axis=1))[None, :, None]
    largest = np.zeros((len(tested), n_resamples))
    chunk = max(1, _CHUNK_NUMBERS // (kept.size * parts.shape[0] * parts.shape[1]))
    for start in range(0, n_resamples, chunk):
        count = min(chunk, n_resamples - start)
        orders = rng.permuted(np.tile(np.arange(kept.size), (count, 1)), axis=1)
        # Permutations by metrics by groups.
        w0, w1, v0, v1, v2, *n = (np.add.reduceat(part[:, orders], starts, axis=2).transpose(1, 0, 2) for part in parts)
        k = sizes.astype(float)[None, None, :] if is_complete else n[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            means = w1 / w0
            variances = np.maximum(v2 - 2 * means * v1 + means**2 * v0, 0.0) / w0**2 * (k / (k - 1))
        for metric, pairs in enumerate(tested):
            if not pairs:
                continue
            first, second = (np.array([place[pair[side]] for pair in pairs]) for side in (0, 1))
            # Permutations by pairs.
            differences = abs(means[:, metric, first] - means[:, metric, second])
            errors = np.sqrt(variances[:, metric, first] + variances[:, metric, second])
            # Set rounding errors of constant values to 0.
            errors[errors < _SAME * scale[0, metric, 0]] = 0.0
            with np.errstate(divide="ignore", invalid="ignore"):
                statistics = np.where(differences < _SAME, 0.0, differences / errors)
            # A group without two scores in this permutation does not have an error.
            largest[metric, start : start + count] = np.nan_to_num(statistics, posinf=np.inf).max(axis=1)
    return largest


def _normal_limit(
    moments: Sequence[dict[int, _Moments]],
    tested: Sequence[Sequence[tuple[int, int]]],
    compared: Sequence[int],
    n_draws: int,
    seed: int,
) -> NDArray[np.float64]:
    """Draw the largest standardized difference of normal means with the covariance of the groups' means on all metrics."""
    import numpy as np

    rng = np.random.default_rng(seed)
    means = {}
    for g in compared:
        has = [metric for metric, found in enumerate(moments) if g in found]
        moved = np.stack([moments[metric][g].moved for metric in has])
        # The factor is a root of the covariance of the metrics.
        values, vectors = np.linalg.eigh(moved @ moved.T)
        factor = vectors * np.sqrt(np.maximum(values, 0.0))
        drawn = rng.standard_normal((n_draws, len(has))) @ factor.T
        means[g] = dict(zip(has, drawn.T, strict=True))
    largest = np.zeros((len(tested), n_draws))
    for metric, pairs in enumerate(tested):
        for i, j in pairs:
            error = math.sqrt(moments[metric][i].variance + moments[metric][j].variance)
            if error:
                np.maximum(largest[metric], abs(means[i][metric] - means[j][metric]) / error, out=largest[metric])
    return largest


def step_down(
    largest: Sequence[NDArray[np.float64]], reached: Sequence[Sequence[float | None]], *, extra: int
) -> list[list[float]]:
    """Adjust p-values for all pairs of all tables, so that the probability of any false rejection is controlled.

    The p-value of a pair is the share of permutations whose largest statistic of all tables reaches its own. A table
    whose pairs are all rejected no longer counts for the others, in the order of the tables' smallest statistics. (A
    table with one pair that is not rejected counts, because its true null hypotheses must stay in the maximum.)
    `largest` are, for each table, the largest statistics of the permutations in the same order, `reached` the
    statistics of the pairs, or None for an untestable pair, whose p-value is 1. `extra` permutations are added for the
    data: 0 if the permutations include them.

    Source:
        Westfall and Young 1993, section 2.8 (step-down maximum), with whole tables as steps. Holm 1979.
    """
    import numpy as np

    total = largest[0].size
    weakest = [min((-math.inf if one is None else one) for one in of_table) for of_table in reached]
    order = sorted(range(len(largest)), key=lambda t: -weakest[t])

    def p_value(drawn: NDArray[np.float64], statistic: float | None) -> float:
        if statistic is None:
            return 1.0
        return float(total - np.searchsorted(drawn, statistic) + extra) / (total + extra)

    adjusted: list[list[float]] = [[1.0] * len(of_table) for of_table in reached]
    # The largest adjusted p-value of the earlier tables: it must be significant before a step applies.
    hurdle = 0.0
    for step, t in enumerate(order):
        drawn = np.sort(np.max([largest[later] for later in order[step:]], axis=0))
        for later in order[step:]:
            adjusted[later] = [
                min(before, max(hurdle, p_value(drawn, one)))
                for before, one in zip(adjusted[later], reached[later], strict=True)
            ]
        hurdle = max(hurdle, *(p_value(drawn, one) for one in reached[t]))
    return adjusted
