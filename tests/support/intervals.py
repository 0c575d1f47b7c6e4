"""Both ends of an interval, and a seed of scipy's bootstrap."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from scipy import stats

from ragstone.stats import Estimate

__all__ = ["ends", "seeded_bootstrap"]


def ends(estimate: Estimate) -> tuple[float, float]:
    """Return the limits of an estimate."""
    return estimate.low, estimate.high


def seeded_bootstrap(rng: np.random.Generator) -> dict[str, Any]:
    """Return the argument of `scipy.stats.bootstrap` for a generator. It has another name before scipy 1.15."""
    return {"rng" if "rng" in inspect.signature(stats.bootstrap).parameters else "random_state": rng}
