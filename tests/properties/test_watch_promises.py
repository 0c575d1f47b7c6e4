"""Whole streams on simulated sessions, quick: quiet without a change, found with one. At full length: `nox -s simulate`."""

from __future__ import annotations

import numpy as np

from alarm_streams import Traffic
from watch_simulation import run_stream


def test_streams_without_a_change_stay_quiet():
    """Sessions with ICC 0.3, nights and weekends worse by 2 points: eight streams, a quarter each, no alarm."""
    rng = np.random.default_rng(31)
    runs = [run_stream(Traffic(scored_a_day=300, wander=0.02), rng, days=91, n_active=15) for _ in range(8)]
    assert all(run.learned_day is not None for run in runs)
    assert [] == [event for run in runs for event in run.events]


def test_drop_is_found_dated_and_followed_up():
    """A drop of 10 points at 1,000 scored requests a day: within two days, with a follow-up that covers it."""
    rng = np.random.default_rng(32)
    runs = [run_stream(Traffic(), rng, days=30, loss=lambda day: 0.1 + 0 * day, stop_at_alarm=True) for _ in range(20)]
    assert np.median([run.delay for run in runs]) < 1.5
    covered = [run.alarms[0].follow_up.low <= 0.1 <= run.alarms[0].follow_up.high for run in runs]
    assert sum(covered) >= 16


def test_low_scores_sampled_more_are_no_drop():
    """Low scores are scored five times as often from one day on: without weights this is a drop of 20 points."""
    rng = np.random.default_rng(33)
    traffic = Traffic(size=1, icc=0.0, scored_a_day=600)
    runs = [
        run_stream(traffic, rng, days=40, p=lambda since, x: (0.5 if x < 0.6 else 0.1) if since >= 0 else 0.1)
        for _ in range(4)
    ]
    assert [] == [event for run in runs for event in run.events]
