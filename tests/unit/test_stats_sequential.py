"""The interval one may look at after every draw."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intervals import ends
from ragstone.stats import beta_mixture_interval, wilson_interval


@pytest.mark.parametrize(
    ("successes", "n", "expected"),
    [(10, 20, (0.19, 0.81)), (0, 20, (0.0, 0.22)), (20, 20, (0.78, 1.0)), (0, 0, (0.0, 1.0))],
)
def test_known_values(successes, n, expected):
    """Figures to two digits; no draw says nothing."""
    assert expected == pytest.approx(beta_mixture_interval(successes, n), abs=0.005)


def test_no_success_has_a_closed_form():
    """For 0 of n the upper end solves (1 - p)^n = alpha * C(2n, n) / 4^n, which is what the mixture gives to 0 of n."""
    for n in (1, 7, 50, 2000):
        low, high = beta_mixture_interval(0, n)

        assert low == 0.0
        assert 1 - (0.05 * (math.comb(2 * n, n) / 4**n)) ** (1 / n) == pytest.approx(high, abs=1e-12)


@given(st.integers(1, 3000), st.data(), st.sampled_from([0.5, 0.9, 0.95, 0.999]))
def test_laws(n, data, level):
    """It holds the proportion, stays in [0, 1], mirrors, and never excludes what was seen for sure."""
    successes = data.draw(st.integers(0, n))
    low, high = beta_mixture_interval(successes, n, confidence_level=level)
    mirrored = beta_mixture_interval(n - successes, n, confidence_level=level)

    assert 0 <= low <= successes / n <= high <= 1
    assert (low, high) == pytest.approx((1 - mirrored[1], 1 - mirrored[0]), abs=1e-9)
    assert (low == 0) == (successes == 0)
    assert (high == 1) == (successes == n)


def test_its_ends_are_where_the_martingale_reaches_its_bound():
    """At both ends the mixture's likelihood is 1 / alpha times the proportion's."""
    from scipy.special import betaln

    for end in beta_mixture_interval(7, 30, confidence_level=0.9):
        ratio = betaln(7.5, 23.5) - betaln(0.5, 0.5) - 7 * math.log(end) - 23 * math.log(1 - end)

        assert math.log(10) == pytest.approx(ratio, abs=1e-9)


def test_it_is_wider_than_the_interval_for_a_fixed_number():
    """Validity at any time has its price."""
    for successes in range(21):
        low, high = beta_mixture_interval(successes, 20)
        a, b = ends(wilson_interval(successes, 20))

        assert high - low > b - a


def test_it_narrows():
    """More draws of the same kind say more."""
    widths = [high - low for low, high in (beta_mixture_interval(n // 2, n) for n in (2, 10, 50, 250, 1250))]

    assert all(wide > narrow for wide, narrow in pairwise(widths))


@pytest.mark.parametrize("p", [0.3, *(pytest.param(p, marks=pytest.mark.slow) for p in (0.03, 0.5, 0.9))])
def test_looking_after_every_draw_misses_at_most_as_often_as_promised(p):
    """Over 2,000 streams of 200 draws, at most 5 % are missed at any time; a repeated Wilson interval misses far more."""
    rng = np.random.default_rng(11)
    successes = (rng.random((2000, 200)) < p).cumsum(axis=1)
    missed, missed_by_wilson = np.zeros(2000, dtype=bool), np.zeros(2000, dtype=bool)
    for n in range(1, 201):
        intervals = np.array([beta_mixture_interval(k, n) for k in range(n + 1)])
        now = intervals[successes[:, n - 1]]
        missed |= (now[:, 0] > p) | (p > now[:, 1])
        if n >= 10:
            now = np.array([ends(wilson_interval(k, n)) for k in range(n + 1)])[successes[:, n - 1]]
            missed_by_wilson |= (now[:, 0] > p) | (p > now[:, 1])

    assert missed.mean() <= 0.05
    assert missed_by_wilson.mean() > 0.15


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((3, 2), {}, "successes=3, n=2"),
        ((-1, 2), {}, "successes=-1"),
        ((1, 2), {"confidence_level": 1.0}, "level"),
    ],
)
def test_what_cannot_be(arguments, options, message):
    """Arguments outside their ranges are named."""
    with pytest.raises(ValueError, match=message):
        beta_mixture_interval(*arguments, **options)


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (0, 5), (5, 5), (2, 5)])
def test_limits_have_names(successes, n):
    """Also without a draw: a caller reads `low` and `high`, as of an estimate."""
    found = beta_mixture_interval(successes, n)
    assert (found.low, found.high) == tuple(found)
