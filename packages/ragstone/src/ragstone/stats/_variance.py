"""Variance components of a crossed design: how much each factor and each combination of factors varies the values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ragstone._util.lazy import needs_extra
from ragstone.stats._mean import Estimate, check_level, estimate_around

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_Subset = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceComponent:
    """The variance that one factor, a combination of factors, or the repetition adds to a value."""

    factors: tuple[str, ...]
    """One name for a main effect, several for an interaction."""
    variance: Estimate
    """Estimate with method "mls". It is 0 if the mean squares would give a negative variance. `n` is the
    degrees of freedom plus 1."""
    share: float
    """Share of the sum of all components, between 0 and 1. 0 if all values are equal."""
    df: int
    """Degrees of freedom of the mean square of this effect."""

    @property
    def name(self) -> str:
        """Names of the factors: "question x wording"."""
        return " x ".join(self.factors)

    @property
    def sd(self) -> Estimate:
        """The component as a standard deviation, in the unit of the values."""
        v = self.variance
        return replace(v, value=math.sqrt(v.value), low=math.sqrt(v.low), high=math.sqrt(v.high))


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceSplit:
    """The variance of values of a crossed design, by factor."""

    components: tuple[VarianceComponent, ...]
    """Main effects, then interactions, then the repetition. Factors with one level do not have a component."""
    n_levels: Mapping[str, int]
    """Number of levels of each factor and of the repetition."""
    is_confounded: bool
    """True if each cell has one value, so that the last interaction also contains the variance between repeats."""

    def component(self, *factors: str) -> VarianceComponent | None:
        """Return the component of a factor or a combination, or None if the design cannot estimate it."""
        return next((c for c in self.components if set(c.factors) == set(factors)), None)


def split_variance(
    values: Sequence[object] | NDArray[np.float64],
    factors: Sequence[str],
    *,
    repeat: str = "repeat",
    confidence_level: float = 0.95,
) -> VarianceSplit:
    """Split the variance of a balanced, fully crossed design with random effects.

    The model is a sum of independent effects with mean 0: one for each level of each factor, one for each combination
    of levels of several factors, and one for each repeat within a cell. The estimates are those of the analysis of
    variance (expected mean squares). They are unbiased before they are cut at 0, for any distribution of the effects.

    The intervals assume normal effects. A factor with three levels has two degrees of freedom, so its upper limit is
    far above its estimate: three levels give little information on a fourth one.

    Args:
        values: Array with one axis for each factor, in the order of `factors`, and a last axis for the repeats of a
            cell.
        factors: Names of the factors. The first one needs at least two levels. Further factors with one level are
            omitted, because one level does not show any variance.
        repeat: Name of the repetition, as a component.
        confidence_level: Nominal coverage of each interval, in (0, 1).

    Raises:
        ValueError: If the number of axes differs from the factors, a value is not finite, the first factor has fewer
            than two levels, or `confidence_level` is outside (0, 1).

    Source:
        Searle, Casella and McCulloch 1992, chapter 4 (estimates). Ting, Burdick, Graybill, Jeyaratnam and Lu 1990,
        "Confidence intervals on linear combinations of variance components that are unrestricted in sign" (intervals).

    Examples:
        >>> split = split_variance([[[1.0, 1.2], [2.0, 2.2]], [[4.0, 4.2], [5.0, 5.2]]], ["question", "wording"])
        >>> [(c.name, round(c.variance.value, 2)) for c in split.components]
        [('question', 4.5), ('wording', 0.5), ('question x wording', 0.0), ('repeat', 0.02)]
    """
    import numpy as np

    x = np.asarray(values, dtype=float)
    if x.ndim != len(factors) + 1 or not x.size:
        raise ValueError(
            f"values must have one axis for each of the factors ({', '.join(factors)}) and one for repeats, got shape {x.shape}"
        )
    if not np.isfinite(x).all():
        raise ValueError("values must be finite. Omit the levels with a missing value, and report their number")
    if x.shape[0] < 2:
        raise ValueError(f"the factor {factors[0]!r} needs at least two levels, got {x.shape[0]}")
    check_level(confidence_level)
    n_levels = dict(zip((*factors, repeat), x.shape, strict=True))
    kept = [name for name in factors if n_levels[name] > 1]
    x = x.reshape(*(n_levels[name] for name in kept), n_levels[repeat])
    squares = _mean_squares(x)
    full = tuple(range(len(kept)))
    found: list[tuple[tuple[str, ...], Estimate, int]] = []
    for subset in (s for s in squares if s is not None):
        terms = _terms(subset, full, has_error=x.shape[-1] > 1)
        estimate = _combine([(sign, *squares[of]) for sign, of in terms], _weight(subset, x.shape), confidence_level)
        names = tuple(kept[axis] for axis in subset)
        found.append((names, estimate, squares[subset][1]))
    if None in squares:
        mean_square, df = squares[None]
        found.append(((repeat,), _combine([(1, mean_square, df)], 1.0, confidence_level), df))
    total = math.fsum(estimate.value for _, estimate, _ in found)
    return VarianceSplit(
        components=tuple(
            VarianceComponent(factors=names, variance=estimate, share=estimate.value / total if total else 0.0, df=df)
            for names, estimate, df in found
        ),
        n_levels=n_levels,
        is_confounded=x.shape[-1] == 1,
    )


def _mean_squares(x: NDArray[np.float64]) -> dict[_Subset | None, tuple[float, int]]:
    """Return mean square and degrees of freedom of each effect, by its axes, and of the repeats (None)."""
    n_factors = x.ndim - 1
    subsets = [s for k in range(1, n_factors + 1) for s in itertools.combinations(range(n_factors), k)]
    means = {
        s: x.mean(axis=tuple(axis for axis in range(x.ndim) if axis not in s), keepdims=True) for s in [(), *subsets]
    }
    squares: dict[_Subset | None, tuple[float, int]] = {}
    for subset in subsets:
        parts = (part for k in range(len(subset) + 1) for part in itertools.combinations(subset, k))
        effect = sum((-1) ** (len(subset) - len(part)) * means[part] for part in parts)
        df = math.prod(x.shape[axis] - 1 for axis in subset)
        squares[subset] = (_weight(subset, x.shape) * float((effect**2).sum()) / df, df)
    if x.shape[-1] > 1:
        df = math.prod(x.shape[:-1]) * (x.shape[-1] - 1)
        squares[None] = (float(((x - x.mean(axis=-1, keepdims=True)) ** 2).sum()) / df, df)
    return squares


def _weight(subset: _Subset, shape: Sequence[int]) -> int:
    """Return the number of values for each combination of levels of an effect."""
    return math.prod(levels for axis, levels in enumerate(shape) if axis not in subset)


def _terms(subset: _Subset, full: _Subset, *, has_error: bool) -> list[tuple[int, _Subset | None]]:
    """Return the signs and mean squares whose sum has the effect's variance, times its weight, as expectation."""
    if subset == full:
        return [(1, subset), (-1, None)] if has_error else [(1, subset)]
    rest = [axis for axis in full if axis not in subset]
    return [
        ((-1) ** k, tuple(sorted((*subset, *more))))
        for k in range(len(rest) + 1)
        for more in itertools.combinations(rest, k)
    ]


def _combine(terms: Sequence[tuple[int, float, int]], weight: float, confidence_level: float) -> Estimate:
    """Estimate a signed sum of independent mean squares divided by `weight`, with a modified large-sample interval."""
    tail = (1 - confidence_level) / 2
    up = [(square / weight, df) for sign, square, df in terms if sign > 0]
    down = [(square / weight, df) for sign, square, df in terms if sign < 0]
    value = math.fsum(s for s, _ in up) - math.fsum(s for s, _ in down)
    below = _spread(up, down, 1 - tail)
    above = _spread(down, up, 1 - tail)
    low, high = value - math.sqrt(max(0.0, below)), value + math.sqrt(max(0.0, above))
    n, bounds = terms[0][2] + 1, (0.0, math.inf)
    return estimate_around(max(0.0, value), low, high, confidence_level, method="mls", n=n, bounds=bounds)


def _spread(plus: Sequence[tuple[float, int]], minus: Sequence[tuple[float, int]], level: float) -> float:
    """Return the squared distance of the lower limit of sum(plus) - sum(minus) from its estimate.

    The upper limit has that of sum(minus) - sum(plus).
    """
    with needs_extra("", "scipy", "a quantile"):
        from scipy.special import chdtri, fdtri

    g = {df: 1 - df / float(chdtri(df, 1 - level)) for _, df in plus}
    h = {df: df / float(chdtri(df, level)) - 1 for _, df in minus}
    found = math.fsum((g[df] * s) ** 2 for s, df in plus) + math.fsum((h[df] * s) ** 2 for s, df in minus)
    for s, df in plus:
        for t, other in minus:
            f = float(fdtri(df, other, level))
            found += ((f - 1) ** 2 - (g[df] * f) ** 2 - h[other] ** 2) / f * s * t
    for (s, df), (t, other) in itertools.combinations(plus, 2):
        both = (1 - (df + other) / float(chdtri(df + other, 1 - level))) ** 2 * (df + other) ** 2 / (df * other)
        cross = both - g[df] ** 2 * df / other - g[other] ** 2 * other / df
        found += cross / (len(plus) - 1) * s * t
    return found
