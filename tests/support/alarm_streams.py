"""Simulated streams of scored sessions, and the arithmetic of `CalendarDetector` on arrays of streams.

Scores are a judge's, 0 to 1: 62% are 1, the mean is 0.85. The scores of a session are correlated by copying: each request
has the score of its session with probability sqrt(ICC), else one of its own, so the correlation is exactly the ICC.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ragstone.stats._alarms import BETS, QUARTER_S

DAY_S = 86_400.0
QUARTER_DAYS = QUARTER_S / DAY_S
_BAD_LOSS = 0.85 - 0.4
"""Mean loss of a request whose score is replaced by a bad one, uniform in [0, 0.8]."""


class DetectorArray:
    """`CalendarDetector` for many streams at once. `test_alarms.py` compares it with the class, bit for bit."""

    def __init__(self, reference, *, direction="drop"):
        self.reference = np.asarray(reference, dtype=float)
        self.direction = direction
        self.m = [np.zeros(self.reference.shape) for _ in BETS]

    def update(self, x, *, spend, weight=1.0):
        """Add one unit to every stream, and return which of them raise an alarm."""
        value, good = np.asarray(x), self.reference
        if self.direction == "rise":
            value, good = 1 - value, 1 - good
        gain = (good - value) / (1 - good) * weight
        self.m = [m * (1 + bet * gain) + spend for m, bet in zip(self.m, BETS, strict=True)]
        alarm = sum(self.m) / len(self.m) >= 1
        for m in self.m:
            m[alarm] = 0.0
        return alarm


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Traffic of one application.

    Args:
        scored_a_day: Scored requests a day.
        size: Requests of a session.
        icc: Correlation of two scores of one session.
        sampled: Share of requests that are scored.
        wander: Loss of the mean at night and at weekends.
        binary: Scores are 0 or 1, with mean 0.9.
    """

    scored_a_day: float = 1000.0
    size: int = 5
    icc: float = 0.3
    sampled: float = 1.0
    wander: float = 0.01
    binary: bool = False

    @property
    def mean(self) -> float:
        return 0.9 if self.binary else 0.85

    @property
    def units_a_day(self) -> float:
        """Sessions with at least one scored request."""
        p = 1 - (1 - self.sampled) ** self.size
        return self.scored_a_day / (self.size * self.sampled) * p

    def sessions(self, rng, n, loss):
        """Return the mean score and the number of scored requests of `n` sessions whose mean is lower by `loss`."""
        k = np.full(n, self.size)
        if self.sampled < 1:
            # The number of scored requests, given at least one.
            shares = [
                math.comb(self.size, j) * self.sampled**j * (1 - self.sampled) ** (self.size - j)
                for j in range(1, self.size + 1)
            ]
            k = rng.choice(np.arange(1, self.size + 1), size=n, p=np.array(shares) / sum(shares))
        loss = np.broadcast_to(np.asarray(loss, dtype=np.float32), (n,))
        template = self._scores(rng, n, loss)
        copied = rng.binomial(k, math.sqrt(self.icc)) if self.icc else np.zeros(n, dtype=int)
        total = copied * template
        for j in range(self.size):
            own = k - copied > j
            if not own.any():
                break
            total[own] += self._scores(rng, int(own.sum()), loss[own])
        return total / k, k

    def _scores(self, rng, n, loss):
        if self.binary:
            return (rng.random(n, dtype=np.float32) < 0.9 - loss).astype(float)
        u = rng.random(n, dtype=np.float32)
        # 62% are 1; the others are uniform with mean 0.605.
        x = np.where(u < 0.62, 1.0, 0.21 + 0.79 * (u - 0.62) / 0.38)
        bad = rng.random(n, dtype=np.float32) < loss / _BAD_LOSS
        return np.where(bad, 0.8 * rng.random(n, dtype=np.float32), x).astype(float)

    def loss_at(self, day):
        """Return the wander at a time in days: the night is 22 to 6 h, the weekend the last two days of a week."""
        if not self.wander:
            return np.zeros_like(np.asarray(day, dtype=float))
        hour = (np.asarray(day) % 1) * 24
        return self.wander * (((hour < 6) | (hour >= 22)) | (np.asarray(day) % 7 >= 5))


def false_alarms_at_the_reference(traffic, rng, *, n_streams, quarters, n_budget=30, per_quarter=1.0, clock="even"):
    """Count alarms of streams whose mean is exactly the reference. Returns alarms per quarter of `n_budget` streams.

    Args:
        traffic: Its wander is not used.
        rng: Random numbers.
        n_streams: Simulated streams. The count is scaled to `n_budget` streams that share the budget.
        quarters: Length.
        n_budget: Streams that share the budget.
        per_quarter: Budget.
        clock: "even", "bursty" (nine of ten units close in one hour of a day) or "slow when bad" (a session with a low
            score closes later).
    """
    per_day = traffic.units_a_day
    detectors = DetectorArray(np.full(n_streams, traffic.mean))
    alarms, day = 0, np.zeros(n_streams)
    for i in range(int(per_day * QUARTER_DAYS * quarters)):
        x, _ = traffic.sessions(rng, n_streams, 0.0)
        gap = np.full(n_streams, 1 / per_day)
        if clock == "bursty":
            of_ten = i % 10
            gap = np.full(n_streams, (10 / per_day) * (0.9 if of_ten == 0 else 0.1 / 9))
        elif clock == "slow when bad":
            # A session below its mean takes all of the time: the gap and the score are related.
            bad = x < 0.6
            gap = np.where(bad, 1 / (per_day * bad.mean()), 0.0) if bad.any() else gap
        day += gap
        alarms += int(detectors.update(x, spend=gap * DAY_S / QUARTER_S * per_quarter / n_budget).sum())
    # Streams differ in elapsed time if the gap is random.
    return alarms / (float(day.sum()) / QUARTER_DAYS) * n_budget


def days_to_alarm(traffic, rng, drop, *, n_streams, reference, n_budget=30, warm_days=7, limit_days=120):
    """Return the days from a drop of the mean to the alarm (inf if none within the limit), one a stream."""
    per_day = traffic.units_a_day
    detectors = DetectorArray(np.broadcast_to(np.asarray(reference, dtype=float), (n_streams,)).copy())
    spend = 1 / per_day / QUARTER_DAYS / n_budget
    found = np.full(n_streams, math.inf)
    warm = int(warm_days * per_day)
    for i in range(int((warm_days + limit_days) * per_day)):
        day = i / per_day
        loss = float(traffic.loss_at(day)) + (drop if i >= warm else 0.0)
        x, _ = traffic.sessions(rng, n_streams, loss)
        alarm = detectors.update(x, spend=spend)
        if i >= warm:
            found = np.where(alarm & np.isinf(found), day - warm_days + 1 / per_day, found)
            if not np.isinf(found).any():
                break
    return found
