"""Charts: where lines, dots, bars and labels are, and which class says how they are colored."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from ragstone.stats import Estimate
from ragstone.views import Difference, MetricRow, ReleaseMark, SystemEstimate, TrendPoint, TrendRow
from ragstone.views._markup import Markup
from ragstone.views._svg import (
    axis_chart,
    bar_chart,
    difference_chart,
    histogram_chart,
    share_axis,
    share_chart,
    trend_chart,
)

DAY = 86_400.0


def estimate(value: float, low: float, high: float) -> Estimate:
    """An estimate of 100 values."""
    return Estimate(value=value, low=low, high=high, confidence_level=0.95, method="student_t", n=100)


ROW = MetricRow(
    name="m", title="M", question="", stage="answer", low=0.0, high=1.0, neutral=None, lower_is_better=False,
    estimate=estimate(0.5, 0.25, 0.75), axis=(0.0, 1.0), histogram=(), histogram_low=(), histogram_unknown=(),
    rule="", n_undecided=0, n_scored=100, n_failed=0, failure_kinds={}, n_not_applicable=0,
    bounds=None, target=None, advice="", judges=(),
)  # fmt: skip
DIFFERENCE = Difference(
    system="new", other="old", p_value=0.01, p="p = 0.01", metric="m", title="M", lower_is_better=False, width=1.0, difference=0.1, low=0.05, high=0.2, size="",
    better="new", n=100, n_up=1, n_down=1, doubt="", is_exploratory=False,
)  # fmt: skip


def parts(chart: Markup | None, kind: str, class_: str | None = None) -> list[dict[str, str]]:
    """Attributes of the elements of a chart with a name, and with a class if one is given."""
    assert chart is not None
    found = [dict(element.attrib) for element in ET.fromstring(str(chart)).iter(kind)]  # noqa: S314
    return [each for each in found if class_ is None or class_ in each.get("class", "").split()]


def number(element: dict[str, str], name: str) -> float:
    """An attribute as a number."""
    return float(element[name])


def test_mean_and_interval_are_on_the_axis() -> None:
    """The dot is between the ends of the bar, as far as the values say, and hollow dots are other systems."""
    other = SystemEstimate(system="old", estimate=estimate(0.25, 0.2, 0.3))
    chart = axis_chart(replace(ROW, others=(other,), target=0.75))
    (bar,), (dot,), (hollow,) = (
        parts(chart, "line", "interval"),
        parts(chart, "circle", "mean"),
        parts(chart, "circle", "hollow"),
    )
    left, right = (number(end, "x1") for end in parts(chart, "line", "axis")[1:])
    place = [
        (number(each, key) - left) / (right - left)
        for each, key in ((bar, "x1"), (hollow, "cx"), (dot, "cx"), (bar, "x2"))
    ]
    assert [0.25, 0.25, 0.5, 0.75] == pytest.approx(place)
    (target,) = parts(chart, "line", "target")
    assert number(bar, "x2") == number(target, "x1") == number(target, "x2")


@pytest.mark.parametrize("neutral", [0.001, 0.999])
def test_the_label_of_a_mark_does_not_cover_an_end(neutral: float) -> None:
    """A mark near an end has its label next to that of the end."""
    chart = axis_chart(replace(ROW, neutral=neutral))
    (mark,), (label,) = parts(chart, "line", "neutral"), parts(chart, "text", "middle")
    assert abs(number(label, "x") - number(mark, "x1")) > 20


def test_bars_are_divided_by_what_decides() -> None:
    """Scores that are not good are colored, those that are not known have an outline, and the height is their number."""
    row = replace(ROW, histogram=(1, 2, 4), histogram_low=(1, 0, 1), histogram_unknown=(0, 1, 2))
    bars = parts(histogram_chart(row), "rect")
    assert ["low", "high", "unknown", "low", "high", "unknown"] == [bar["class"] for bar in bars]
    heights = [number(bar, "height") for bar in bars]
    assert [height / 26 for height in heights] == pytest.approx([0.25, 0.25, 0.25, 0.25, 0.25, 0.5], abs=1e-3)
    tops = [number(bar, "y") for bar in bars]
    assert [26 * (1 - top) for top in (0.25, 0.25, 0.5, 0.25, 0.5, 1.0)] == pytest.approx(tops, abs=0.02)


def test_an_empty_part_of_a_histogram_has_no_bar() -> None:
    """And nothing is drawn without parts."""
    assert 2 == len(
        parts(
            histogram_chart(
                replace(ROW, histogram=(5, 0, 0, 1), histogram_low=(0, 0, 0, 0), histogram_unknown=(0, 0, 0, 0))
            ),
            "rect",
        )
    )
    assert histogram_chart(ROW) is None


def test_a_share_is_next_to_that_of_all() -> None:
    """The dashed line is at the share of all answers."""
    chart = share_chart(estimate(0.5, 0.4, 0.6), all_share=0.25)
    (dashed,), (dot,), (axis,) = parts(chart, "line", "neutral"), parts(chart, "circle"), parts(chart, "line", "axis")
    left, right = number(axis, "x1"), number(axis, "x2")
    assert [0.25, 0.5] == pytest.approx(
        [(x - left) / (right - left) for x in (number(dashed, "x1"), number(dot, "cx"))]
    )


@pytest.mark.parametrize(("better", "class_"), [("new", "gain"), ("old", "loss"), (None, "hollow")])
def test_a_difference_is_colored_by_its_finding(better: str | None, class_: str) -> None:
    """A difference that is not significant has a hollow dot."""
    (dot,) = parts(difference_chart(replace(DIFFERENCE, better=better), 0.2), "circle")
    assert class_ == dot["class"]


def test_a_difference_is_a_share_of_the_range() -> None:
    """On a range of 100, 10 is where 0.1 is on a range of 1."""
    large = replace(DIFFERENCE, width=100.0, difference=10.0, low=5.0, high=20.0)
    assert str(difference_chart(DIFFERENCE, 0.2)) == str(difference_chart(large, 0.2))
    (middle,) = parts(difference_chart(DIFFERENCE, 0.2), "line", "neutral")
    (dot,) = parts(difference_chart(DIFFERENCE, 0.2), "circle")
    (bar,) = parts(difference_chart(DIFFERENCE, 0.2), "line", "interval")
    assert number(middle, "x1") < number(bar, "x1") < number(dot, "cx") < number(bar, "x2")


def test_the_band_over_time_surrounds_the_line() -> None:
    """Its outline runs along the upper ends and back along the lower ones. Releases outside of the time are not drawn."""
    means = [estimate(0.5, 0.4, 0.6), estimate(0.6, 0.5, 0.7), estimate(0.3, 0.2, 0.4)]
    points = tuple(TrendPoint(since=n * DAY, until=n * DAY + 60, estimate=mean) for n, mean in enumerate(means))
    releases = [ReleaseMark(name=name, time=day * DAY) for name, day in (("early", -1), ("2.0", 1), ("late", 9))]
    chart = trend_chart(TrendRow(metric="m", title="M", axis=(0.0, 1.0), points=points), releases)
    line, band = (
        [tuple(map(float, pair)) for pair in re.findall(r"([\d.]+),([\d.]+)", parts(chart, "path", name)[0]["d"])]
        for name in ("trend", "band")
    )
    xs = [x for x, _ in line]
    assert sorted(xs) == xs
    assert xs + xs[::-1] == [x for x, _ in band]
    for (_, middle), (_, upper), (_, lower) in zip(line, band[:3], band[:2:-1], strict=True):
        assert upper < middle < lower  # y grows downwards
    (release,) = parts(chart, "line", "neutral")
    assert number(release, "x1") == pytest.approx(xs[1], abs=0.2)


def test_bars_are_proportional_and_visible() -> None:
    """A small number still has a bar, and only wrong answers have the color of errors."""
    half, whole, tiny = (parts(bar_chart(n, 1000, is_wrong=n > 1), "rect")[0] for n in (500, 1000, 1))
    assert number(whole, "width") == 2 * number(half, "width") > 100
    assert (2.0, "other", "wrong") == (number(tiny, "width"), tiny["class"], whole["class"])


def test_an_outline_is_the_bar_of_the_baseline() -> None:
    """On the scale of the bar, also if there is no bar now."""
    now, before = parts(bar_chart(250, 1000, is_wrong=True, before=1000), "rect")
    assert number(before, "width") == pytest.approx(4 * number(now, "width"))
    assert ("wrong", "before") == (now["class"], before["class"])
    (alone,) = parts(bar_chart(0, 1000, is_wrong=True, before=500), "rect")
    assert "before" == alone["class"]


def test_the_labels_of_an_axis_of_shares_do_not_overlap() -> None:
    """The label of all answers stays between those of the ends, and below its line if there is room."""
    for share in (0.0, 0.28, 1.0):
        first, last, middle = parts(share_axis(share), "text")
        assert number(first, "x") + 30 < number(middle, "x") < number(last, "x") - 40
    line = parts(share_chart(estimate(0.5, 0.4, 0.6), all_share=0.28), "line", "neutral")[0]
    assert number(line, "x1") == pytest.approx(number(parts(share_axis(0.28), "text")[2], "x"), abs=0.1)
    assert 2 == len(parts(share_axis(None), "text"))
