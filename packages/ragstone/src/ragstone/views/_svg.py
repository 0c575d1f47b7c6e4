"""Charts as inline SVG: mean with interval on an axis, histogram, bar. They take their colors from CSS classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from ragstone.stats import Estimate
from ragstone.views._markup import Markup, join, tag
from ragstone.views._model import Difference, MetricRow, ReleaseMark, TrendPoint, TrendRow
from ragstone.views._words import format_day, format_interval, format_mean, format_share, own_span

_WIDTH: Final = 240.0
_PAD: Final = 6.0
_SHARE_WIDTH: Final = 440.0
_SYSTEM_WIDTH: Final = 260.0
_BAR_WIDTH: Final = 280.0
_TICK: Final = 6.5
"""Width of a character of the labels of an axis."""


def axis_chart(row: MetricRow) -> Markup:
    """Draw mean and interval on the metric's axis. A dashed line is the value without effect or the target."""
    low, high = row.axis
    x, y = _scale(row.axis, _PAD, _WIDTH - _PAD), 12.0
    parts = [tag("line", x1=_PAD, y1=y, x2=_WIDTH - _PAD, y2=y, class_="axis")]
    parts += [tag("line", x1=end, y1=y - 5, x2=end, y2=y + 5, class_="axis") for end in (_PAD, _WIDTH - _PAD)]
    for value, kind in ((row.neutral, "neutral"), (row.target, "target")):
        if value is not None:
            parts.append(tag("line", x1=x(value), y1=2.0, x2=x(value), y2=22.0, class_=kind))
    for other in row.others:
        if other.estimate is not None:
            mean = tag("title", f"{other.system}: {format_mean(other.estimate)}")
            parts.append(tag("g", mean, tag("circle", cx=x(other.estimate.value), cy=y, r=4.0, class_="hollow")))
    label = "no score"
    if row.estimate is not None:
        parts += _mean(row.estimate, x, y)
        label = f"mean {format_mean(row.estimate)}, interval {format_interval(row.estimate)}"
    if row.neutral is not None:
        label_of_mark = f"{row.neutral:g} without effect"
        # The mark may be near an end of the axis, whose label it must not cover.
        left = _PAD + _TICK * (len(_end(low)) + 1)
        right = _WIDTH - _PAD - _TICK * (len(_end(high)) + 1)
        half = _TICK * len(label_of_mark) / 2
        middle = min(max(x(row.neutral), left + half), right - half)
        parts.append(tag("text", label_of_mark, x=middle, y=33.0, class_="tick middle"))
    parts.append(tag("text", _end(low), x=_PAD, y=33.0, class_="tick"))
    parts.append(tag("text", _end(high), x=_WIDTH - _PAD, y=33.0, class_="tick end"))
    return _svg(_WIDTH, 36.0, f"{label}, on an axis from {_end(low)} to {_end(high)}", parts)


def share_chart(share: Estimate, *, all_share: float | None) -> Markup:
    """Draw a share with its interval on an axis from 0 to 1. A dashed line is the share of all."""
    width, y = _SHARE_WIDTH, 8.0
    x = _scale((0.0, 1.0), _PAD, width - _PAD)
    parts = [tag("line", x1=_PAD, y1=y, x2=width - _PAD, y2=y, class_="axis")]
    if all_share is not None:
        parts.append(tag("line", x1=x(all_share), y1=0.0, x2=x(all_share), y2=16.0, class_="neutral"))
    return _svg(width, 16.0, format_share(share), [*parts, *_mean(share, x, y)])


def _mean(estimate: Estimate, x: Callable[[float], float], y: float) -> tuple[Markup, Markup]:
    """Draw a mean and its interval."""
    interval = tag("line", x1=x(estimate.low), y1=y, x2=x(estimate.high), y2=y, class_="interval")
    return interval, tag("circle", cx=x(estimate.value), cy=y, r=4.5, class_="mean")


def share_axis(all_share: float | None) -> Markup:
    """Draw the labels of the axis of `share_chart`: both ends, and the share of all."""
    width = _SHARE_WIDTH
    parts = [
        tag("text", "0 %", x=_PAD, y=11.0, class_="tick"),
        tag("text", "100 %", x=width - _PAD, y=11.0, class_="tick end"),
    ]
    if all_share is not None:
        text = f"all {100 * all_share:.0f} %"
        half = _TICK * len(text) / 2
        # The ends of the axis have labels too, which it must not cover.
        place = _PAD + all_share * (width - 2 * _PAD)
        middle = min(max(place, _PAD + 4 * _TICK + half), width - _PAD - 6 * _TICK - half)
        parts.append(tag("text", text, x=middle, y=11.0, class_="tick middle"))
    return _svg(width, 14.0, "axis from 0 to 100 %", parts)


def system_axis(axis: tuple[float, float]) -> Markup:
    """Draw the labels of the axis of `system_chart`."""
    ends = ((_PAD, axis[0], "tick"), (_SYSTEM_WIDTH - _PAD, axis[1], "tick end"))
    parts = [tag("text", _end(value), x=x, y=11.0, class_=kind) for x, value, kind in ends]
    return _svg(_SYSTEM_WIDTH, 14.0, f"axis from {_end(axis[0])} to {_end(axis[1])}", parts)


def system_chart(
    estimate: Estimate | None, axis: tuple[float, float], quantiles: Sequence[float] = ()
) -> Markup | None:
    """Draw the mean of one system with its interval, on a box plot of its scores, or nothing without scores."""
    if estimate is None:
        return None
    width, y = _SYSTEM_WIDTH, 8.0
    x = _scale(axis, _PAD, width - _PAD)
    parts = [tag("line", x1=_PAD, y1=y, x2=width - _PAD, y2=y, class_="axis")]
    label = f"{format_mean(estimate)} {format_interval(estimate)}"
    if quantiles:
        least, first, median, third, most = map(x, quantiles)
        parts += [
            tag("line", x1=least, y1=y, x2=most, y2=y, class_="whisker"),
            tag("rect", x=first, y=1.0, width=max(third - first, 1.0), height=14.0, class_="box"),
            tag("line", x1=median, y1=1.0, x2=median, y2=15.0, class_="median"),
        ]
        label += f", half of the scores from {_end(quantiles[1])} to {_end(quantiles[3])}"
    return _svg(width, 16.0, label, [*parts, *_mean(estimate, x, y)])


def difference_axis(span: float) -> Markup:
    """Draw the labels of the axis of differences, in hundredths of the range of a metric."""
    width = 360.0
    places = ((_PAD, -span, "tick"), (width / 2, 0.0, "tick middle"), (width - _PAD, span, "tick end"))
    parts = [
        tag("text", f"{100 * value:+.0f}" if value else "0 points", x=x, y=11.0, class_=kind)
        for x, value, kind in places
    ]
    return _svg(width, 14.0, f"axis from {-100 * span:.0f} to {100 * span:.0f} points", parts)


def difference_chart(row: Difference, span: float) -> Markup | None:
    """Draw a difference with its interval on an axis with 0 in the middle. A filled dot is a significant difference.

    `span` is the largest difference on the axis, as a share of the metric's range. An unbounded metric has an axis of its own.
    """
    if row.difference is None:
        return None
    width, y = 360.0, 10.0
    end = span * row.width if math.isfinite(row.width) else own_span(row)
    x = _scale((-end, end), _PAD, width - _PAD)
    parts = [
        tag("line", x1=_PAD, y1=y, x2=width - _PAD, y2=y, class_="axis"),
        tag("line", x1=width / 2, y1=0.0, x2=width / 2, y2=20.0, class_="neutral"),
    ]
    if row.low is not None and row.high is not None:
        parts.append(tag("line", x1=x(row.low), y1=y, x2=x(row.high), y2=y, class_="interval"))
    kind = {"better": "gain", "worse": "loss"}.get(row.finding, "hollow")
    parts.append(tag("circle", cx=x(row.difference), cy=y, r=4.5, class_=kind))
    return _svg(width, 20.0, f"{row.size}, {row.finding}", parts)


def trend_chart(row: TrendRow, releases: Sequence[ReleaseMark]) -> Markup:
    """Draw means over time as a line in the band of their intervals. A dashed line is the start of a release."""
    width, height, left = 560.0, 84.0, 34.0
    top, bottom = 6.0, height - 20.0
    first, last = _middle(row.points[0]), _middle(row.points[-1])
    x, y = _scale((first, last), left, width - _PAD), _scale(row.axis, bottom, top)
    places = [(x(_middle(point)), point.estimate) for point in row.points]
    upper = [f"{at:.1f},{y(mean.high):.1f}" for at, mean in places]
    lower = [f"{at:.1f},{y(mean.low):.1f}" for at, mean in reversed(places)]
    middle = [f"{at:.1f},{y(mean.value):.1f}" for at, mean in places]
    parts = [
        tag("text", _end(row.axis[1]), x=left - 8, y=top + 8, class_="tick end"),
        tag("text", _end(row.axis[0]), x=left - 8, y=bottom, class_="tick end"),
        tag("line", x1=left, y1=bottom, x2=width - _PAD, y2=bottom, class_="axis"),
        tag("path", d=f"M{'L'.join(upper + lower)}Z", class_="band"),
        tag("path", d=f"M{'L'.join(middle)}", class_="trend"),
    ]
    for mark in releases:
        if first <= mark.time <= last:
            at = x(mark.time)
            line = tag("line", x1=at, y1=0.0, x2=at, y2=bottom, class_="neutral")
            parts.append(tag("g", tag("title", f"release {mark.name}"), line))
    for at, time, kind in ((left, first, "tick"), (width - _PAD, last, "tick end")):
        parts.append(tag("text", format_day(time), x=at, y=height - 4, class_=kind))
    start, end = (format_mean(point.estimate) for point in (row.points[0], row.points[-1]))
    label = f"{row.title} over time, from {start} to {end}"
    return _svg(width, height, label, parts)


def _middle(point: TrendPoint) -> float:
    return (point.since + point.until) / 2


def histogram_chart(row: MetricRow) -> Markup | None:
    """Draw the distribution of the scores, or nothing below 10 scores."""
    if not row.histogram:
        return None
    most = max(row.histogram)
    step, height = 5.0, 26.0
    parts = []
    columns = zip(row.histogram, row.histogram_low, row.histogram_unknown, strict=True)
    for n, (total, low, unknown) in enumerate(columns):
        y, scale = height, max(height * total / most, 1.5) / max(total, 1)
        for count, kind in ((low, "low"), (total - low - unknown, "high"), (unknown, "unknown")):
            if count:
                y -= count * scale
                parts.append(tag("rect", x=n * step, y=y, width=step - 1, height=count * scale, class_=kind))
    width = len(row.histogram) * step
    parts.append(tag("line", x1=0.0, y1=height, x2=width, y2=height, class_="axis"))
    return _svg(width, height + 1, "distribution of the scores, low to high", parts)


def bar_chart(n: int, most: int, *, is_wrong: bool, before: int | None = None) -> Markup:
    """Draw a bar whose length is proportional to `n`. An outline is the number of the baseline."""

    def length(number: int) -> float:
        return max(2.0, (_BAR_WIDTH - 2) * number / max(most, 1))

    kind = "wrong" if is_wrong else "other"
    parts = [tag("rect", x=1.0, y=4.0, width=length(n), height=12.0, class_=kind)] if n else []
    if before is not None:
        parts.append(tag("rect", x=1.0, y=1.0, width=length(before), height=18.0, class_="before"))
    return _svg(_BAR_WIDTH, 20.0, str(n) if before is None else f"{n}, before {before}", parts)


def _scale(axis: tuple[float, float], start: float, end: float) -> Callable[[float], float]:
    """Return the function from values to places. Values outside of the axis are at its ends."""
    low, high = axis
    return lambda value: start + (min(max(value, low), high) - low) / (high - low) * (end - start)


def _svg(width: float, height: float, label: str, parts: list[Markup]) -> Markup:
    box = f"0 0 {width:g} {height:g}"
    return tag("svg", join(*parts), viewBox=box, width=width, height=height, role="img", aria_label=label)


def _end(value: float) -> str:
    return f"{value:g}" if value == round(value, 2) else f"{value:.2f}"
