"""Streams that are looked at after every item: edges, state, and alarms. Their promises are simulated in tests/properties."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.stats import (
    BernsteinSequence,
    BettingSequence,
    DifferenceSequence,
    ManskiSequence,
    ProportionSequence,
    ShiryaevRobertsDetector,
    beta_mixture_interval,
)

SEQUENCES = (BettingSequence, BernsteinSequence)
unit = st.floats(0, 1)


def fed(sequence, values):
    """A sequence that has seen values."""
    for x in values:
        sequence.update(x)
    return sequence


@pytest.mark.parametrize("make", [*SEQUENCES, ManskiSequence, ProportionSequence])
def test_nothing_seen_says_nothing(make):
    """Before the first item the interval is the whole range."""
    sequence = make()
    assert (0.0, 1.0) == sequence.interval()
    assert 0 == sequence.n


@pytest.mark.parametrize("make", [*SEQUENCES, ManskiSequence, ProportionSequence, DifferenceSequence])
@pytest.mark.parametrize("n", [0, 5])
def test_limits_have_names(make, n):
    """Of every sequence, before and after its first item: a caller reads `low` and `high`, as of an estimate."""
    pair = (0, 1) if make is DifferenceSequence else (1,)
    sequence = make()
    for _ in range(n):
        sequence.update(*pair)
    found = sequence.interval()
    assert (found.low, found.high) == tuple(found)
    assert found.low < found.high


@pytest.mark.parametrize("make", SEQUENCES)
@given(values=st.lists(unit, max_size=60))
def test_interval_lies_in_the_range_and_mirrors(make, values):
    """What holds for scores holds for what they lack of 1."""
    plain, mirrored = fed(make(), values), fed(make(), [1 - x for x in values])
    low, high = plain.interval()
    assert 0 <= low <= high <= 1
    assert (1 - high, 1 - low) == pytest.approx(mirrored.interval(), abs=2e-3)


@pytest.mark.parametrize("make", SEQUENCES)
@given(values=st.lists(unit, max_size=40), low=st.floats(-50, 50), width=st.floats(0.1, 100))
def test_the_unit_of_scores_does_not_matter(make, values, low, width):
    """A range of another place and width gives the same interval there."""
    plain = fed(make(), values).interval()
    scaled = fed(make(low=low, high=low + width), [low + width * x for x in values]).interval()
    # Rounding may move an end to the next candidate.
    assert plain == pytest.approx([(end - low) / width for end in scaled], abs=2.1e-3)


@given(values=st.lists(unit, min_size=1, max_size=60))
def test_betting_never_widens(values):
    """A candidate that was beaten stays beaten."""
    sequence, before = BettingSequence(grid=101), (0.0, 1.0)
    for x in values:
        sequence.update(x)
        now = sequence.interval()
        if now is None:
            break
        assert before[0] <= now[0]
        assert now[1] <= before[1]
        before = now


@pytest.mark.parametrize("make", SEQUENCES)
def test_a_constant_stream_closes_in_on_it(make):
    """2,000 times 0.7: the interval holds 0.7 and is narrow."""
    low, high = fed(make(), [0.7] * 2000).interval()
    assert 0.66 < low < 0.7 < high < 0.74


def test_betting_is_narrower_than_bernstein():
    """That is what the grid is for."""
    rng = np.random.default_rng(2)
    for n in (20, 100, 500):
        values = rng.beta(4, 1, n).tolist()
        (a, b), (c, d) = fed(BettingSequence(), values).interval(), fed(BernsteinSequence(), values).interval()
        assert b - a < d - c


def test_a_mean_that_moves_leaves_no_candidate():
    """Betting says that no single mean fits; empirical Bernstein continues, between the two."""
    values = [0.9] * 200 + [0.1] * 400
    assert fed(BettingSequence(), values).interval() is None
    low, high = fed(BernsteinSequence(), values).interval()
    assert 0.1 < low < high < 0.9
    manski = fed(ManskiSequence(), values)
    assert manski.interval() is None
    # It stays so, and takes what comes.
    manski.update(0.5)
    assert manski.interval() is None


@pytest.mark.parametrize(
    "made",
    [
        BettingSequence(low=-1, high=2, confidence_level=0.9, grid=51),
        BernsteinSequence(low=-1, high=2, confidence_level=0.9),
        ManskiSequence(low=-1, high=2, confidence_level=0.9, grid=51),
        DifferenceSequence(low=-1, high=2, confidence_level=0.9, grid=51),
        ProportionSequence(confidence_level=0.9),
        ShiryaevRobertsDetector(0.6, direction="rise", alpha=0.01, bets=(0.1, 0.9)),
    ],
    ids=lambda made: type(made).__name__,
)
def test_state_survives_json(made):
    """Half the stream, through JSON, the other half: the same as without the stop, at every stage."""
    rng = np.random.default_rng(7)
    values = rng.integers(0, 2, 60).astype(float).tolist()
    call = (lambda s, x: s.update(0.5, x)) if isinstance(made, DifferenceSequence) else (lambda s, x: s.update(x))
    copy = type(made).from_state(json.loads(json.dumps(made.state(), allow_nan=False)))
    for x in values:
        call(made, x)
        call(copy, x)
        copy = type(made).from_state(json.loads(json.dumps(copy.state(), allow_nan=False)))
        assert made.state() == copy.state()
    assert made.n == copy.n == 60


def test_state_of_another_kind_is_refused():
    """A store that mixes things up is noticed."""
    with pytest.raises(ValueError, match="betting"):
        BernsteinSequence.from_state(BettingSequence().state())


def test_state_of_betting_shrinks():
    """Beaten candidates are not kept."""
    sequence = BettingSequence()
    before = len(json.dumps(sequence.state()))
    fed(sequence, [0.8, 0.9, 0.7] * 500)
    assert len(json.dumps(sequence.state())) < before / 2


def test_rate_is_the_beta_mixture():
    """Two counts are all it keeps."""
    sequence = fed(ProportionSequence(), [True, 0, False, 1.0, 1])
    assert beta_mixture_interval(3, 5) == sequence.interval()
    assert 0.6 == sequence.mean
    with pytest.raises(ValueError, match=r"0\.5"):
        sequence.update(0.5)


def test_manski_ends_are_those_of_the_two_worlds():
    """Failures at 0 in the lower stream and at 1 in the upper; their rate is counted."""
    values = [0.8, None, 0.6, 0.9, None, 0.7] * 20
    found = fed(ManskiSequence(), values)
    low = fed(BettingSequence(), [0.0 if x is None else x for x in values]).interval()[0]
    high = fed(BettingSequence(), [1.0 if x is None else x for x in values]).interval()[1]
    assert (low, high) == found.interval()
    assert (1 / 3, 120) == (found.failures.mean, found.n)
    # It stays as wide as what is missing.
    assert high - low > 1 / 3


def test_difference_has_the_sign_of_the_second():
    """The second version is better: above 0, in units of the score."""
    found = fed_pairs(DifferenceSequence(low=0, high=100), [(50, 80), (60, 80), (70, 80)] * 40)
    low, high = found.interval()
    assert 0 < low < 20 < high
    assert 20 == pytest.approx(found.mean)


def fed_pairs(sequence, pairs):
    """A sequence of differences that has seen pairs."""
    for first, second in pairs:
        sequence.update(first, second)
    return sequence


@given(values=st.lists(unit, max_size=80), reference=st.floats(0.05, 0.95))
def test_detector_against_its_recursion(values, reference):
    """On the scale of logarithms it is the mean over bets of M = (M + 1)(1 + bet (reference - x))."""
    bets, alpha = (0.25, 1.0), 0.05
    detector, evidence, at = ShiryaevRobertsDetector(reference, alpha=alpha, bets=bets), [0.0, 0.0], None
    for i, x in enumerate(values, start=1):
        evidence = [
            (m + 1) * max(0.0, 1 + bet / (1 - reference) * (reference - x))
            for m, bet in zip(evidence, bets, strict=True)
        ]
        mean = sum(evidence) / 2
        if math.isclose(mean, 1 / alpha, rel_tol=1e-9):
            return
        if at is None and mean >= 1 / alpha:
            at = i
        assert (at is not None) == detector.update(x)
    assert at == detector.alarm_at


def test_detector_finds_drops_and_rises_alike():
    """A rise of failures is a drop of successes."""
    rng = np.random.default_rng(3)
    values = rng.random(500) * 0.5
    drop, rise = ShiryaevRobertsDetector(0.6), ShiryaevRobertsDetector(0.4, direction="rise")
    for x in values.tolist():
        drop.update(x)
        rise.update(1 - x)
    assert drop.alarm_at == rise.alarm_at is not None


def test_detector_is_silent_on_what_is_fine_and_can_be_reset():
    """At 1 for ever there is little evidence; an alarm stays until it is reset, and very long streams do not overflow."""
    detector = ShiryaevRobertsDetector(0.8)
    for _ in range(1000):
        assert not detector.update(1.0)
    assert detector.evidence < 0.3
    for _ in range(5000):
        detector.update(0.0)
    assert 1000 < detector.alarm_at < 1030
    assert math.isfinite(detector.evidence)
    detector.reset()
    assert detector.alarm_at is None
    assert not detector.update(1.0)
    assert 6001 == detector.n


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BettingSequence(low=1, high=1), "low=1"),
        (lambda: BettingSequence(high=math.inf), "inf"),
        (lambda: BettingSequence(confidence_level=1.0), "level"),
        (lambda: BettingSequence(grid=2), "got 2"),
        (lambda: BettingSequence().update(1.5), "1.5"),
        (lambda: BettingSequence().update(math.nan), "nan"),
        (lambda: BernsteinSequence().update(-0.1), "-0.1"),
        (lambda: DifferenceSequence().update(0.0, 1.5), "1.5"),
        (lambda: ShiryaevRobertsDetector(0.0), "strictly between low and high"),
        (lambda: ShiryaevRobertsDetector(0.5, direction="down"), "down"),
        (lambda: ShiryaevRobertsDetector(0.5, alpha=0), "alpha"),
        (lambda: ShiryaevRobertsDetector(0.5, bets=(1.5,)), "1.5"),
        (lambda: ShiryaevRobertsDetector(0.5, bets=()), "at least one"),
    ],
)
def test_bad_input_is_refused(call, message):
    """The message names the value; a refused value is not counted."""
    with pytest.raises(ValueError, match=message):
        call()
