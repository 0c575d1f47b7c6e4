"""The randomized Tukey test of CCRS, appendix F: the scores of each sample are permuted among the systems that have one."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

_CELLS: Final = 2_000_000
"""Cells of tables that are permuted at once."""


def tukey_p_values(
    table: Sequence[Sequence[float]], clusters: Sequence[Hashable] | None, *, n_resamples: int, seed: int
) -> dict[tuple[int, int], float | None]:
    """Return the p-value of each pair of columns of a table of samples x systems. NaN is a missing score.

    It is None for a system without a score.

    A difference of two means is compared with the largest difference of any pair, in each permutation. Samples of a
    cluster that the same systems have scored are permuted together. The observed data count as one permutation.
    """
    scores = np.asarray(table, dtype=float)
    present = ~np.isnan(scores)
    codes: dict[Hashable, int] = {}
    own = [codes.setdefault(key, len(codes)) for key in (range(len(scores)) if clusters is None else clusters)]
    units, unit_of = np.unique(np.column_stack([own, present]), axis=0, return_inverse=True)
    sums = np.zeros((len(units), scores.shape[1]))
    np.add.at(sums, unit_of.ravel(), np.where(present, scores, 0.0))
    is_missing, known = units[:, 1:] == 0, present.any(axis=0)
    counts = np.maximum(present.sum(axis=0), 1)
    places = np.argsort(is_missing, axis=1, kind="stable")
    rng, chunk = np.random.default_rng(seed), max(1, _CELLS // sums.size)
    largest = []
    for start in range(0, n_resamples, chunk):
        keys = rng.random((min(chunk, n_resamples - start), *sums.shape))
        keys[:, is_missing] = 2.0  # missing scores, which come last, stay where they are
        permuted = np.empty_like(keys)
        drawn = np.take_along_axis(sums[None], np.argsort(keys, axis=2, kind="stable"), axis=2)
        np.put_along_axis(permuted, np.broadcast_to(places, keys.shape), drawn, axis=2)
        largest.append(np.ptp((permuted.sum(axis=1) / counts)[:, known], axis=1))
    spread, means = np.concatenate(largest), sums.sum(axis=0) / counts
    return {
        (i, j): float((np.sum(spread >= abs(means[i] - means[j]) - 1e-12) + 1) / (n_resamples + 1))
        if known[i] and known[j]
        else None
        for i, j in itertools.combinations(range(len(means)), 2)
    }
