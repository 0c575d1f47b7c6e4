"""The unpaired test of one metric, from lists of values by group."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from ragstone.stats import independent_differences
from ragstone.stats._sign_flips import FamilyResult

__all__ = ["compare_value_groups"]


def compare_value_groups(
    groups: Sequence[Sequence[float] | np.ndarray],
    probabilities: Sequence[Sequence[float] | np.ndarray] | None = None,
    *,
    clusters: Sequence[Sequence[Hashable]] | None = None,
    **options: Any,
) -> FamilyResult:
    """Compare values in [0, 1] of several groups."""
    (result,) = independent_differences(
        np.concatenate([np.asarray(group, dtype=float) for group in groups])[:, None],
        np.repeat(np.arange(len(groups)), [len(group) for group in groups]),
        np.concatenate([np.asarray(p, dtype=float) for p in probabilities or [np.ones(len(g)) for g in groups]]),
        n_groups=len(groups),
        ends=[(0.0, 1.0)],
        clusters=None if clusters is None else [label for labels in clusters for label in labels],
        **options,
    )
    return result
