"""Two systems on the same samples: is there a difference, how sure is that, and how large is it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from ragstone.stats._bootstrap import resampled_means
from ragstone.stats._tukey import Alternative, randomised_tukey

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PairedEffect", "PairedTest", "paired_bootstrap", "paired_effect", "sign_flip_test"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """What a test of two systems on the same samples found."""

    difference: float
    """Mean of first - second."""
    p_value: float | None
    """Never 0; None where a bootstrap has no spread to tell from."""
    mc_error: float | None
    """Standard error of the p-value from drawing at random; 0 where everything was enumerated."""
    low: float | None
    """Lower end of the interval of the difference; None where there is none: for the alternative "less", and where too
    few resamples exist to reject anything at this level."""
    high: float | None
    """Upper end; None likewise, for "greater"."""
    confidence_level: float
    alternative: Alternative
    method: str
    """ "sign_flip" or "paired_bootstrap"."""
    n: int
    """Pairs with both scores."""
    n_missing: int
    """Pairs that lack one, and are in no number."""
    n_resamples: int
    exact: bool
    """True where all resamples that exist were looked at."""


def sign_flip_test(
    first: Sequence[float] | NDArray[np.float64],
    second: Sequence[float] | NDArray[np.float64],
    *,
    alternative: Alternative = "two-sided",
    n_resamples: int = 10_000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> PairedTest:
    """Test by paired randomisation whether two systems, scored on the same samples, differ.

    Were they alike, each sample's two scores could as well have come the other way round, which flips the sign of
    their difference. The p-value is the share of such flips, the data counted as one, whose mean reaches that of the
    data. This is `randomised_tukey` for two systems.

    Args:
        first: Scores; NaN is missing.
        second: Scores of the same samples in the same order.
        alternative: "greater" where the first is claimed to be better.
        n_resamples: Flips drawn; where no more than this many different ones exist, all are enumerated.
        confidence_level: Of the interval, which excludes 0 exactly where p <= 1 - `confidence_level`.
        seed: Of the random numbers.

    Raises:
        ValueError: Unequal lengths, no pair with both scores, an infinite score, or an option out of range.

    Source:
        Fisher 1935, section 21; Smucker, Allan and Carterette 2007.

    Example:
        >>> sign_flip_test([0.9, 0.8, 0.7, 0.9, 0.8], [0.4, 0.3, 0.3, 0.6, 0.5]).p_value
        0.0625
    """
    x, n_missing = _pairs(first, second)
    result = randomised_tukey(
        x,
        pairs=[(0, 1)],
        alternative=alternative,
        n_resamples=n_resamples,
        confidence_level=confidence_level,
        seed=seed,
    )
    (pair,) = result.pairs
    return PairedTest(
        difference=float((x[:, 0] - x[:, 1]).mean()),
        p_value=pair.p_value,
        mc_error=pair.mc_error,
        low=pair.low,
        high=pair.high,
        confidence_level=confidence_level,
        alternative=alternative,
        method="sign_flip",
        n=len(x),
        n_missing=n_missing,
        n_resamples=result.n_resamples,
        exact=result.exact,
    )


def paired_bootstrap(
    first: Sequence[float] | NDArray[np.float64],
    second: Sequence[float] | NDArray[np.float64],
    *,
    alternative: Alternative = "two-sided",
    n_resamples: int = 10_000,
    confidence_level: float = 0.95,
    seed: int = 0,
) -> PairedTest:
    """Compare two systems by resampling the samples, both scores of one together.

    The interval is the percentile interval of the mean difference, and the p-value is the one that belongs to it: for
    "greater" the share of resamples in which the first is not ahead, two-sided twice the smaller share of resamples on
    either side of 0. Differences that are all equal, or a single one, give resamples without spread: then there is
    neither. `sign_flip_test` holds its level at any number of samples; this one is a little too ready to see a difference
    in fewer than about 30.

    Args:
        first: Scores; NaN is missing.
        second: Scores of the same samples in the same order.
        alternative: "greater" where the first is claimed to be better.
        n_resamples: Resamples drawn.
        confidence_level: Of the interval.
        seed: Of the random numbers.

    Raises:
        ValueError: As `sign_flip_test`.

    Source:
        Efron and Tibshirani 1993, chapters 13 and 15.

    Example:
        >>> found = paired_bootstrap([0.9, 0.8, 0.7, 0.9, 0.8], [0.4, 0.3, 0.3, 0.6, 0.5])
        >>> found.low < found.difference < found.high
        True
    """
    import numpy as np

    x, n_missing = _pairs(first, second)
    if n_resamples < 1 or not 0 < confidence_level < 1:
        raise ValueError(
            f"needs n_resamples >= 1 and confidence_level in (0, 1), got n_resamples={n_resamples!r}, confidence_level={confidence_level!r}"
        )
    if alternative not in get_args(Alternative):
        raise ValueError(f'alternative is "two-sided", "greater" or "less", got {alternative!r}')
    difference = x[:, 0] - x[:, 1]
    drawn = resampled_means(difference, n_resamples, np.random.default_rng(seed))
    # Sums of the same numbers in another order differ by rounding, also around 0.
    same = 1e-9 * float(np.abs(difference).mean())
    not_above = (int(np.searchsorted(drawn, same, side="right")) + 1) / (n_resamples + 1)
    not_below = (int(drawn.size - np.searchsorted(drawn, -same)) + 1) / (n_resamples + 1)
    p = {"greater": not_above, "less": not_below, "two-sided": min(1.0, 2 * min(not_above, not_below))}[alternative]
    tail = (1 - confidence_level) / (2 if alternative == "two-sided" else 1)
    low, high = (float(end) for end in np.quantile(drawn, (tail, 1 - tail)))
    spread = bool(drawn[-1] - drawn[0] > same)
    return PairedTest(
        difference=float(difference.mean()),
        p_value=p if spread else None,
        mc_error=math.sqrt(p * (1 - p) / n_resamples) if spread else None,
        low=low if spread and alternative != "less" else None,
        high=high if spread and alternative != "greater" else None,
        confidence_level=confidence_level,
        alternative=alternative,
        method="paired_bootstrap",
        n=len(x),
        n_missing=n_missing,
        n_resamples=n_resamples,
        exact=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedEffect:
    """How large the difference of two systems is, in units that do not depend on the metric's."""

    difference: float
    """Mean of first - second."""
    sd: float | None
    """Standard deviation of the differences (n - 1); None for a single pair."""
    d_z: float | None
    """Cohen's d_z: the mean difference in standard deviations of the differences; None where these do not vary."""
    g_z: float | None
    """d_z times Hedges' correction for small n (d_z alone is too large by 9 % at n = 10); None for n < 3 too."""
    superiority: float
    """Probability of superiority: the share of samples on which the first is better, ties counted half."""
    n_better: int
    n_equal: int
    n_worse: int
    n: int
    n_missing: int


def paired_effect(
    first: Sequence[float] | NDArray[np.float64], second: Sequence[float] | NDArray[np.float64]
) -> PairedEffect:
    """Measure how large a difference of two systems on the same samples is.

    d_z is for paired scores; it is not Cohen's d of two independent groups, which divides by the spread of the scores
    and is smaller the more alike the systems' scores are.

    Args:
        first: Scores, of which higher is better; NaN is missing.
        second: Scores of the same samples in the same order.

    Raises:
        ValueError: Unequal lengths, no pair with both scores, or an infinite score.

    Source:
        Lakens 2013, formulas 4 and 7; Hedges 1981 (exact correction); Grissom and Kim 2012 for superiority.

    Example:
        >>> found = paired_effect([0.9, 0.8, 0.7, 0.5], [0.4, 0.3, 0.3, 0.5])
        >>> round(found.d_z, 2), found.superiority
        (1.47, 0.875)
    """
    x, n_missing = _pairs(first, second)
    difference = x[:, 0] - x[:, 1]
    n = difference.size
    varies = bool(difference.min() < difference.max())
    sd = None if n == 1 else float(difference.std(ddof=1)) if varies else 0.0
    d_z = float(difference.mean()) / sd if sd else None
    better, worse = int((difference > 0).sum()), int((difference < 0).sum())
    return PairedEffect(
        difference=float(difference.mean()),
        sd=sd,
        d_z=d_z,
        g_z=None if d_z is None or n < 3 else d_z * _hedges(n - 1),
        superiority=(better + (n - better - worse) / 2) / n,
        n_better=better,
        n_equal=n - better - worse,
        n_worse=worse,
        n=n,
        n_missing=n_missing,
    )


def _hedges(df: int) -> float:
    """Hedges' correction, from two degrees of freedom on: with one the expectation that it corrects does not exist."""
    return math.exp(math.lgamma(df / 2) - math.lgamma((df - 1) / 2)) / math.sqrt(df / 2)


def _pairs(
    first: Sequence[float] | NDArray[np.float64], second: Sequence[float] | NDArray[np.float64]
) -> tuple[NDArray[np.float64], int]:
    """Both systems' scores side by side, where there are both, and the number of rows where there are not."""
    import numpy as np

    a, b = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if a.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"two systems need scores of the same samples, got arrays of shape {a.shape} and {b.shape}")
    if np.isinf(a).any() or np.isinf(b).any():
        raise ValueError("scores are finite, or NaN where missing; got an infinite one")
    both = ~(np.isnan(a) | np.isnan(b))
    if not both.any():
        raise ValueError(f"no sample has a score of both systems ({a.size} samples); there is nothing to compare")
    return np.stack([a[both], b[both]], axis=1), int(a.size - both.sum())
