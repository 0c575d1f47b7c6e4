"""False alarms at the reference and delays of drops, at full length: the tables of docs/explanation/alarms.md."""

from __future__ import annotations

import numpy as np
import pytest

from alarm_streams import Traffic, days_to_alarm, false_alarms_at_the_reference

N_STREAMS = 30
"""Streams that share a budget of one alarm per quarter."""


@pytest.mark.parametrize("clock", ["even", "bursty", "slow when bad"])
@pytest.mark.parametrize("binary", [False, True], ids=["judge", "binary"])
@pytest.mark.parametrize(("scored_a_day", "quarters"), [(100, 3000), (1000, 300)])
def test_false_alarms_at_the_reference(scored_a_day, quarters, binary, clock):
    """The mean of every stream is exactly its reference: at most one alarm per quarter over 30 streams."""
    rate = false_alarms_at_the_reference(
        Traffic(scored_a_day=scored_a_day, binary=binary),
        np.random.default_rng(11),
        n_streams=quarters * N_STREAMS,
        quarters=1,
        clock=clock,
    )
    se = np.sqrt(max(rate, 0.1) / quarters)
    print(f"\n| {scored_a_day} a day, {'binary' if binary else 'judge'}, {clock} | {rate:.2f} ± {se:.2f} |")
    assert rate <= 1 + 2 * se


@pytest.mark.parametrize("sampled", ["all", "10%"])
@pytest.mark.parametrize("scored_a_day", [100, 1000, 10000])
def test_delays(scored_a_day, sampled):
    """Days from a drop to the alarm, with the reference 1.5 points below the mean of a stream with wander."""
    traffic = Traffic(
        scored_a_day=scored_a_day,
        icc=0.3 if sampled == "all" else 0.5,
        sampled=1.0 if sampled == "all" else 0.1,
    )
    rng, cells, medians = np.random.default_rng(12), [], []
    reference = 0.85 - 0.01 * (1 - 5 / 7 * 2 / 3) - 0.015
    for drop, limit in ((0.05, 120), (0.1, 60), (0.2, 30)):
        found = days_to_alarm(traffic, rng, drop, n_streams=60, reference=reference, limit_days=limit)
        medians.append(np.median(found))
        cells.append(f"{np.median(found):.2f} ({np.quantile(found, 0.9):.2f})")
    print(f"\n| {scored_a_day} | {sampled} | {' | '.join(cells)} |")
    assert medians[0] > medians[1] > medians[2]
    assert medians[2] < 4
