"""The test of `compare` at the size of CCRS's experiment, against the loop that the paper's listing describes."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest

from ragstone.stats import simultaneous_differences

pytestmark = pytest.mark.bench

N_ROWS, N_SYSTEMS, N_RESAMPLES = 4_719, 6, 10_000
LOOP_RESAMPLES = 20
MIN_RATIO, MAX_BYTES = 100, 64 * 2**20


def plain_loop(x: np.ndarray, n_resamples: int) -> np.ndarray:
    """Every row's present cells put into a random order, one row after the other, for each permutation."""
    rng = np.random.default_rng(0)
    pairs = [(i, j) for i in range(x.shape[1]) for j in range(i + 1, x.shape[1])]
    means = np.nanmean(x, axis=0)
    reached = np.zeros(len(pairs))
    permuted = x.copy()
    for _ in range(n_resamples):
        for row in range(len(x)):
            cells = x[row]
            present = ~np.isnan(cells)
            if not present.any():
                continue
            arranged = np.full(x.shape[1], np.nan)
            arranged[present] = rng.permutation(cells[present])
            permuted[row] = arranged
        means_now = np.nanmean(permuted, axis=0)
        largest = np.nanmax(means_now) - np.nanmin(means_now)
        for pair, (i, j) in enumerate(pairs):
            reached[pair] += largest >= abs(means[i] - means[j]) - 1e-9
    return reached / n_resamples


def scores() -> np.ndarray:
    """Judge scores in steps of a twentieth, crowded at the ceiling, a few points apart."""
    rng = np.random.default_rng(1)
    skill = np.array([0.0, 0.01, 0.02, 0.02, 0.05, 0.06])
    return np.clip(np.round((0.75 + skill + 0.2 * rng.normal(size=(N_ROWS, N_SYSTEMS))) * 20) / 20, 0, 1)


def test_the_test_is_100_times_the_plain_loop_in_64_mb():
    """15 pairs of 6 systems, 4,719 samples, 10,000 permutations; the loop's time is that of 20, times 500."""
    x = scores()
    simultaneous_differences([x], n_resamples=100)  # what is loaded once is not counted

    ours, loop = [], []
    for _ in range(3):
        # Interleaved, and the processor's time: what else this machine does falls on neither.
        start = time.process_time()
        (result,) = simultaneous_differences([x], n_resamples=N_RESAMPLES)
        ours.append(time.process_time() - start)
        start = time.process_time()
        plain_loop(x, LOOP_RESAMPLES)
        loop.append((time.process_time() - start) * N_RESAMPLES / LOOP_RESAMPLES)

    tracemalloc.start()
    simultaneous_differences([x], n_resamples=N_RESAMPLES)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    ratio = sorted(loop)[1] / sorted(ours)[1]
    print()
    print(
        f"simultaneous_differences: {sorted(ours)[1]:.2f} s of processor time, plain loop {sorted(loop)[1]:.0f} s: {ratio:.0f} x"
    )
    print(f"memory above the data: {peak / 2**20:.1f} MiB")
    assert (15, N_RESAMPLES) == (len(result.pairs), result.n_resamples)
    assert peak <= MAX_BYTES
    assert ratio >= MIN_RATIO
