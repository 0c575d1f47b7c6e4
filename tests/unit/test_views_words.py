"""Numbers in words: decimals, open ends, and drawings of one line."""

from __future__ import annotations

import math

import pytest

from ragstone.stats import Estimate
from ragstone.views._words import (
    bar,
    difference_span,
    format_interval,
    format_length,
    format_mean,
    levels,
    short_titles,
    sparkline,
)


def estimate(value: float, low: float, high: float) -> Estimate:
    """An estimate of 100 values."""
    return Estimate(value=value, low=low, high=high, confidence_level=0.95, method="student_t", n=100)


@pytest.mark.parametrize(
    ("given", "mean", "interval"),
    [
        (estimate(0.52, 0.518, 0.522), "0.520", "[0.518, 0.522]"),
        (estimate(0.8, 0.75, 0.84), "0.80", "[0.75, 0.84]"),
        (estimate(0.5, 0.49, 0.51), "0.50", "[0.49, 0.51]"),
        (estimate(3.0, -math.inf, math.inf), "3.00", "[-\u221e, \u221e]"),
    ],
)
def test_decimals_follow_the_width_of_the_interval(given: Estimate, mean: str, interval: str) -> None:
    """Three decimals below a width of 0.015, also of the mean."""
    assert (mean, interval) == (format_mean(given), format_interval(given))


def test_titles_are_shortened_only_if_they_stay_different() -> None:
    """The part in parentheses stays if it is what makes the difference."""
    titles = {"a": "Recall (answer)", "b": "Recall (claims)", "c": "Utility (UDCG)"}
    assert {"a": "Recall (answer)", "b": "Recall (claims)", "c": "Utility"} == short_titles(titles)


def test_lines_of_characters() -> None:
    """The largest part is a full block, the smallest number above 0 is visible, and 0 is a space."""
    assert "\u2588 \u2581\u2584" == sparkline((100, 0, 1, 50), 4)
    assert "@ ." == sparkline((10, 0, 1), 3, ascii_only=True)
    assert "\u2588 " == sparkline((1, 1, 0, 0), 2)
    assert ("", "\u2588", "\u2588" * 5, "#" * 10) == (
        bar(0, 1000, 10),
        bar(1, 1000, 10),
        bar(5, 10, 10),
        bar(7, 7, 10, ascii_only=True),
    )
    assert "\u2581\u2585\u2588\u2588" == levels([-1.0, 0.5, 1.0, 2.0], (0.0, 1.0))


def test_lengths_of_parts() -> None:
    """Hours below a day, then days."""
    assert ["1 hour", "12 hours", "1 day", "7 days"] == [format_length(3600 * hours) for hours in (1, 12, 24, 168)]


def test_the_axis_of_differences_has_a_smallest_span() -> None:
    """Small differences are not blown up."""
    assert 0.02 == difference_span([])
