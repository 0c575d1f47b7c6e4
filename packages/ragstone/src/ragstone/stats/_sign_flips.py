"""Paired differences: tests of many together, with random signs and step-down p-values, and their effect size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ragstone._util.distributions import student_quantile
from ragstone.stats._cluster import check_resampling, codes_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Alternative = Literal["two-sided", "greater", "less"]

_SAME: Final = 1e-9
"""Relative tolerance within which statistics are equal. Sums in a different order differ by rounding errors."""
_MAX_UNITS: Final = 1 << 14
"""Maximum number of units that get separate signs. More units are joined to this number of blocks."""
_ROUNDING: Final = 1e-12
"""Sum of a unit's differences, relative to their sizes, below which it is 0."""
_UNSEEN: Final = 2
"""Units without a difference that are added to the error of an interval. They do not change whether it contains 0."""
_CHUNK: Final = 1 << 20
"""Maximum number of signs in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairResult:
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
class FamilyResult:
    """Comparisons of a family of pairs of systems."""

    pairs: tuple[PairResult, ...]
    """Comparisons in the requested order, by default (0, 1), (0, 2), ..., (1, 2), ..."""
    method: str
    """ "sign_flips", "independent_permutation" or "independent_normal"."""
    n_resamples: int
    """Number of permutations behind each p-value."""
    exact: bool
    """True if all existing permutations were enumerated."""
    n_units: int
    """Number of permuted units: rows or clusters whose scores are not all equal, or blocks if there are more than
    16,384."""


def simultaneous_differences(
    tables: Sequence[Sequence[Sequence[float]] | NDArray[np.float64]],
    *,
    pairs: Sequence[tuple[int, int]] | None = None,
    clusters: Sequence[Hashable] | None = None,
    weights: Sequence[float] | NDArray[np.float64] | None = None,
    alternative: Alternative = "two-sided",
    n_resamples: int = 10_000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> tuple[FamilyResult, ...]:
    """Compare systems on several metrics, with p-values and intervals that hold for all pairs and metrics together.

    The statistic of a pair on a metric is the sum of its differences, divided by the root of the sum of their
    squares: a function of Student's t, so that all pairs and metrics have the same scale, and a noisy system affects
    only its own pairs. If two systems do not differ, the difference of a sample is as likely as the opposite one. The
    test therefore gives each sample a random sign, the same for all its differences, and computes the statistics
    again, `n_resamples` times.

    P-values are step-down: that of the largest statistic is the share of draws whose largest statistic of all pairs
    and metrics reaches it, with the data counted as one draw. The next one is compared with the largest statistic of
    the others, and so on. The probability of any false rejection is at most 1 - `confidence_level`, whichever systems
    differ. For one pair, and for several metrics of two systems, this holds for any number of samples if the systems
    are exchangeable. Otherwise it holds for many samples.

    An interval contains the differences that the same test does not reject at the critical value of all pairs and
    metrics (single-step), so that all intervals hold simultaneously. A difference can be significant although its
    interval includes 0, because the critical value of a step is smaller: then only its sign is known.

    Args:
        tables: For each metric, the same samples by the same systems. NaN is a missing score. A difference uses the
            samples with both scores.
        pairs: Columns to compare, (first, second). None: all pairs. A smaller family has more power.
        clusters: Label of the cluster of each sample, such as its session. The samples of a cluster have one sign. Each
            None is a cluster of its own. None: the samples are independent.
        weights: Positive weight of each sample, such as 1 / sampling probability.
        alternative: "greater" for the hypothesis that the first system of each pair is better, "less" that it is worse.
            A one-sided alternative requires `pairs`.
        n_resamples: Number of draws. If at most this number of different signs exists, all are enumerated.
        confidence_level: Confidence level of the simultaneous intervals, in (0, 1).
        seed: Seed of the random numbers. The same seed gives the same result on any machine.

    Returns:
        A result for each table. A limit is None if it is unbounded: if too few samples differ to reject any hypothesis
        about the pair at this confidence level, and on one side for a one-sided alternative.

    Raises:
        ValueError: If there are fewer than two systems, a score is infinite, a pair does not exist, a weight is not
            positive, or an option is out of range.

    Source:
        Romano and Wolf 2005, "Exact and approximate stepdown methods for multiple hypothesis testing". Signs: Fisher
        1935, section 21. Self-normalized sums of differences that are not symmetric: Efron 1969. Interval: Fieller
        1954, with two further units as in Agresti and Coull 1998.

    Examples:
        >>> (result,) = simultaneous_differences(
        ...     [[[0.9, 0.4], [0.8, 0.3], [0.7, 0.3], [0.9, 0.6], [0.8, 0.5], [0.6, 0.2]]]
        ... )
        >>> result.exact, result.pairs[0].p_value
        (True, 0.03125)
    """
    import numpy as np

    check_resampling(n_resamples, confidence_level)
    checked = [_check_scores(table, pairs, alternative) for table in tables]
    family = checked[0][1]
    x = [table for table, _ in checked]
    # The first child seeds the blocks, the second the signs.
    for_blocks, for_signs = np.random.SeedSequence(seed).spawn(2)
    sums = _Sums.of(x, family, clusters, weights, np.random.default_rng(for_blocks))
    n_units = len(sums.differences)
    exact = n_units < n_resamples.bit_length() and 1 << n_units <= n_resamples
    signs = _all_signs(n_units) if exact else _random_signs(n_units, n_resamples, for_signs)
    root = np.sqrt((sums.differences**2).sum(axis=0))
    scaled = sums.differences / np.where(root > 0, root, 1.0) * (-1.0 if alternative == "less" else 1.0)

    def statistics(of_signs: NDArray[np.float64]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = of_signs @ scaled
        return abs(found) if alternative == "two-sided" else found

    observed = statistics(np.ones((1, n_units)))[0]
    tolerance = _SAME * math.sqrt(max(n_units, 1))
    tested = np.flatnonzero(sums.n > 0)
    order = tested[np.argsort(-observed[tested], kind="stable")]
    reached, largest = np.zeros(order.size, dtype=np.intp), [np.zeros(0)]
    for chunk in signs if order.size else ():
        # For each pair, the largest statistic of its own and of those that are smaller in the data.
        steps = np.maximum.accumulate(statistics(chunk)[:, order[::-1]], axis=1)[:, ::-1]
        reached += (steps >= observed[order] - tolerance).sum(axis=0)
        largest.append(steps[:, 0].copy())
    drawn = np.sort(np.concatenate(largest))
    # The data count as one additional draw. An enumeration already includes them.
    extra = 0 if exact else 1
    p_values = np.ones(observed.size)
    p_values[order] = np.maximum.accumulate((reached + extra) / max(drawn.size + extra, 1))
    # Number of draws that may reach the statistic of a rejected hypothesis.
    allowed = math.floor((1 - confidence_level) * (drawn.size + extra) + _SAME) - extra
    critical = float(drawn[-1 - allowed]) + tolerance if drawn.size and allowed >= 0 else math.inf
    tail = (1 - confidence_level) / (2 if alternative == "two-sided" else 1)
    # No draw of a pair exceeds the sum of its absolute values.
    is_bounded = abs(scaled).sum(axis=0) > critical
    found = []
    for column, p in enumerate(p_values.tolist()):
        first, second = family[column % len(family)]
        n, ends = int(sums.n[column]), sums.interval(column, critical, tail) if is_bounded[column] else None
        found.append(
            PairResult(
                first=first,
                second=second,
                n=n,
                difference=float(sums.sums[column] / sums.weight[column]) if n else None,
                p_value=p if n else None,
                mc_error=(0.0 if exact else math.sqrt(p * (1 - p) / n_resamples)) if n else None,
                low=None if ends is None or alternative == "less" else ends[0],
                high=None if ends is None or alternative == "greater" else ends[1],
            )
        )
    return tuple(
        FamilyResult(
            pairs=tuple(found[start : start + len(family)]),
            method="sign_flips",
            n_resamples=int(drawn.size),
            exact=exact,
            n_units=n_units,
        )
        for start in range(0, len(found), len(family))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sums:
    """Weighted sums of the differences of each pair on each metric (columns), over rows with both scores."""

    differences: NDArray[np.float64]
    """Units by columns, without units whose differences are all 0. The order does not depend on that of the samples."""
    sums: NDArray[np.float64]
    """Sum of the differences of each column."""
    n: NDArray[np.intp]
    """Rows with both scores."""
    n_units: NDArray[np.intp]
    """Units with both scores."""
    weight: NDArray[np.float64]
    """Sum of the weights of these rows."""
    squares: NDArray[np.float64]
    """Sum of the squares of the units' weights."""
    products: NDArray[np.float64]
    """Sum of the products of the units' differences and weights."""

    @classmethod
    def of(
        cls,
        tables: Sequence[NDArray[np.float64]],
        family: Sequence[tuple[int, int]],
        clusters: Sequence[Hashable] | None,
        weights: Sequence[float] | NDArray[np.float64] | None,
        rng: np.random.Generator,
    ) -> _Sums:
        import numpy as np

        n = len(tables[0])
        if any(table.shape != tables[0].shape for table in tables):
            raise ValueError(f"tables must have the same samples and systems, got shapes {[t.shape for t in tables]}")
        w = np.ones(n) if weights is None else np.asarray(weights, dtype=float)
        if w.shape != (n,) or not (np.isfinite(w) & (w > 0)).all():
            raise ValueError(
                f"each of {n} samples needs a finite weight above 0, got {w.size} weights from {w.min()} on"
            )
        w = w / w.mean() if n else w
        codes = codes_of(n, clusters)
        k = int(codes.max()) + 1 if n else 0
        if k > _MAX_UNITS:
            codes, k = (rng.permutation(k) % _MAX_UNITS)[codes], _MAX_UNITS
        shape = k, len(tables) * len(family)
        differences, of_units, counts = np.zeros(shape), np.zeros(shape), np.zeros(shape[1], dtype=np.intp)
        for column, (table, (first, second)) in enumerate(itertools.product(tables, family)):
            difference = table[:, first] - table[:, second]
            both = np.flatnonzero(~np.isnan(difference))
            at, weighted = codes[both], difference[both] * w[both]
            found = np.bincount(at, weights=weighted, minlength=k)
            # Differences of a cluster that add up to 0 can leave a rounding error.
            found[abs(found) <= _ROUNDING * np.bincount(at, weights=abs(weighted), minlength=k)] = 0.0
            differences[:, column], counts[column] = found, both.size
            of_units[:, column] = np.bincount(at, weights=w[both], minlength=k)
        varying = differences[(differences != 0).any(axis=1)]
        return cls(
            differences=varying[np.lexsort(varying.T)],
            sums=differences.sum(axis=0),
            n=counts,
            n_units=(of_units > 0).sum(axis=0),
            weight=of_units.sum(axis=0),
            squares=(of_units**2).sum(axis=0),
            products=(differences * of_units).sum(axis=0),
        )

    def interval(self, column: int, critical: float, tail: float) -> tuple[float, float] | None:
        """Return the differences whose statistic does not exceed a critical value, or None if they are unbounded.

        If few values are possible, that of the test is too small for other differences than 0, so it is at least
        that of Student's t for one comparison. On each side, the interval reaches at least as far as it would towards 0
        with two further units without a difference, so that equal differences have an interval.
        """
        n = int(self.n_units[column])
        if n < 2:
            return None
        t = student_quantile(n - 1, 1 - tail)
        c = max(critical, t * math.sqrt(n / (n - 1 + t * t)), 0.0)
        total, weight = float(self.sums[column]), float(self.weight[column])
        # A difference d is not rejected if (total - d weight)^2 <= c^2 sum((difference - d weight)^2) over units.
        b = total * weight - c**2 * float(self.products[column])
        e = total**2 - c**2 * float((self.differences[:, column] ** 2).sum())
        ends = []
        for squares in (self.squares[column], self.squares[column] + _UNSEEN * (weight / n) ** 2):
            a = weight**2 - c**2 * float(squares)
            if a <= 0:
                return None
            half = math.sqrt(max(b * b - a * e, 0.0))
            ends.append(((b - half) / a, (b + half) / a))
        (low, high), further = ends
        difference = total / weight
        reach = difference - further[0] if difference > 0 else further[1] - difference
        return min(low, difference - reach), max(high, difference + reach)


def _all_signs(n_units: int) -> Iterator[NDArray[np.float64]]:
    """Yield all signs of units once, as one chunk of draws by units."""
    import numpy as np

    bits = (np.arange(1 << n_units)[:, None] >> np.arange(n_units)) & 1
    yield bits * np.float64(2) - 1


def _random_signs(n_units: int, n_resamples: int, seed: np.random.SeedSequence) -> Iterator[NDArray[np.float64]]:
    """Yield chunks of random signs, draws by units. They share their memory."""
    import numpy as np

    rng = np.random.default_rng(seed)
    size = max(1, _CHUNK // n_units)
    signs = np.empty((min(size, n_resamples), n_units))
    for start in range(0, n_resamples, size):
        bits = rng.integers(0, 256, (min(size, n_resamples - start), (n_units + 7) // 8), dtype=np.uint8)
        chunk = signs[: len(bits)]
        chunk[:] = np.unpackbits(bits, axis=1, count=n_units)
        chunk *= 2
        chunk -= 1
        yield chunk


def _check_scores(
    scores: Sequence[Sequence[float]] | NDArray[np.float64],
    pairs: Sequence[tuple[int, int]] | None,
    alternative: Alternative,
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


def paired_effect(differences: NDArray[np.float64]) -> float | None:
    """Return Cohen's d_z with Hedges' correction for small n: the mean difference, in standard deviations of the differences.

    It is for paired scores. Cohen's d of two independent groups divides by the standard deviation of the scores, and is
    smaller the more the systems' scores correlate. Without the correction d_z is 9% too large at n = 10. None for fewer
    than 3 differences, whose correction does not exist, and if all are equal.

    Source:
        Lakens 2013, formulas 4 and 7. Exact correction: Hedges 1981.

    Examples:
        >>> import numpy as np
        >>> round(paired_effect(np.array([0.5, 0.5, 0.4, 0.0])), 2)
        1.06
    """
    freedom = differences.size - 1
    if freedom < 2 or differences.min() == differences.max():
        return None
    correction = math.exp(math.lgamma(freedom / 2) - math.lgamma((freedom - 1) / 2)) / math.sqrt(freedom / 2)
    return float(differences.mean()) / float(differences.std(ddof=1)) * correction
