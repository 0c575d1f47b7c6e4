"""Error rate and power of test sets: the tables of docs/how-to/gate.md."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ragstone.experiments._looks import ALPHA, MAX_LOOKS, N_RESAMPLES, find_share
from ragstone.stats import simultaneous_differences

CAMPAIGNS = 1000
RIGHT = 0.6
"""Share of right answers of the first version."""


@cache
def p_value(n_gained: int, n_lost: int) -> float:
    """The test of a look, which depends only on how many answers became right or wrong."""
    table = [[1.0, 0.0]] * n_gained + [[0.0, 1.0]] * n_lost + [[0.0, 0.0]]
    (result,) = simultaneous_differences([table], pairs=[(0, 1)], alternative="greater", n_resamples=N_RESAMPLES)
    return result.pairs[0].p_value


def change(rng, version, flipped, gain=0.0):
    """The answers after a change that flips a share of them, and repairs `gain` more of all answers."""
    u = rng.random(version.size)
    up, down = (flipped / 2 + gain) / (1 - RIGHT), flipped / 2 / RIGHT
    return np.where(version, u >= down, u < up)


def is_accepted(now, before):
    """The verdict of a look."""
    return p_value(int((now & ~before).sum()), int((before & ~now).sum())) <= ALPHA


def is_significant(now, before):
    """A paired t-test at 0.05, two-sided."""
    d = now.astype(float) - before
    return bool(d.std()) and d.mean() / (d.std(ddof=1) / np.sqrt(d.size)) > 1.968


def is_higher(now, before):
    """More right answers."""
    return now.sum() > before.sum()


def campaign(rng, flipped, keeps, *, selects=None):
    """Thirty useless changes: the number that is kept, and the apparent gain in points.

    A change that is not kept is undone, or stays in the application if `selects` accepts it.
    """
    first = kept = current = rng.random(300) < RIGHT
    n_kept = 0
    for _ in range(MAX_LOOKS):
        candidate = change(rng, current, flipped)
        if keeps(candidate, kept):
            kept = current = candidate
            n_kept += 1
        elif selects is not None and selects(candidate, current):
            current = candidate
    return n_kept, 100 * (kept.mean() - first.mean())


@pytest.mark.parametrize("flipped", [0.01, 0.02, 0.1, 0.3])
def test_useless_changes_are_rarely_accepted(flipped):
    """At most 5% of the campaigns accept one, also if changes stay in the application. Without a ledger most do."""
    row = {}
    for name, keeps, selects in (
        ("higher", is_higher, None),
        ("p < 0.05", is_significant, None),
        ("looks", is_accepted, None),
        ("looks, all changes stay", is_accepted, lambda now, before: True),
        ("looks, changes stay whose mean is higher", is_accepted, is_higher),
    ):
        rng = np.random.default_rng(7)
        found = [campaign(rng, flipped, keeps, selects=selects) for _ in range(CAMPAIGNS)]
        row[name] = sum(k > 0 for k, _ in found) / CAMPAIGNS, sum(gain for _, gain in found) / CAMPAIGNS
    print(f"{flipped:.0%} | " + " | ".join(f"{name} {share:.1%} ({gain:+.1f})" for name, (share, gain) in row.items()))
    assert max(row["looks"][0], row["looks, all changes stay"][0]) <= 0.05
    assert row["higher"][0] >= 0.98


@pytest.mark.parametrize("flipped", [0.01, 0.02, 0.06, 0.1])
@pytest.mark.parametrize("n", [100, 300, 600])
def test_a_real_gain_is_found_as_often_as_said_before(n, flipped):
    """A gain of 8 points at the seventh look."""
    rng = np.random.default_rng(8)
    found = 0
    for _ in range(CAMPAIGNS):
        kept = rng.random(n) < RIGHT
        for _ in range(5):
            candidate = change(rng, kept, flipped)
            kept = candidate if is_accepted(candidate, kept) else kept
        found += is_accepted(change(rng, kept, flipped, gain=0.08), kept)
    said = find_share(n, flipped)
    print(f"{n} | {flipped:.0%} | found {found / CAMPAIGNS:.1%} | said {said:.1%}")
    assert abs(found / CAMPAIGNS - said) <= 0.05
    assert n < 300 or flipped > 0.02 or found / CAMPAIGNS >= 0.9
