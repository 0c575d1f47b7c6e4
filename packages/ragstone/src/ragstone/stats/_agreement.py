"""Agreement of raters beyond chance: Cohen's and Fleiss' kappa, Krippendorff's alpha, with intervals over items."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from ragstone.stats._cluster import check_resampling, codes_of, effective_number, jackknife_interval
from ragstone.stats._mean import Estimate, estimate_around, wilson_interval
from ragstone.stats._weight import estimate_mean

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Rating = str | float | None
"""Rating of an item: a label or a number. None (or NaN) is a missing rating."""
Ratings = Sequence[Sequence[Rating]]
"""Items by raters."""

_CELLS: Final = 1_000_000
"""Resamples times ratings per batch (8 MB per table)."""
_ROUNDING: Final = 1e-12
"""Disagreement below this value is a rounding error."""
_WORDS: Final = ((0.2, "slight"), (0.4, "fair"), (0.6, "moderate"), (0.8, "substantial"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement beyond chance, with observed and expected agreement."""

    coefficient: Estimate | None
    """1 - (observed / expected disagreement), with a bootstrap interval over items, or a jackknife interval over
    clusters. If raters agree on every item, the bootstrap interval would have width 0, so it is Wilson's interval of n
    out of n (items or effective clusters), less the agreement by chance. If all resamples have the same other
    coefficient (one rater always gives the same rating), the interval is [-1, 1] (method "range"). None if all ratings
    are equal, because the expected disagreement is then 0."""
    observed: float | None
    """Observed agreement (1 - observed disagreement). None without items, and if disagreement is unbounded."""
    expected: float | None
    """Agreement expected of independent raters with the same distribution of ratings."""
    n: int
    """Items with at least two ratings."""
    n_left_out: int
    """Items with fewer than two ratings, which are not counted."""

    @property
    def words(self) -> str:
        """Name of the agreement by Landis and Koch, or "undefined" without a coefficient."""
        return "undefined" if self.coefficient is None else landis_koch(self.coefficient.value)


def landis_koch(kappa: float) -> str:
    """Return the name of a kappa: poor below 0, then slight, fair, moderate, substantial and almost perfect.

    The classes end at 0.20, 0.40, 0.60 and 0.80, after rounding to two digits: 0 and 0.204 are slight, 0.21 is fair.
    The names are a convention and not a test, because kappa also depends on the prevalence of the categories.

    Raises:
        ValueError: If the number is above 1 or NaN.

    Source:
        Landis and Koch 1977, "The measurement of observer agreement for categorical data".

    Examples:
        >>> landis_koch(0.85)
        'almost perfect'
    """
    if not kappa <= 1:
        raise ValueError(f"kappa must be at most 1, got {kappa}")
    if kappa < 0:
        return "poor"
    return next((word for top, word in _WORDS if round(kappa, 2) <= top), "almost perfect")


def percent_agreement(
    ratings: Ratings, *, clusters: Sequence[Hashable] | None = None, confidence_level: float = 0.95
) -> Estimate | None:
    """Compute the share of pairs of raters that agree, averaged over items.

    With two raters it is a proportion of items, with Wilson's interval, or over `clusters` of items with that of
    `hajek_mean`. It is not corrected for chance: two raters who each accept 95% of the items at random agree on 90% of
    them. The result is None if no item has two ratings.

    Examples:
        >>> percent_agreement([["yes", "yes"], ["yes", "no"]]).value
        0.5
    """
    codes, labels = _coded(ratings, None)
    counts = _counts(codes, len(labels))
    pairable = counts.sum(axis=1) >= 2
    groups = _groups(clusters, pairable)
    m = counts[pairable].sum(axis=1)
    shares = (counts[pairable] * (counts[pairable] - 1)).sum(axis=1) / (m * (m - 1))
    own = None if groups is None else groups.tolist()
    return estimate_mean(shares, low=0.0, high=1.0, clusters=own, confidence_level=confidence_level)


def cohen_kappa(
    first: Sequence[Rating],
    second: Sequence[Rating],
    *,
    weights: Literal["none", "linear", "quadratic"] = "none",
    categories: Sequence[Rating] | None = None,
    clusters: Sequence[Hashable] | None = None,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Compute Cohen's kappa of two raters, in [-1, 1].

    Args:
        first: Ratings of the first rater. None (or NaN) is a missing rating.
        second: Ratings of the second rater for the same items.
        weights: Weights of disagreements: "none" (all equal), "linear" (distance between the positions of the two
            categories) or "quadratic" (its square).
        categories: All categories in their order. None: the categories that occur, sorted. With weights, an unused
            category in the middle changes the result.
        clusters: Label of the cluster of each item, such as its session. Each None is a cluster of its own. The
            interval is then a jackknife over clusters with Student's t. None: independent items.
        n_resamples: Number of bootstrap resamples of the items, without clusters.
        confidence_level: Nominal coverage, in (0, 1).
        seed: Seed of the random numbers.

    Raises:
        ValueError: If the lengths differ, an option is out of range, or a rating is not one of `categories`.

    Source:
        Cohen 1960 (unweighted), 1968 (weighted).

    Examples:
        >>> agreement = cohen_kappa([1, 1, 0, 0, 1], [1, 1, 0, 1, 1])
        >>> round(agreement.coefficient.value, 3), agreement.words
        (0.545, 'moderate')
    """
    import numpy as np

    if len(first) != len(second):
        raise ValueError(f"both raters must rate the same items, got {len(first)} and {len(second)} ratings")
    if weights not in ("none", "linear", "quadratic"):
        raise ValueError(f"weights must be 'none', 'linear' or 'quadratic', got {weights!r}")
    check_resampling(n_resamples, confidence_level)
    codes, labels = _coded(list(zip(first, second, strict=True)), categories)
    rated = np.asarray((codes >= 0).all(axis=1))
    groups = _groups(clusters, rated)
    both = codes[rated]
    n, k = len(both), len(labels)
    if n == 0:
        return Agreement(coefficient=None, observed=None, expected=None, n=0, n_left_out=len(codes))
    position = np.arange(k)
    distance = np.abs(position[:, None] - position).astype(float)
    distance = (distance > 0).astype(float) if weights == "none" else (distance / max(k - 1, 1))
    distance = distance**2 if weights == "quadratic" else distance

    # Items in the same cell of the table are interchangeable, so resample the counts of cells.
    cells, cell_of = np.unique(both[:, 0] * k + both[:, 1], return_inverse=True)
    counts = np.bincount(cell_of).astype(float)

    def parts(times: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        tables = np.zeros((len(times), k * k))
        tables[:, cells] = times
        shares = tables.reshape(-1, k, k) / times.sum(axis=1)[:, None, None]
        observed = (shares * distance).sum(axis=(1, 2))
        return observed, np.einsum("bi,bj,ij->b", shares.sum(axis=2), shares.sum(axis=1), distance)

    sizes = None
    if groups is None:
        drawn = np.random.default_rng(seed).multinomial(n, counts / n, size=n_resamples).astype(float)
    else:
        sizes = np.bincount(groups).astype(float)
        own = np.zeros((sizes.size, cells.size))
        np.add.at(own, (groups, cell_of), 1.0)
        drawn = counts - own
    return _agreement(
        codes,
        parts(counts[None, :]),
        parts(drawn),
        n=n,
        n_left_out=len(codes) - n,
        sizes=sizes,
        confidence_level=confidence_level,
    )


def fleiss_kappa(
    ratings: Ratings,
    *,
    clusters: Sequence[Hashable] | None = None,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Compute Fleiss' kappa of several raters, with the same number of ratings for each item.

    The raters may differ between items. If the number of ratings differs between items, use `krippendorff_alpha`.

    Args:
        ratings: Items by raters, without missing ratings, at least two raters.
        clusters: Label of the cluster of each item, such as its session. Each None is a cluster of its own. The
            interval is then a jackknife over clusters with Student's t. None: independent items.
        n_resamples: Number of bootstrap resamples of the items, without clusters.
        confidence_level: Nominal coverage, in (0, 1).
        seed: Seed of the random numbers.

    Raises:
        ValueError: If the number of ratings differs between items, or an option is out of range.

    Source:
        Fleiss 1971.

    Examples:
        >>> agreement = fleiss_kappa([["a", "a", "a"], ["a", "b", "b"], ["b", "b", "b"]])
        >>> round(agreement.coefficient.value, 2)
        0.55
    """
    import numpy as np

    check_resampling(n_resamples, confidence_level)
    codes, labels = _coded(ratings, None)
    if not len(codes):
        return Agreement(coefficient=None, observed=None, expected=None, n=0, n_left_out=0)
    m = codes.shape[1]
    if m < 2 or (codes < 0).any():
        raise ValueError(
            f"Fleiss' kappa needs the same number of ratings (at least 2) for every item, got {m} columns and "
            f"{int((codes < 0).any(axis=1).sum())} items with missing ratings. Use krippendorff_alpha for missing ratings"
        )
    counts = _counts(codes, len(labels))
    apart = (1 - (counts * (counts - 1)).sum(axis=1) / (m * (m - 1)))[:, None]
    n = len(codes)
    groups = _groups(clusters, np.ones(n, dtype=bool))

    def parts(times: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        items = times.sum(axis=1)
        observed = (times @ apart)[:, 0] / items
        chance = 1 - ((times @ counts / (items[:, None] * m)) ** 2).sum(axis=1)
        return observed, chance

    return _agreement(
        codes,
        parts(np.ones((1, n))),
        _redrawn(parts, n, groups, step=max(1, _CELLS // n), n_resamples=n_resamples, seed=seed),
        n=n,
        n_left_out=0,
        sizes=None if groups is None else np.bincount(groups).astype(float),
        confidence_level=confidence_level,
    )


def krippendorff_alpha(
    ratings: Ratings,
    *,
    scale: Literal["nominal", "ordinal", "interval"] = "nominal",
    clusters: Sequence[Hashable] | None = None,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Compute Krippendorff's alpha of any number of raters, with any missing ratings.

    Args:
        ratings: Items by raters. None or NaN is a missing rating. The ordinal and interval scales need numbers.
        scale: Distance of two ratings: "nominal" (equal or not), "ordinal" (by ranks) or "interval" (squared
            difference).
        clusters: Label of the cluster of each item, such as its session. Each None is a cluster of its own. The
            interval is then a jackknife over clusters with Student's t. None: independent items.
        n_resamples: Number of bootstrap resamples of the items, without clusters.
        confidence_level: Nominal coverage, in (0, 1).
        seed: Seed of the random numbers.

    Raises:
        ValueError: If an option is out of range, the lengths of rows differ, or ratings on a numeric scale are labels.

    Source:
        Krippendorff 2011, "Computing Krippendorff's alpha-reliability". The interval is a bootstrap over items.

    Examples:
        >>> agreement = krippendorff_alpha([[1, 1, None], [2, 2, 3], [3, 3, 3], [None, 1, None]], scale="ordinal")
        >>> round(agreement.coefficient.value, 2), agreement.n, agreement.n_left_out
        (0.78, 3, 1)
    """
    import numpy as np

    check_resampling(n_resamples, confidence_level)
    if scale not in ("nominal", "ordinal", "interval"):
        raise ValueError(f"scale must be 'nominal', 'ordinal' or 'interval', got {scale!r}")
    codes, labels = _coded(ratings, None)
    all_items = len(codes)
    pairable = (codes >= 0).sum(axis=1) >= 2
    groups = _groups(clusters, pairable)
    codes = codes[pairable]
    n = len(codes)
    if n == 0:
        return Agreement(coefficient=None, observed=None, expected=None, n=0, n_left_out=all_items)
    numbers: NDArray[np.float64] = np.zeros(0)
    if scale != "nominal":
        if any(isinstance(label, str) for label in labels):
            raise ValueError(
                f"the {scale} scale needs numbers, got {next(la for la in labels if isinstance(la, str))!r}"
            )
        numbers = np.asarray(labels, dtype=float)
        # Alpha does not depend on the scale. Scaling keeps the precision of squares of large numbers.
        numbers = (numbers - numbers.mean()) / (np.ptp(numbers) or 1.0)
    counts = _counts(codes, len(labels))
    m = counts.sum(axis=1)

    def parts(times: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        total = times @ counts
        size = total.sum(axis=1)
        if scale == "nominal":
            apart = (m * m - (counts * counts).sum(axis=1)) / (m - 1)
            return times @ apart / size, (size * size - (total * total).sum(axis=1)) / (size * (size - 1))
        # With ranks of the pooled ratings, the ordinal distance is a squared difference. Each resample has its own
        # ranks.
        x = (np.cumsum(total, axis=1) - total / 2) / size[:, None] if scale == "ordinal" else numbers[None, :]
        one, two = x @ counts.T, (x * x) @ counts.T
        apart = 2 * (m * two - one * one) / (m - 1)
        first, second = (total * x).sum(axis=1), (total * x * x).sum(axis=1)
        chance = 2 * (size * second - first * first) / (size * (size - 1))
        return (times * apart).sum(axis=1) / size, chance

    step = max(1, _CELLS // max(n, len(labels)))
    result = _agreement(
        codes,
        parts(np.ones((1, n))),
        _redrawn(parts, n, groups, step=step, n_resamples=n_resamples, seed=seed),
        n=n,
        n_left_out=all_items - n,
        sizes=None if groups is None else np.bincount(groups).astype(float),
        confidence_level=confidence_level,
    )
    if scale == "nominal":
        return result
    # A squared difference is not a share, so 1 minus it is not an agreement.
    return replace(result, observed=None, expected=None)


def _groups(clusters: Sequence[Hashable] | None, used: NDArray[np.bool_]) -> NDArray[np.intp] | None:
    """Return the cluster of each used item, or None if no cluster has several of them."""
    import numpy as np

    if clusters is None:
        return None
    _, codes = np.unique(codes_of(used.size, clusters)[used], return_inverse=True)
    return codes if codes.size and int(codes.max()) + 1 < codes.size else None


def _redrawn(
    parts: Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], NDArray[np.float64]]],
    n: int,
    groups: NDArray[np.intp] | None,
    *,
    step: int,
    n_resamples: int,
    seed: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute both disagreements of bootstrap resamples of the items, or of the items without each cluster."""
    import numpy as np

    rng = np.random.default_rng(seed)
    rows = n_resamples if groups is None else int(groups.max()) + 1
    drawn = []
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        if groups is None:
            times = rng.multinomial(n, np.full(n, 1 / n), size=stop - start).astype(float)
        else:
            times = (groups[None, :] != np.arange(start, stop)[:, None]).astype(float)
        drawn.append(parts(times))
    observed, chance = (np.concatenate(side) for side in zip(*drawn, strict=True))
    return observed, chance


def _agreement(
    codes: NDArray[np.intp],
    point: tuple[NDArray[np.float64], NDArray[np.float64]],
    drawn: tuple[NDArray[np.float64], NDArray[np.float64]],
    *,
    n: int,
    n_left_out: int,
    sizes: NDArray[np.float64] | None,
    confidence_level: float,
) -> Agreement:
    """Compute the agreement from the observed and expected disagreement of the data and of resamples.

    With the `sizes` of clusters, `drawn` is not of resamples, but of the data without each cluster.
    """
    import numpy as np

    observed, chance = float(point[0][0]), float(point[1][0])
    estimate = None
    if chance > _ROUNDING:
        value = 1 - observed / chance
        # The coefficient is undefined for a resample in which all ratings are equal.
        defined = drawn[1] > _ROUNDING
        values = np.full(defined.size, np.nan)
        values[defined] = 1 - drawn[0][defined] / drawn[1][defined]
        if sizes is None:
            values = values[defined]
            # Equal coefficients, for example 0 if one rater always gives the same rating, do not restrict the range.
            informative = values.size > 0 and float(np.ptp(values)) > _ROUNDING
            tails = [(1 - confidence_level) / 2, (1 + confidence_level) / 2]
            low, high = np.quantile(values, tails).tolist() if informative else (-1.0, 1.0)
            method = "bootstrap" if informative else "range"
        else:
            low, high, method = jackknife_interval(value, values, sizes, confidence_level=confidence_level)
        estimate = estimate_around(value, low, high, confidence_level, method=method, n=n)
        if observed <= _ROUNDING:
            # Every resample agrees as well.
            units = n if sizes is None else effective_number(sizes)
            by_chance = float(((np.bincount(codes[codes >= 0]) / (codes >= 0).sum()) ** 2).sum())
            estimate = replace(all_equal(units, by_chance, confidence_level), n=n)
    return Agreement(coefficient=estimate, observed=1 - observed, expected=1 - chance, n=n, n_left_out=n_left_out)


def all_equal(units: float, by_chance: float, confidence_level: float) -> Estimate:
    """Estimate a coefficient of 1 from raters who agree on all items, of which there are effectively `units`.

    In a model in which raters either agree on an item or rate it at random, the coefficient is the share of the former.
    Of n out of n equal ratings, those at random agree by chance.
    """
    n = max(1, round(units))
    share = wilson_interval(n, n, confidence_level=confidence_level)
    return replace(share, low=max(-1.0, (share.low - by_chance) / (1 - by_chance)))


def _coded(ratings: Ratings, categories: Sequence[Rating] | None) -> tuple[NDArray[np.intp], list[Rating]]:
    """Convert ratings to positions in the categories, with -1 for a missing rating. Categories are sorted by default."""
    import numpy as np

    widths = {len(row) for row in ratings}
    if len(widths) > 1:
        raise ValueError(
            f"every item needs one entry per rater, got rows of {sorted(widths)} ratings. Use None for a missing rating"
        )
    values = {value for row in ratings for value in row if not _missing(value)}
    if categories is None:
        if len({isinstance(value, str) for value in values}) > 1:
            raise ValueError("ratings must be all labels or all numbers, got both")
        labels = sorted(values)  # type: ignore[type-var]  # all strings or all numbers, see above
    else:
        labels = list(categories)
        if unknown := values - set(labels):
            known, bad = [_plain(label) for label in labels], _plain(min(unknown, key=repr))
            raise ValueError(f"a rating must be one of {known!r}, got {bad!r}")
    position = {label: i for i, label in enumerate(labels)}
    codes = [[-1 if _missing(value) else position[value] for value in row] for row in ratings]
    return np.asarray(codes, dtype=np.intp).reshape(len(ratings), next(iter(widths), 0)), labels


def _plain(value: Any) -> Any:
    """Return a number of numpy as a number of Python, for messages."""
    return value.item() if hasattr(value, "item") else value


def _missing(value: Rating) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _counts(codes: NDArray[np.intp], k: int) -> NDArray[np.float64]:
    """Count the raters per item and category (items by categories)."""
    import numpy as np

    counts = np.zeros((len(codes), k))
    items, raters = np.nonzero(codes >= 0)
    np.add.at(counts, (items, codes[items, raters]), 1.0)
    return counts
