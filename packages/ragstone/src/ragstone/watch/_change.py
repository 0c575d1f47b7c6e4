"""When a mean changed, by how much, and in which slices: estimates from the units around an alarm."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ragstone._util.distributions import normal_cdf
from ragstone.stats import holm

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WITHIN: Final = 3.68
"""Largest distance from the best log likelihood of a start that belongs to the interval."""
_NORMAL: Final = 1.959963984540054

MIN_SLICE: Final = 30
"""Sessions after the change that a slice needs."""
MAX_VALUES: Final = 20
"""Values of one field that are compared: those with the most sessions after the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of the mean of a sequence of units for the worse. Means are in [0, 1]."""

    start: int
    """Most likely number of the first unit after the change."""
    first: int
    """Earliest plausible start."""
    last: int
    """Latest plausible start."""
    before: float
    """Mean before the most likely start."""
    before_se: float
    after: float
    drop: float
    """Loss: positive if the mean got worse. At an alarm, it is too large on average for small drops."""
    low: float
    """Lower end of the interval of the loss, over all plausible starts."""
    high: float


def find_change(
    x: NDArray[np.float64], w: NDArray[np.float64], *, sign: int = 1, min_before: int = 30
) -> Change | None:
    """Find when a weighted mean fell.

    The estimate is the start with the largest Gaussian likelihood of one mean before it and a lower one after it. The
    interval holds all starts whose log likelihood is within 3.68 of the largest. `x` are values of the units in order
    of time, in [0, 1], and `w` their weights. `sign` is 1 if lower values are worse, -1 if higher values are. The first
    `min_before` units are known to precede the change. The result is None if there are too few units or none of the
    starts has a lower mean after it.
    """
    import numpy as np

    n = x.size
    if n < min_before + 2:
        return None
    total, weighted, squares = np.cumsum(w), np.cumsum(w * x), np.cumsum(w * x * x)
    starts = np.arange(min_before, n)
    w_before, x_before = total[starts - 1], weighted[starts - 1]
    w_after, x_after = total[-1] - w_before, weighted[-1] - x_before
    mean_before, mean_after = x_before / w_before, x_after / w_after
    loss = sign * (mean_before - mean_after)
    rest = squares[-1] - x_before * mean_before - x_after * mean_after
    rest = np.where(loss > 0, rest, np.inf)
    best = int(np.argmin(rest))
    if not math.isfinite(rest[best]):
        return None
    # The weights are relative: a unit of the mean weight is one observation.
    variance = max(float(rest[best]) / float(total[-1]), 1e-12)
    plausible = np.flatnonzero(((rest - rest[best]) / (2 * variance * float(total[-1]) / n)) <= _WITHIN)
    w2 = np.cumsum(w * w)
    se = np.sqrt(variance * (w2[starts - 1] / w_before**2 + (w2[-1] - w2[starts - 1]) / w_after**2))
    return Change(
        start=int(starts[best]),
        first=int(starts[plausible[0]]),
        last=int(starts[plausible[-1]]),
        before=float(mean_before[best]),
        before_se=float(math.sqrt(variance * w2[starts[best] - 1]) / w_before[best]),
        after=float(mean_after[best]),
        drop=float(loss[best]),
        low=max(float((loss - _NORMAL * se)[plausible].min()), -1.0),
        high=min(float((loss + _NORMAL * se)[plausible].max()), 1.0),
    )


def drop_between(
    x: NDArray[np.float64], w: NDArray[np.float64], *, before: float, before_se: float, sign: int = 1
) -> tuple[float, float, float]:
    """Return the loss from a mean before a change to the mean of these units, with its 95% confidence interval.

    `x` are values of at least two units that did not decide about the alarm, in [0, 1], and `w` their weights.
    `before_se` is the standard error of the mean `before`. `sign` is -1 if higher values are worse, else 1.
    """
    mean, se = _mean(x, w)
    loss, error = sign * (before - mean), math.hypot(before_se, se)
    return loss, max(loss - _NORMAL * error, -1.0), min(loss + _NORMAL * error, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceDrop:
    """The loss of one slice, compared with the rest."""

    name: str
    """Field and value, such as "release=2.4.1"."""
    drop: float
    """Loss of the slice, in [-1, 1]."""
    excess: float
    """Loss of the slice minus loss of the other units."""
    p: float
    """One-sided p-value of the excess, corrected for all slices (Holm)."""
    n: int
    """Units of the slice after the change."""


def find_slices(
    x: NDArray[np.float64],
    w: NDArray[np.float64],
    labels: Sequence[Mapping[str, str]],
    *,
    start: int,
    fields: Sequence[str],
    sign: int = 1,
    before: float = math.nan,
) -> list[SliceDrop]:
    """Compare the loss of each slice with the loss of all other units, the most significant slice first.

    At most 20 values of each field are compared, if 30 units and 30 others follow the change. Without 30 units before
    it, as of a new release, a slice is compared with all units before, or with the mean `before` if there are none.
    `x` are values in [0, 1] in order of time, `w` their weights, and `start` is the number of the first unit after the
    change. `sign` is -1 if higher is worse, else 1.
    """
    import numpy as np

    after = np.arange(x.size) >= start
    found: list[tuple[str, float, float, float, int]] = []
    for field in fields:
        values = np.array([label.get(field, "") for label in labels], dtype=object)
        sizes = Counter(values[after])
        del sizes[""]
        for value, _ in sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:MAX_VALUES]:
            inside = values == value
            n, n_rest = int((inside & after).sum()), int((~inside & after).sum())
            if n < MIN_SLICE or n_rest < MIN_SLICE:
                continue
            loss, error = _loss(x, w, inside, after, sign, before)
            rest, rest_error = _loss(x, w, ~inside, after, sign, before)
            z = (loss - rest) / max(math.hypot(error, rest_error), 1e-12)
            found.append((f"{field}={value}", loss, loss - rest, normal_cdf(-z), n))
    adjusted = holm([p for *_, p, _ in found]).adjusted
    slices = [
        SliceDrop(name=name, drop=loss, excess=excess, p=p, n=n)
        for (name, loss, excess, _, n), p in zip(found, adjusted, strict=True)
    ]
    return sorted(slices, key=lambda s: (s.p, -s.excess, s.name))


def _loss(
    x: NDArray[np.float64],
    w: NDArray[np.float64],
    inside: NDArray[np.bool_],
    after: NDArray[np.bool_],
    sign: int,
    mean: float,
) -> tuple[float, float]:
    """Return the loss of some units and its standard error."""
    before = inside & ~after
    if before.sum() < MIN_SLICE:
        before = ~after
    mean_before, se_before = _mean(x[before], w[before]) if before.any() else (mean, 0.0)
    mean_after, se_after = _mean(x[inside & after], w[inside & after])
    return sign * (mean_before - mean_after), math.hypot(se_before, se_after)


def _mean(x: NDArray[np.float64], w: NDArray[np.float64]) -> tuple[float, float]:
    mean = float((w * x).sum() / w.sum())
    part = w * (x - mean) / w.sum()
    return mean, math.sqrt(float((part**2).sum()) * x.size / max(x.size - 1, 1))
