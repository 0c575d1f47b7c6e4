"""Medians of what an application needed, for reports and comparisons."""

from __future__ import annotations

import math

from ragstone.experiments._spent import SPENT
from ragstone.experiments._table import ScoreTable
from ragstone.stats import estimate_median
from ragstone.views import SpentRow


def estimate_spent(table: ScoreTable, system: int, n_samples: int, confidence_level: float) -> tuple[SpentRow, ...]:
    """Estimate the medians of what a system needed for its samples. Empty if nothing is known."""
    import numpy as np

    rows = []
    *columns, calls = table.spent[:, system].T
    for name, values in zip(SPENT, columns, strict=True):
        known = np.flatnonzero(~np.isnan(values))
        median = estimate_median(
            values[known],
            low=0.0,
            probabilities=None if table.probabilities is None else table.inclusion_of(system)[known],
            clusters=table.clusters_of(known),
            confidence_level=confidence_level,
        )
        total = float((values * calls)[known].sum()) if known.size and name != "latency_s" else math.nan
        rows.append(SpentRow(name=name, estimate=median, total=None if math.isnan(total) else total, n=n_samples))
    return tuple(rows) if any(row.estimate for row in rows) else ()
