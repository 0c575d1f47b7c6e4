"""The normal distribution, Student's, and roots, compared with scipy."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special
from scipy.optimize import brentq

from ragstone._util.distributions import find_root, normal_cdf, normal_quantile, student_quantile

freedoms = st.one_of(st.integers(1, 600), st.floats(0.5, 1e7))
tails = st.floats(1e-9, 0.499)


@given(freedoms, tails)
def test_quantiles_of_student(freedom: float, tail: float) -> None:
    """Both tails. The inverse of the distribution function, because `stdtrit` has seven digits in places."""
    quantile = student_quantile(freedom, tail)
    assert tail == pytest.approx(float(special.stdtr(freedom, quantile)), rel=1e-9)
    assert float(special.stdtrit(freedom, tail)) == pytest.approx(quantile, rel=1e-6)
    assert quantile == -student_quantile(freedom, 1 - tail) or 1 - (1 - tail) != tail


@given(st.floats(-30, 30), st.floats(1e-12, 1 - 1e-12))
def test_normal(x: float, p: float) -> None:
    """The distribution function also far in the lower tail."""
    assert float(special.ndtr(x)) == pytest.approx(normal_cdf(x), rel=1e-12)
    assert float(special.ndtri(p)) == pytest.approx(normal_quantile(p), rel=1e-12, abs=1e-15)


def test_ends_and_centers() -> None:
    """Infinite quantiles, the median, many degrees of freedom, and the distributions with a formula."""
    for p, expected in ((0.0, -math.inf), (1.0, math.inf), (0.5, 0.0)):
        assert expected == normal_quantile(p) == student_quantile(3, p) == student_quantile(1e9, p)
    assert normal_quantile(0.975) == pytest.approx(student_quantile(math.inf, 0.975), rel=1e-15)
    assert math.tan(math.pi * 0.475) == pytest.approx(student_quantile(1, 0.975), rel=1e-13)
    assert 0.95 * math.sqrt(2 / (1 - 0.95**2)) == pytest.approx(student_quantile(2, 0.975), rel=1e-13)
    for freedom, p in ((0.0, 0.5), (-1.0, 0.5), (math.nan, 0.5), (3.0, 1.5), (3.0, -0.1), (3.0, math.nan)):
        with pytest.raises(ValueError, match="must be"):
            student_quantile(freedom, p)


@given(st.floats(0.001, 0.999), st.floats(0.2, 9), st.sampled_from([1e-3, 1e-7, 1e-12]))
def test_roots(root: float, power: float, tolerance: float) -> None:
    """Of functions that are nearly flat or nearly vertical at the root, in both directions."""
    calls = []

    def f(x: float) -> float:
        calls.append(x)
        return math.copysign(abs(x - root) ** power, x - root)

    for sign in (1, -1):
        calls.clear()
        assert abs(find_root(lambda x: sign * f(x), 0.0, 1.0, tolerance=tolerance) - root) <= tolerance  # noqa: B023
        assert len(calls) <= 3 + 3 * math.log2(1 / tolerance)


def test_root_takes_few_calls() -> None:
    """Of a smooth function, about as many as Brent's method, and none at an end that is a root."""
    calls = []

    def f(x: float) -> float:
        calls.append(x)
        return math.exp(x) - 2

    assert math.log(2) == pytest.approx(find_root(f, 0.0, 3.0, tolerance=1e-12), abs=1e-12)
    ours = len(calls)
    calls.clear()
    brentq(f, 0.0, 3.0, xtol=1e-12)
    assert ours <= len(calls) + 4
    assert find_root(lambda x: x, 0.0, 1.0, tolerance=1e-9) == 0.0
    with pytest.raises(ValueError, match="no change of sign between 1 and 2"):
        find_root(lambda x: x, 1, 2, tolerance=1e-9)
