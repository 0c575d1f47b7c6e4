"""The paired randomized Tukey HSD test of differences between systems, for all pairs or a family of pairs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ragstone.stats._arrange import Arrangement
from ragstone.stats._cluster import cluster_codes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Alternative = Literal["two-sided", "greater", "less"]

_SAME = 1e-9
"""Tolerance within which differences are equal, relative to the largest possible one. Sums of the same numbers in a
different order differ by rounding errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TukeyPair:
    """Comparison of two systems, identified by their columns."""

    first: int
    second: int
    n: int
    """Rows with scores of both systems."""
    difference: float | None
    """Mean of first - second over these rows, or None without rows."""
    p_value: float | None
    """p-value, adjusted for the whole family of pairs, never 0. None without rows, which Holm's correction counts as
    1."""
    mc_error: float | None
    """Monte Carlo standard error of the p-value. It is 0 if all permutations were enumerated."""
    low: float | None
    """Lower limit of the simultaneous confidence interval of the difference. None if it is unbounded: for the
    alternative "less", and if there are too few permutations to reject any hypothesis at this confidence level."""
    high: float | None
    """Upper limit. None in the same cases, with "greater" instead of "less"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TukeyResult:
    """Comparisons of a family of pairs of systems."""

    pairs: tuple[TukeyPair, ...]
    """Comparisons in the requested order, by default (0, 1), (0, 2), ..., (1, 2), ..."""
    n_systems: int
    n_rows: int
    alternative: Alternative
    confidence_level: float
    """Probability that the intervals contain all differences simultaneously."""
    method: str
    """ "randomized_tukey", "sign_flips", "independent_permutation" or "independent_normal"."""
    n_resamples: int
    """Number of permutations behind each p-value."""
    exact: bool
    """True if all existing permutations were enumerated."""
    n_units: int
    """Number of permuted units: rows or clusters whose scores are not all equal, or blocks if there are more than
    16,384."""
    seed: int


def randomized_tukey(
    scores: Sequence[Sequence[float]] | NDArray[np.float64],
    *,
    pairs: Sequence[tuple[int, int]] | None = None,
    clusters: Sequence[Hashable] | None = None,
    alternative: Alternative = "two-sided",
    n_resamples: int = 10_000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> TukeyResult:
    """Compare systems scored on the same samples, with simultaneous p-values and intervals for all pairs.

    If the systems do not differ, the scores of a sample are exchangeable. The test therefore permutes each row and
    computes the largest difference of all pairs, `n_resamples` times. The p-value of a pair is the share of
    permutations whose largest difference is at least that of the pair, with the data counted as one permutation. The
    test does not assume a distribution. If no system differs, the probability of any false rejection is at most 1 -
    `confidence_level`. If some systems differ and their variances are unequal, this bound is only approximate.

    Missing scores: the difference of a pair uses the rows with both scores, so a system does not gain from failures on
    difficult samples. Only present cells of a row are permuted. Differences are weighted by the square root of their
    number of rows, as in the Tukey-Kramer method, so a pair with few rows does not dominate.

    The simultaneous interval of a difference is the difference plus and minus the critical value of the same test. It
    excludes 0 exactly if p <= 1 - `confidence_level`.

    Args:
        scores: Samples by systems. NaN is a missing score.
        pairs: Columns to compare, (first, second). None: all pairs. A smaller family has more power.
        clusters: Label of the cluster of each sample, such as its session. Samples of one cluster are not independent,
            so the columns of a whole cluster are permuted in the same way. Each None is a cluster of its own. None: the
            samples are independent.
        alternative: "greater" for the hypothesis that the first system of each pair is better, "less" that it is worse.
            A one-sided alternative requires `pairs`, and uses the largest difference in its direction.
        n_resamples: Number of permutations drawn. If at most this number of distinct permutations exists, all are
            enumerated.
        confidence_level: Confidence level of the simultaneous intervals, in (0, 1).
        seed: Seed of the random numbers. The same seed gives the same result on any machine.

    Raises:
        ValueError: If there are fewer than two systems, a score is infinite, a pair does not exist, or an option is out
            of range.

    Source:
        Carterette 2012, "Multiple testing in statistical analysis of systems-based information retrieval experiments".
        CCRS, appendix F (with count / B, unpaired means and no seed). Counting the data: Phipson and Smyth 2010.

    Examples:
        >>> result = randomized_tukey([[0.9, 0.4], [0.8, 0.3], [0.7, 0.3], [0.9, 0.6], [0.8, 0.5], [0.6, 0.2]])
        >>> result.exact, result.pairs[0].p_value
        (True, 0.03125)
    """
    import numpy as np

    x, family = check_scores(scores, pairs, alternative, confidence_level)
    if clusters is not None and len(clusters) != len(x):
        raise ValueError(f"each of {len(x)} samples needs a cluster, got {len(clusters)} clusters")
    if n_resamples < 1:
        raise ValueError(f"n_resamples must be at least 1, got {n_resamples}")
    # The first child seeds the blocks, the second the permutations.
    for_blocks, for_orders = np.random.SeedSequence(seed).spawn(2)
    codes = None if clusters is None else cluster_codes(clusters)
    arranged = Arrangement(x, codes, np.random.default_rng(for_blocks))
    choices = arranged.choices(n_resamples)
    chunks = arranged.random(n_resamples, for_orders) if choices is None else arranged.enumerated(choices)
    first, second = np.array(family).T
    table = _Differences.of(x, family)
    sign = -1.0 if alternative == "less" else 1.0
    largest = []
    for count, totals in chunks:
        permuted = np.zeros((count, len(family)))
        for group, sums_of_group in zip(arranged.groups, totals, strict=True):
            place = np.full(x.shape[1], -1)
            place[list(group.columns)] = range(len(group.columns))
            both = (place[first] >= 0) & (place[second] >= 0)
            permuted[:, both] += sums_of_group[:, place[first[both]]] - sums_of_group[:, place[second[both]]]
        permuted *= sign / table.root
        reached = abs(permuted) if alternative == "two-sided" else permuted
        largest.append(reached.max(axis=1, where=table.n > 0, initial=-math.inf))
    drawn = np.sort(np.concatenate(largest))
    tolerance = _SAME * float((table.sizes / table.root).max())
    exact, total = choices is not None, drawn.size
    # The data count as one additional permutation. An enumeration already includes them.
    extra = 0 if exact else 1
    # Number of permutations that may reach the difference of a rejected hypothesis.
    allowed = math.floor((1 - confidence_level) * (total + extra) + _SAME) - extra
    critical = float(drawn[-1 - allowed]) + tolerance if allowed >= 0 else math.inf
    # An enumeration includes the data, so no observed difference exceeds the largest permuted difference.
    limit = float(drawn[-1]) if exact else math.inf
    observed = sign * table.sums / table.root
    statistics = (abs(observed) if alternative == "two-sided" else observed) - tolerance
    p_values = (total - np.searchsorted(drawn, statistics) + extra) / (total + extra)
    is_bounded = critical < limit
    found = []
    for i, p in enumerate(p_values.tolist()):
        n, half = int(table.n[i]), critical / float(table.root[i]) if is_bounded else None
        mean = float(table.sums[i]) / n if n else None
        found.append(
            TukeyPair(
                first=family[i][0],
                second=family[i][1],
                n=n,
                difference=mean,
                p_value=p if n else None,
                mc_error=(0.0 if exact else math.sqrt(p * (1 - p) / total)) if n else None,
                low=None if mean is None or half is None or alternative == "less" else mean - half,
                high=None if mean is None or half is None or alternative == "greater" else mean + half,
            )
        )
    return TukeyResult(
        pairs=tuple(found),
        n_systems=x.shape[1],
        n_rows=x.shape[0],
        alternative=alternative,
        confidence_level=confidence_level,
        method="randomized_tukey",
        n_resamples=total,
        exact=exact,
        n_units=arranged.n_units,
        seed=seed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Differences:
    """Differences of the pairs, over rows with both scores."""

    sums: NDArray[np.float64]
    """Sum of the differences of each pair."""
    sizes: NDArray[np.float64]
    """Sum of absolute differences."""
    n: NDArray[np.intp]
    root: NDArray[np.float64]
    """Square root of the number of rows, or 1 without rows. Sums divided by it have comparable spreads."""

    @classmethod
    def of(cls, x: NDArray[np.float64], family: Sequence[tuple[int, int]]) -> _Differences:
        import numpy as np

        sums, sizes, n = np.zeros(len(family)), np.zeros(len(family)), np.zeros(len(family), dtype=np.intp)
        for pair, (first, second) in enumerate(family):
            difference = x[:, first] - x[:, second]
            difference = difference[~np.isnan(difference)]
            sums[pair], sizes[pair], n[pair] = difference.sum(), abs(difference).sum(), difference.size
        return cls(sums=sums, sizes=sizes, n=n, root=np.sqrt(np.maximum(n, 1)))


def check_scores(
    scores: Sequence[Sequence[float]] | NDArray[np.float64],
    pairs: Sequence[tuple[int, int]] | None,
    alternative: Alternative,
    confidence_level: float,
) -> tuple[NDArray[np.float64], list[tuple[int, int]]]:
    """Return the scores as an array, and the compared pairs."""
    import numpy as np

    try:
        x = np.asarray(scores, dtype=float)
    except ValueError:
        raise ValueError(
            "scores must be samples by systems, with one cell per system for every sample (NaN if a score is missing)"
        ) from None
    if x.ndim != 2 or x.shape[1] < 2:
        raise ValueError(
            f"scores must be samples by systems with at least two systems, got an array of shape {x.shape}"
        )
    if np.isinf(x).any():
        row, column = (int(at[0]) for at in np.nonzero(np.isinf(x)))
        raise ValueError(
            f"scores must be finite, or NaN if missing, got {float(x[row, column])!r} in row {row} of system {column}"
        )
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must be in (0, 1), got {confidence_level}")
    if alternative not in ("two-sided", "greater", "less"):
        raise ValueError(f'alternative must be "two-sided", "greater" or "less", got {alternative!r}')
    if pairs is None and alternative != "two-sided":
        raise ValueError(f"the alternative {alternative!r} requires pairs=[(first, second), ...]")
    systems = range(x.shape[1])
    family = list(itertools.combinations(systems, 2)) if pairs is None else [(int(i), int(j)) for i, j in pairs]
    for i, j in family:
        if i == j or i not in systems or j not in systems:
            raise ValueError(f"a pair must be two different columns from 0 to {x.shape[1] - 1}, got {(i, j)!r}")
    if not family:
        raise ValueError("pairs must not be empty")
    return x, family
