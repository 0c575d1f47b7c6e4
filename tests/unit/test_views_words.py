"""Numbers in words: decimals, open ends, and drawings of one line."""

from __future__ import annotations

import math

import pytest

from ragstone.stats import Estimate
from ragstone.views import MetricRow
from ragstone.views._canvas import Canvas
from ragstone.views._markdown import fence_in_markdown
from ragstone.views._words import (
    bar,
    describe_rules,
    difference_span,
    divide_rows,
    format_interval,
    format_length,
    format_mean,
    format_share,
    levels,
    list_judges,
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


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (estimate(0.164, 0.13, 0.21), "16 % [13, 21]"),
        (estimate(0.0, 0.0, 0.0029), "0.0 % [0.0, 0.3]"),
        (estimate(0.996, 0.99, 1.0), "99.6 % [99.0, 100.0]"),
    ],
)
def test_a_narrow_interval_of_a_share_has_a_width(given: Estimate, text: str) -> None:
    """One decimal below a width of 1.5 points, so that 0 of 1,278 is not "0 % [0, 0]"."""
    assert text == format_share(given)


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


def row(low: float = 0.0, high: float = 1.0, *, n: int = 3, failed: int = 0, **changed: object) -> MetricRow:
    """A metric with `n` scores."""
    given = {"neutral": None, "lower_is_better": False, "rule": "", "n_undecided": 0} | changed
    return MetricRow(
        name="m", title="M", question="", stage="answer", low=low, high=high, estimate=None, axis=(0.0, 1.0), histogram=(), histogram_low=(), histogram_unknown=(),
        n_scored=n, n_failed=failed, failure_kinds={}, n_not_applicable=0, bounds=None, target=None, advice="", judges=(), **given,
    )  # fmt: skip


def test_rules_are_written_only_if_another_value_decides() -> None:
    """And how many scores do not have it."""
    rule = "good if the best of em and judge in its details is at least 0.5"
    lines = describe_rules([row(), row(rule=rule), row(rule=rule, n_undecided=2), row(n_undecided=1)])
    unknown = "2 scores do not have it, and no color"
    assert [f"m: {rule}.", f"m: {rule}; {unknown}.", "m: 1 score does not have it, and no color."] == lines


def test_metrics_are_divided_by_whether_they_apply() -> None:
    """A failure is something to look at; without any outcome of another kind, nothing is hidden."""
    scored, failed, absent = row(), row(n=0, failed=2), row(n=0)
    assert ((scored, failed), (absent,)) == divide_rows([scored, absent, failed])
    assert ((absent,), ()) == divide_rows([absent])


def test_long_names_of_judges_are_cut() -> None:
    """A judge's name comes from a file, and the line of the header contains all of them."""
    assert list_judges(["a", "j" * 100]) == "a, " + "j" * 100
    assert list_judges(["j" * 101]) == "j" * 99 + "…"


@pytest.mark.parametrize(("text", "n"), [("no mark", 3), ("``", 3), ("```\nout", 4), ("a ````` b", 6)])
def test_a_code_block_has_a_longer_fence_than_its_text(text: str, n: int) -> None:
    """Otherwise a captured text ends the block, and what follows is markup."""
    start, _, end = fence_in_markdown(text)
    assert (start, end) == ("`" * n + "text", "`" * n)


def test_a_hanging_paragraph_stays_within_the_width() -> None:
    """Lines after the first have a larger indent."""
    canvas = Canvas(40, ascii_only=False)
    canvas.wrap("word " * 30, indent=2, hanging=8)
    assert len(canvas.lines) > 3
    assert max(len(line.plain) for line in canvas.lines) <= 40
