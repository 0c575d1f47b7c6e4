"""Adjusted p-values of several tables (metrics) from the joint permutation distribution of their largest statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
