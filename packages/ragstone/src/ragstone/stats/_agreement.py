"""How far raters agree beyond chance: Cohen's and Fleiss' kappa, Krippendorff's alpha, with intervals over items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ragstone.stats._mean import Estimate, mean_interval, wilson_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Agreement",
    "Rating",
    "Ratings",
    "cohen_kappa",
    "fleiss_kappa",
    "krippendorff_alpha",
    "landis_koch",
    "percent_agreement",
]

Rating = str | float | None
"""What a rater said of an item: a label or a number; None (or NaN) where nothing was said."""
Ratings = Sequence[Sequence[Rating]]
"""Items by raters."""

_CELLS: Final = 1_000_000
"""Resamples times ratings worked on at once: 8 MB a table."""
_ROUNDING: Final = 1e-12
"""Expected disagreement below this is rounding, not disagreement."""
_WORDS: Final = ((0.2, "slight"), (0.4, "fair"), (0.6, "moderate"), (0.8, "substantial"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Agreement beyond chance, with what it is made of."""

    coefficient: Estimate | None
    """1 - (observed / expected disagreement), with an interval from resampling items; where raters agree on all of them,
    which resampling cannot doubt, Wilson's interval of a share of n in n. None where no disagreement can be expected because
    everybody always says the same: agreement by chance is then certain too."""
    observed: float | None
    """Observed agreement, 1 - observed disagreement; None without items, and where disagreement has no upper bound."""
    expected: float | None
    """The agreement that independent raters with these habits would reach."""
    n: int
    """Items with at least two ratings."""
    n_left_out: int
    """Items with fewer, which say nothing about agreement."""

    @property
    def words(self) -> str:
        """What Landis and Koch call it; "undefined" where there is no coefficient."""
        return "undefined" if self.coefficient is None else landis_koch(self.coefficient.value)


def landis_koch(kappa: float) -> str:
    """Name a kappa: poor below 0, then slight, fair, moderate, substantial and almost perfect.

    The bands end at 0.20, 0.40, 0.60 and 0.80, in two digits: 0 is slight, 0.204 still is, 0.21 is fair. The words are a habit of the field and not a test: kappa also depends on how common the categories are.

    Raises:
        ValueError: A number above 1, or none.

    Source:
        Landis and Koch 1977, "The measurement of observer agreement for categorical data".

    Example:
        >>> landis_koch(0.85)
        'almost perfect'
    """
    if not kappa <= 1:
        raise ValueError(f"a kappa is at most 1, got {kappa!r}")
    if kappa < 0:
        return "poor"
    return next((word for top, word in _WORDS if round(kappa, 2) <= top), "almost perfect")


def percent_agreement(ratings: Ratings, *, confidence_level: float = 0.95) -> Estimate | None:
    """Share of pairs of raters that agree, averaged over items; None without an item that two raters rated.

    With two raters it is a proportion of items, with Wilson's interval. It is not corrected for chance: two raters who
    both pass 95 % of everything agree on 90 % of it without having looked.

    Example:
        >>> percent_agreement([["yes", "yes"], ["yes", "no"]]).value
        0.5
    """
    codes, labels = _coded(ratings, None)
    counts = _counts(codes, len(labels))
    pairable = counts.sum(axis=1) >= 2
    m = counts[pairable].sum(axis=1)
    if not m.size:
        return None
    shares = (counts[pairable] * (counts[pairable] - 1)).sum(axis=1) / (m * (m - 1))
    return mean_interval(shares.tolist(), confidence_level=confidence_level)


def cohen_kappa(
    first: Sequence[Rating],
    second: Sequence[Rating],
    *,
    weights: Literal["none", "linear", "quadratic"] = "none",
    categories: Sequence[Rating] | None = None,
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Cohen's kappa of two raters, in [-1, 1].

    Args:
        first: The first rater's ratings; None (or NaN) where it has none.
        second: The second's, of the same items.
        weights: How disagreements count: all alike, or by the distance between the positions of the two categories,
            or by its square.
        categories: All categories in their order; without them those that occur, sorted. With weights, an unused
            category in the middle matters.
        n_resamples: Bootstrap resamples of the items.
        confidence_level: Nominal coverage, in (0, 1).
        seed: Of the random numbers.

    Raises:
        ValueError: Unequal lengths, an option out of range, or a rating that is none of `categories`.

    Source:
        Cohen 1960 (unweighted), 1968 (weighted).

    Example:
        >>> found = cohen_kappa([1, 1, 0, 0, 1], [1, 1, 0, 1, 1])
        >>> round(found.coefficient.value, 3), found.words
        (0.545, 'moderate')
    """
    import numpy as np

    if len(first) != len(second):
        raise ValueError(f"two raters rate the same items, got {len(first)} and {len(second)} ratings")
    if weights not in ("none", "linear", "quadratic"):
        raise ValueError(f"weights must be 'none', 'linear' or 'quadratic', got {weights!r}")
    _check(n_resamples, confidence_level)
    codes, labels = _coded(list(zip(first, second, strict=True)), categories)
    both = codes[(codes >= 0).all(axis=1)]
    n, k = len(both), len(labels)
    if n == 0:
        return Agreement(coefficient=None, observed=None, expected=None, n=0, n_left_out=len(codes))
    position = np.arange(k)
    distance = np.abs(position[:, None] - position).astype(float)
    distance = (distance > 0).astype(float) if weights == "none" else (distance / max(k - 1, 1))
    distance = distance**2 if weights == "quadratic" else distance

    def parts(tables: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        shares = tables.reshape(-1, k, k) / n
        observed = (shares * distance).sum(axis=(1, 2))
        chance = np.einsum("bi,bj,ij->b", shares.sum(axis=2), shares.sum(axis=1), distance)
        return observed, chance

    # Items that fall into the same cell of the table are alike: resampling items is resampling cells.
    cells, counts = np.unique(both[:, 0] * k + both[:, 1], return_counts=True)
    table = np.zeros((1, k * k))
    table[0, cells] = counts
    rng = np.random.default_rng(seed)
    drawn = np.zeros((n_resamples, k * k))
    drawn[:, cells] = rng.multinomial(n, counts / n, size=n_resamples)
    return _agreement(parts(table), parts(drawn), n=n, n_left_out=len(codes) - n, confidence_level=confidence_level)


def fleiss_kappa(
    ratings: Ratings, *, n_resamples: int = 2000, confidence_level: float = 0.95, seed: int = 0
) -> Agreement:
    """Fleiss' kappa of several raters, the same number for each item (not necessarily the same people).

    Where some items have fewer ratings than others, use `krippendorff_alpha`.

    Args:
        ratings: Items by raters, none missing, at least two raters.
        n_resamples: Bootstrap resamples of the items.
        confidence_level: Nominal coverage, in (0, 1).
        seed: Of the random numbers.

    Raises:
        ValueError: Items with different numbers of ratings, or an option out of range.

    Source:
        Fleiss 1971.

    Example:
        >>> found = fleiss_kappa([["a", "a", "a"], ["a", "b", "b"], ["b", "b", "b"]])
        >>> round(found.coefficient.value, 2)
        0.55
    """
    import numpy as np

    _check(n_resamples, confidence_level)
    codes, labels = _coded(ratings, None)
    if not len(codes):
        return Agreement(coefficient=None, observed=None, expected=None, n=0, n_left_out=0)
    m = codes.shape[1]
    if m < 2 or (codes < 0).any():
        raise ValueError(
            f"Fleiss' kappa needs at least two ratings of every item, as many of each, got {m} columns of which "
            f"{int((codes < 0).any(axis=1).sum())} items lack some; krippendorff_alpha takes missing ratings"
        )
    counts = _counts(codes, len(labels))
    apart = (1 - (counts * (counts - 1)).sum(axis=1) / (m * (m - 1)))[:, None]
    n = len(codes)

    def parts(times: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        observed = (times @ apart)[:, 0] / n
        chance = 1 - ((times @ counts / (n * m)) ** 2).sum(axis=1)
        return observed, chance

    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=n_resamples).astype(float)
    return _agreement(parts(np.ones((1, n))), parts(drawn), n=n, n_left_out=0, confidence_level=confidence_level)


def krippendorff_alpha(
    ratings: Ratings,
    *,
    scale: Literal["nominal", "ordinal", "interval"] = "nominal",
    n_resamples: int = 2000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Krippendorff's alpha of any number of raters, with ratings missing where they will.

    Args:
        ratings: Items by raters; None or NaN where a rater said nothing. Numbers, for the ordinal and interval scale.
        scale: How far apart two ratings are: all alike, by the ranks between them, or by their squared difference.
        n_resamples: Bootstrap resamples of the items.
        confidence_level: Nominal coverage, in (0, 1).
        seed: Of the random numbers.

    Raises:
        ValueError: An option out of range, rows of different lengths, or labels on a scale of numbers.

    Source:
        Krippendorff 2011, "Computing Krippendorff's alpha-reliability". The interval is a bootstrap over items.

    Example:
        >>> found = krippendorff_alpha([[1, 1, None], [2, 2, 3], [3, 3, 3], [None, 1, None]], scale="ordinal")
        >>> round(found.coefficient.value, 2), found.n, found.n_left_out
        (0.78, 3, 1)
    """
    import numpy as np

    _check(n_resamples, confidence_level)
    if scale not in ("nominal", "ordinal", "interval"):
        raise ValueError(f"scale must be 'nominal', 'ordinal' or 'interval', got {scale!r}")
    codes, labels = _coded(ratings, None)
    all_items = len(codes)
    codes = codes[(codes >= 0).sum(axis=1) >= 2]
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
        # Alpha has no unit; numbers near 0 keep squares of large ones exact.
        numbers = (numbers - numbers.mean()) / (np.ptp(numbers) or 1.0)
    counts = _counts(codes, len(labels))
    m = counts.sum(axis=1)

    def parts(times: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        total = times @ counts
        size = total.sum(axis=1)
        if scale == "nominal":
            apart = (m * m - (counts * counts).sum(axis=1)) / (m - 1)
            return times @ apart / size, (size * size - (total * total).sum(axis=1)) / (size * (size - 1))
        # Ranks of the pooled ratings make the ordinal distance a squared difference; each resample has its own.
        x = (np.cumsum(total, axis=1) - total / 2) / size[:, None] if scale == "ordinal" else numbers[None, :]
        one, two = x @ counts.T, (x * x) @ counts.T
        apart = 2 * (m * two - one * one) / (m - 1)
        first, second = (total * x).sum(axis=1), (total * x * x).sum(axis=1)
        chance = 2 * (size * second - first * first) / (size * (size - 1))
        return (times * apart).sum(axis=1) / size, chance

    rng = np.random.default_rng(seed)
    step = max(1, _CELLS // max(n, len(labels)))
    drawn = []
    for start in range(0, n_resamples, step):
        times = rng.multinomial(n, np.full(n, 1 / n), size=min(step, n_resamples - start)).astype(float)
        drawn.append(parts(times))
    observed, chance = (np.concatenate(side) for side in zip(*drawn, strict=True))
    found = _agreement(
        parts(np.ones((1, n))), (observed, chance), n=n, n_left_out=all_items - n, confidence_level=confidence_level
    )
    if scale == "nominal":
        return found
    # A squared difference is no share: 1 minus it says nothing.
    return Agreement(
        coefficient=found.coefficient, observed=None, expected=None, n=found.n, n_left_out=found.n_left_out
    )


def _check(n_resamples: int, confidence_level: float) -> None:
    if n_resamples < 1 or not 0 < confidence_level < 1:
        raise ValueError(
            f"a bootstrap needs n_resamples >= 1 and confidence_level in (0, 1), got {n_resamples!r} and {confidence_level!r}"
        )


def _agreement(
    point: tuple[NDArray[np.float64], NDArray[np.float64]],
    drawn: tuple[NDArray[np.float64], NDArray[np.float64]],
    *,
    n: int,
    n_left_out: int,
    confidence_level: float,
) -> Agreement:
    """From observed and expected disagreement, of the data and of resamples."""
    import numpy as np

    observed, chance = float(point[0][0]), float(point[1][0])
    estimate = None
    if chance > _ROUNDING:
        value = 1 - observed / chance
        # A resample in which everybody says the same has no coefficient.
        defined = drawn[1] > _ROUNDING
        values = 1 - drawn[0][defined] / drawn[1][defined]
        low, high = (
            np.quantile(values, [(1 - confidence_level) / 2, (1 + confidence_level) / 2])
            if values.size
            else (value, value)
        )
        estimate = Estimate(
            value=value,
            low=min(float(low), value),
            high=max(float(high), value),
            confidence_level=confidence_level,
            method="bootstrap",
            n=n,
        )
        if observed <= _ROUNDING:
            # Every resample agrees as well. Were each item agreed on, or rated at random, the coefficient would be the
            # share of those agreed on, of which n of n were seen.
            low = wilson_interval(n, n, confidence_level=confidence_level)[0]
            estimate = Estimate(value=1.0, low=low, high=1.0, confidence_level=confidence_level, method="wilson", n=n)
    return Agreement(coefficient=estimate, observed=1 - observed, expected=1 - chance, n=n, n_left_out=n_left_out)


def _coded(ratings: Ratings, categories: Sequence[Rating] | None) -> tuple[NDArray[np.intp], list[Rating]]:
    """Ratings as positions in the sorted (or given) categories, -1 where missing."""
    import numpy as np

    widths = {len(row) for row in ratings}
    if len(widths) > 1:
        raise ValueError(
            f"every item needs a place for each rater, got rows of {sorted(widths)} ratings; None is a missing one"
        )
    said = {value for row in ratings for value in row if not _missing(value)}
    if categories is None:
        if len({isinstance(value, str) for value in said}) > 1:
            raise ValueError("ratings must be all labels or all numbers, got both")
        labels = sorted(said)  # type: ignore[type-var]  # all strings or all numbers, see above
    else:
        labels = list(categories)
        if strangers := said - set(labels):
            raise ValueError(f"a rating must be one of {labels!r}, got {min(strangers, key=repr)!r}")
    position = {label: i for i, label in enumerate(labels)}
    codes = [[-1 if _missing(value) else position[value] for value in row] for row in ratings]
    return np.asarray(codes, dtype=np.intp).reshape(len(ratings), next(iter(widths), 0)), labels


def _missing(value: Rating) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _counts(codes: NDArray[np.intp], k: int) -> NDArray[np.float64]:
    """Items by categories: how many raters chose each."""
    import numpy as np

    counts = np.zeros((len(codes), k))
    items, raters = np.nonzero(codes >= 0)
    np.add.at(counts, (items, codes[items, raters]), 1.0)
    return counts
