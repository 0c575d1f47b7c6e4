"""The promise of `CalendarDetector`: at most as many false alarms per quarter as the budget.

`nox -s simulate` runs the same simulations on more streams, and prints the table of docs/explanation/alarms.md.
"""

from __future__ import annotations

import numpy as np
import pytest

from alarm_streams import Traffic, days_to_alarm, false_alarms_at_the_reference


@pytest.mark.parametrize("clock", ["even", "bursty", "slow when bad"])
@pytest.mark.parametrize("binary", [False, True])
def test_false_alarms_at_the_reference(clock, binary):
    """A mean exactly at the reference raises at most as many alarms as the budget, also if bad sessions take longer."""
    n_streams = 300
    rate = false_alarms_at_the_reference(
        Traffic(scored_a_day=100, binary=binary),
        np.random.default_rng(5),
        n_streams=n_streams,
        quarters=1,
        n_budget=1,
        clock=clock,
    )
    assert rate <= 1 + 3 / np.sqrt(n_streams)
    # A detector that never alarms would pass, too.
    assert rate > 0.3


@pytest.mark.parametrize(("drop", "days"), [(0.1, 1.5), (0.2, 0.6)])
def test_drops_are_found(drop, days):
    """At 1,000 scored requests a day, a drop is found within the documented time, although 30 streams share the budget."""
    found = days_to_alarm(
        Traffic(), np.random.default_rng(6), drop, n_streams=40, reference=0.83, limit_days=5, warm_days=3
    )
    assert np.median(found) < days


def test_copies_of_one_session_break_the_promise():
    """Two units of one session are not independent: this is why only the first unit of a session bets."""
    rng, traffic = np.random.default_rng(7), Traffic(scored_a_day=200, size=1, icc=0.0, binary=True)

    class Doubled(Traffic):
        def sessions(self, rng, n, loss):
            # Every session closes twice, with the same score.
            self._turn["i"] += 1
            if self._turn["i"] % 2:
                self._turn["x"] = super().sessions(rng, n, loss)
            return self._turn["x"]

    doubled = Doubled(**{k: getattr(traffic, k) for k in ("scored_a_day", "size", "icc", "binary")})
    object.__setattr__(doubled, "_turn", {"i": 0})
    alone = false_alarms_at_the_reference(traffic, rng, n_streams=600, quarters=0.5)
    twice = false_alarms_at_the_reference(doubled, rng, n_streams=600, quarters=0.5)
    assert twice > 3 * max(alone, 0.2)
