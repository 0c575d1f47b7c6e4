"""Confidence sequences: their limits before and after the first item, their state, and invalid input."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragstone.stats import (
    BettingSequence,
    ProportionSequence,
    beta_mixture_interval,
)

SEQUENCES = (BettingSequence, ProportionSequence)
unit = st.floats(0, 1)


def fed(sequence, values):
    """A sequence that has seen values."""
    for x in values:
        sequence.update(x)
    return sequence


@pytest.mark.parametrize("make", SEQUENCES)
def test_nothing_seen_says_nothing(make):
    """Before the first item the interval is the whole range."""
    sequence = make()
    assert (0.0, 1.0) == sequence.interval()
    assert 0 == sequence.n


@pytest.mark.parametrize("make", SEQUENCES)
@pytest.mark.parametrize("n", [0, 5])
def test_limits_have_names(make, n):
    """Of every sequence, before and after its first item: a caller reads `low` and `high`, as of an estimate."""
    sequence = make()
    for _ in range(n):
        sequence.update(1)
    found = sequence.interval()
    assert (found.low, found.high) == tuple(found)
    assert found.low < found.high


@given(values=st.lists(unit, max_size=60))
def test_interval_lies_in_the_range_and_mirrors(values):
    """What holds for scores holds for what they lack of 1."""
    plain, mirrored = fed(BettingSequence(), values), fed(BettingSequence(), [1 - x for x in values])
    low, high = plain.interval()
    assert 0 <= low <= high <= 1
    assert (1 - high, 1 - low) == pytest.approx(mirrored.interval(), abs=2e-3)


@given(values=st.lists(unit, max_size=40), low=st.floats(-50, 50), width=st.floats(0.1, 100))
def test_the_unit_of_scores_does_not_matter(values, low, width):
    """A range of another place and width gives the same interval there."""
    plain = fed(BettingSequence(), values).interval()
    scaled = fed(BettingSequence(low=low, high=low + width), [low + width * x for x in values]).interval()
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


def test_a_constant_stream_closes_in_on_it():
    """2,000 times 0.7: the interval holds 0.7 and is narrow."""
    low, high = fed(BettingSequence(), [0.7] * 2000).interval()
    assert 0.66 < low < 0.7 < high < 0.74


def test_a_mean_that_moves_leaves_no_candidate():
    """If the mean changes, no single mean fits, and later values do not change that."""
    sequence = fed(BettingSequence(), [0.9] * 200 + [0.1] * 400)
    assert sequence.interval() is None
    sequence.update(0.5)
    assert sequence.interval() is None


@pytest.mark.parametrize(
    "made",
    [
        BettingSequence(low=-1, high=2, confidence_level=0.9, grid=51),
        ProportionSequence(confidence_level=0.9),
    ],
    ids=lambda made: type(made).__name__,
)
def test_state_survives_json(made):
    """Half the stream, through JSON, the other half: the same as without the stop, at every stage."""
    rng = np.random.default_rng(7)
    values = rng.integers(0, 2, 60).astype(float).tolist()
    copy = type(made).from_state(json.loads(json.dumps(made.state(), allow_nan=False)))
    for x in values:
        made.update(x)
        copy.update(x)
        copy = type(made).from_state(json.loads(json.dumps(copy.state(), allow_nan=False)))
        assert made.state() == copy.state()
    assert made.n == copy.n == 60


def test_state_of_another_kind_is_refused():
    """A store that mixes things up is noticed."""
    with pytest.raises(ValueError, match="betting"):
        ProportionSequence.from_state(BettingSequence().state())


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


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BettingSequence(low=1, high=1), "low=1"),
        (lambda: BettingSequence(high=math.inf), "inf"),
        (lambda: BettingSequence(confidence_level=1.0), "level"),
        (lambda: BettingSequence(grid=2), "got 2"),
        (lambda: BettingSequence().update(1.5), "1.5"),
        (lambda: BettingSequence().update(math.nan), "nan"),
    ],
)
def test_bad_input_is_refused(call, message):
    """The message names the value; a refused value is not counted."""
    with pytest.raises(ValueError, match=message):
        call()
