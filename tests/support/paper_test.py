"""The randomized Tukey test of CCRS, appendix F: the scores of each sample are permuted among all systems."""

from __future__ import annotations

import itertools

import numpy as np


def tukey_p_values(x, *, n_resamples=2000, seed=0):
    """Return the difference of the means and the p-value of each pair of columns. All cells of `x` are present."""
    rng, chunk = np.random.default_rng(seed), max(1, 2_000_000 // x.size)
    largest = [np.zeros(0)]
    for start in range(0, n_resamples, chunk):
        rows = np.broadcast_to(x, (min(chunk, n_resamples - start), *x.shape))
        largest.append(np.ptp(rng.permuted(rows, axis=2).mean(axis=1), axis=1))
    drawn = np.concatenate(largest)
    means = x.mean(axis=0)
    found = [means[i] - means[j] for i, j in itertools.combinations(range(x.shape[1]), 2)]
    return [(d, ((drawn >= abs(d) - 1e-9).sum() + 1) / (n_resamples + 1)) for d in found]
