"""Promises about streams, simulated: how often a sequence is ever wrong, and how often an alarm is false."""

from __future__ import annotations

import numpy as np
import pytest

from ragstone.stats import (
    BernsteinSequence,
    BettingSequence,
    DifferenceSequence,
    ManskiSequence,
    ShiryaevRobertsDetector,
    wilson_interval,
)

STREAMS, ITEMS = 250, 150


def share_ever_wrong(make, draw, truth, update=None):
    """Share of streams whose interval misses the truth after any item."""
    rng = np.random.default_rng(20)
    wrong = 0
    for _ in range(STREAMS):
        sequence = make()
        for x in draw(rng):
            (update or type(sequence).update)(sequence, x)
            interval = sequence.interval()
            if interval is None or not interval[0] <= truth <= interval[1]:
                wrong += 1
                break
    return wrong / STREAMS


def ceiling(rng):
    """Scores as judges give them: 85 in 100 are 1."""
    return np.where(rng.random(ITEMS) < 0.85, 1.0, rng.random(ITEMS)).tolist()


def passes(rng):
    """Yes or no, 30 in 100."""
    return (rng.random(ITEMS) < 0.3).astype(float).tolist()


@pytest.mark.parametrize("make", [BettingSequence, BernsteinSequence])
@pytest.mark.parametrize(("draw", "truth"), [(ceiling, 0.925), (passes, 0.3)])
def test_looking_after_every_item_is_allowed(make, draw, truth):
    """At most 5 in 100 streams are ever missed; 0.08 is two standard errors above."""
    assert share_ever_wrong(make, draw, truth) <= 0.08


def test_looking_after_every_item_is_not_allowed_with_an_ordinary_interval():
    """Wilson's interval, looked at from the 10th item on, misses a large part of the same streams."""
    rng = np.random.default_rng(20)
    intervals = {n: [wilson_interval(k, n) for k in range(n + 1)] for n in range(10, ITEMS + 1)}
    wrong = 0
    for _ in range(STREAMS):
        k = np.cumsum(passes(rng)).astype(int)
        wrong += any(not intervals[n][k[n - 1]][0] <= 0.3 <= intervals[n][k[n - 1]][1] for n in intervals)
    assert wrong / STREAMS > 0.2


def test_failures_of_bad_answers_do_not_fool_manski():
    """Only scores below 0.5 fail, and most of them do: the interval holds the mean of all, as if none had failed."""

    def draw(rng):
        x = rng.random(ITEMS)
        return [None if value < 0.5 and rng.random() < 0.8 else float(value) for value in x]

    def ignoring(sequence, x):
        if x is not None:
            sequence.update(x)

    assert share_ever_wrong(ManskiSequence, draw, 0.5) <= 0.08
    assert share_ever_wrong(BettingSequence, draw, 0.5, ignoring) > 0.5


def test_two_versions_that_do_not_differ():
    """Paired scores that share their question: 0 is ever left out in at most 5 of 100 streams."""

    def draw(rng):
        easy = rng.random((ITEMS, 1))
        return np.clip(easy + rng.normal(0, 0.1, (ITEMS, 2)), 0, 1).tolist()

    assert share_ever_wrong(DifferenceSequence, draw, 0.0, lambda s, pair: s.update(*pair)) <= 0.08


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.beta(4, 1, 3000),
        lambda rng: (rng.random(3000) < 0.8).astype(float),
        lambda rng: np.full(3000, 0.8),
    ],
    ids=["beta", "binary", "constant"],
)
def test_false_alarms_are_as_rare_as_promised(draw):
    """With a mean of exactly 0.8 it takes at least 1 / alpha = 100 items on average; less two standard errors."""
    rng = np.random.default_rng(21)
    waits = []
    for _ in range(200):
        detector = ShiryaevRobertsDetector(0.8, alpha=0.01)
        waits.append(next((i for i, x in enumerate(draw(rng).tolist(), start=1) if detector.update(x)), 3000))
    assert np.mean(waits) >= 100 - 2 * np.std(waits) / np.sqrt(len(waits))


def test_a_real_drop_is_found_soon():
    """From 0.80 to 0.65 with one false alarm in 1,000 items at most: half of the alarms come within 50 items."""
    rng = np.random.default_rng(22)
    delays = []
    for _ in range(200):
        detector = ShiryaevRobertsDetector(0.8, alpha=0.001)
        good, bad = rng.beta(4, 1, 100), rng.beta(3.25, 1.75, 1000)
        for x in np.concatenate([good, bad]).tolist():
            if detector.update(x):
                break
        delays.append(detector.alarm_at - 100)
    assert 5 < np.median([delay for delay in delays if delay > 0]) < 50
