"""Which systems differ: the paired randomised Tukey HSD test, for all pairs or a family of pairs at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ragstone.stats._arrange import distinct_choices, enumerated_sums, group_rows, permuted_sums

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Alternative", "TukeyPair", "TukeyResult", "randomised_tukey"]

Alternative = Literal["two-sided", "greater", "less"]

_SAME = 1e-9
"""Sums of the same numbers in another order differ by rounding; differences this near, relative to the largest
possible one, are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TukeyPair:
    """The comparison of two systems, given by their columns."""

    first: int
    second: int
    n: int
    """Rows in which both have a score."""
    difference: float | None
    """Mean of first - second over those rows; None where there are none."""
    p_value: float | None
    """Adjusted for the whole family of pairs; never 0; None where there are no rows, which Holm counts as 1."""
    mc_error: float | None
    """Standard error of the p-value from drawing permutations; 0 where all were enumerated."""
    low: float | None
    """Lower end of the simultaneous interval of the difference; None where it is unbounded: for the alternative "less",
    and where so few permutations exist, or were drawn, that none could be rejected at this level."""
    high: float | None
    """Upper end; None likewise, for "greater"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TukeyResult:
    """All comparisons of a family of pairs of systems."""

    pairs: tuple[TukeyPair, ...]
    """In the order asked for; without one (0, 1), (0, 2), ..., (1, 2), ..."""
    n_systems: int
    n_rows: int
    alternative: Alternative
    confidence_level: float
    """The intervals hold all differences together with this probability."""
    method: str
    """ "randomised_tukey" or "independent_tukey"."""
    n_resamples: int
    """Permutations behind each p-value."""
    exact: bool
    """True where these are all that exist."""
    n_units: int
    """Rows permuted: those whose scores are not all equal, or, beyond 16,384 of these, blocks of them."""
    seed: int


def randomised_tukey(
    scores: Sequence[Sequence[float]] | NDArray[np.float64],
    *,
    pairs: Sequence[tuple[int, int]] | None = None,
    alternative: Alternative = "two-sided",
    n_resamples: int = 10_000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> TukeyResult:
    """Compare systems scored on the same samples, with p-values and intervals that hold for all pairs together.

    Were the systems all alike, the scores of a sample could as well have come in another order. So each row is permuted,
    the largest difference of any pair is noted, and this many times; a pair's p-value is the share of permutations, the
    data themselves counted as one, in which the largest difference reached the pair's. Samples are compared with
    themselves alone, scores need no distribution, and the chance of any false claim is at most 1 - `confidence_level` where no
    system differs. Where some differ, and their scores vary unlike the others', that chance is not bounded exactly.

    Missing scores: a pair's difference is over the rows that have both scores, so that a system which fails on hard
    samples is not thereby ahead; cells trade places only with present cells of their row; and differences are weighted
    by the root of their number of rows, as Tukey and Kramer do, so that a pair with few rows does not hide the others.

    The simultaneous interval of a difference is the difference, plus and minus the critical value of the same test: it
    excludes 0 exactly where p <= 1 - `confidence_level`.

    Args:
        scores: Samples by systems; NaN is a missing score.
        pairs: Columns to compare, (first, second); all pairs by default. A smaller family has more power.
        alternative: "greater" claims for each pair that the first is better, "less" that it is worse: a directed family
            must name its pairs, and its p-values are those of the largest difference in the claimed direction.
        n_resamples: Permutations drawn; where no more than this many different ones exist, all are enumerated.
        confidence_level: Of the simultaneous intervals, in (0, 1).
        seed: Of the random numbers; the same seed gives the same result on any machine.

    Raises:
        ValueError: Fewer than two systems, an infinite score, a pair that does not exist, or an option out of range.

    Source:
        Carterette 2012, "Multiple testing in statistical analysis of systems-based information retrieval experiments";
        CCRS, appendix F (there with count / B, unpaired means and no seed). Phipson and Smyth 2010 for the + 1.

    Example:
        >>> result = randomised_tukey([[0.9, 0.4], [0.8, 0.3], [0.7, 0.3], [0.9, 0.6], [0.8, 0.5], [0.6, 0.2]])
        >>> result.exact, result.pairs[0].p_value
        (True, 0.03125)
    """
    import numpy as np

    x, family = _checked(scores, pairs, alternative, confidence_level)
    if n_resamples < 1:
        raise ValueError(f"a randomisation test needs n_resamples >= 1, got {n_resamples!r}")
    # The first child makes blocks, the second the permutations.
    for_blocks, for_orders = np.random.SeedSequence(seed).spawn(2)
    groups = group_rows(x, np.random.default_rng(for_blocks))
    choices = distinct_choices(groups, n_resamples)
    chunks = permuted_sums(groups, n_resamples, for_orders) if choices is None else enumerated_sums(groups, choices)

    first, second = np.array(family).T
    sums, sizes, n = _paired_sums(x, family)
    weight = np.sqrt(np.maximum(n, 1))
    sign = -1.0 if alternative == "less" else 1.0
    largest = []
    for count, totals in chunks:
        permuted = np.zeros((count, len(family)))
        for group, sums_of_group in zip(groups, totals, strict=True):
            place = np.full(x.shape[1], -1)
            place[list(group.columns)] = range(len(group.columns))
            both = (place[first] >= 0) & (place[second] >= 0)
            permuted[:, both] += sums_of_group[:, place[first[both]]] - sums_of_group[:, place[second[both]]]
        permuted *= sign / weight
        reached = abs(permuted) if alternative == "two-sided" else permuted
        largest.append(reached.max(axis=1, where=n > 0, initial=-math.inf))
    drawn = np.sort(np.concatenate(largest))

    tolerance = _SAME * float((sizes / weight).max())
    observed = sign * sums / weight
    reached = abs(observed) if alternative == "two-sided" else observed
    exact, total = choices is not None, drawn.size
    # The data count as one more permutation, unless all were looked at: then they were among them.
    extra = 0 if exact else 1
    p = (total - np.searchsorted(drawn, reached - tolerance) + extra) / (total + extra)
    # This many permutations may reach a difference that is rejected.
    allowed = math.floor((1 - confidence_level) * (total + extra) + _SAME) - extra
    critical = float(drawn[-1 - allowed]) + tolerance if allowed >= 0 else math.inf
    # The data are among all permutations: no difference exceeds the largest of these, however it came about.
    rejects = critical < (drawn[-1] if exact else math.inf)
    half = critical / weight if rejects else None
    return TukeyResult(
        pairs=tuple(
            _pair(
                family[i],
                int(n[i]),
                float(sums[i]),
                None if half is None else float(half[i]),
                alternative,
                p=float(p[i]),
                mc_error=0.0 if exact else math.sqrt(p[i] * (1 - p[i]) / total),
            )
            for i in range(len(family))
        ),
        n_systems=x.shape[1],
        n_rows=x.shape[0],
        alternative=alternative,
        confidence_level=confidence_level,
        method="randomised_tukey",
        n_resamples=total,
        exact=exact,
        n_units=sum(len(group.rows) for group in groups),
        seed=seed,
    )


def _checked(
    scores: Sequence[Sequence[float]] | NDArray[np.float64],
    pairs: Sequence[tuple[int, int]] | None,
    alternative: Alternative,
    confidence_level: float,
) -> tuple[NDArray[np.float64], list[tuple[int, int]]]:
    import numpy as np

    try:
        x = np.asarray(scores, dtype=float)
    except ValueError:
        raise ValueError(
            "scores are samples by systems, every sample with a cell for every system (NaN where it has no score)"
        ) from None
    if x.ndim != 2 or x.shape[1] < 2:
        raise ValueError(
            f"a comparison needs samples by systems, and at least two systems, got an array of shape {x.shape}"
        )
    if np.isinf(x).any():
        row, column = (int(at[0]) for at in np.nonzero(np.isinf(x)))
        raise ValueError(
            f"scores are finite, or NaN where missing; row {row} of system {column} has {float(x[row, column])!r}"
        )
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level must lie in (0, 1), got {confidence_level!r}")
    if alternative not in ("two-sided", "greater", "less"):
        raise ValueError(f'alternative is "two-sided", "greater" or "less", got {alternative!r}')
    if pairs is None and alternative != "two-sided":
        raise ValueError(
            f"the alternative {alternative!r} needs pairs=[(first, second), ...]: a direction is claimed pair by pair"
        )
    systems = range(x.shape[1])
    family = list(itertools.combinations(systems, 2)) if pairs is None else [(int(i), int(j)) for i, j in pairs]
    for i, j in family:
        if i == j or i not in systems or j not in systems:
            raise ValueError(f"a pair names two different columns from 0 to {x.shape[1] - 1}, got {(i, j)!r}")
    if not family:
        raise ValueError("there is nothing to compare: pairs is empty")
    return x, family


def _paired_sums(
    x: NDArray[np.float64], family: Sequence[tuple[int, int]]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
    """For each pair over the rows with both scores: sum of the differences, sum of their sizes, number of rows."""
    import numpy as np

    sums, sizes, n = np.zeros(len(family)), np.zeros(len(family)), np.zeros(len(family), dtype=np.intp)
    for pair, (first, second) in enumerate(family):
        difference = x[:, first] - x[:, second]
        difference = difference[~np.isnan(difference)]
        sums[pair], sizes[pair], n[pair] = difference.sum(), abs(difference).sum(), difference.size
    return sums, sizes, n


def _pair(
    pair: tuple[int, int],
    n: int,
    total: float,
    half: float | None,
    alternative: Alternative,
    *,
    p: float,
    mc_error: float,
) -> TukeyPair:
    """Put one comparison together; `half` is the half-width of its interval."""
    low = high = None
    if n and half is not None:
        low = total / n - half if alternative != "less" else None
        high = total / n + half if alternative != "greater" else None
    return TukeyPair(
        first=pair[0],
        second=pair[1],
        n=n,
        difference=total / n if n else None,
        p_value=p if n else None,
        mc_error=mc_error if n else None,
        low=low,
        high=high,
    )
