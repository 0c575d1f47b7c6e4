"""What a comparison says in words: verdicts that need no statistics, and the tables behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ragstone.experiments._compare.pairs import MetricComparison, PairDifference

__all__ = ["amount", "interval_text", "means_table", "pairs_table", "probability", "table", "verdicts"]

_POINTS: Final = 100
_LEAST_P: Final = 0.0001
_MOST_DIGITS: Final = 4


def amount(value: float, *, points: bool, sign: bool = False, digits: int = 1) -> str:
    """A difference in words: "2.6 points", or in the metric's own units where its range is not 0 to 1.

    Args:
        value: The difference.
        points: Whether the range is 0 to 1, of which a point is a hundredth.
        sign: Whether to show a plus.
        digits: Behind the decimal point, of points.
    """
    number = _number(value, points=points, sign=sign, digits=digits)
    if not points:
        return number
    return f"{number} {'point' if number.lstrip('+-') == '1' else 'points'}"


def interval_text(low: float, high: float, *, points: bool, digits: int = 1) -> str:
    """An interval, without its unit."""
    return f"[{_number(low, points=points, digits=digits)}, {_number(high, points=points, digits=digits)}]"


def probability(p: float | None) -> str:
    """A p-value with as many digits as matter."""
    if p is None:
        return "untestable"
    return f"< {_LEAST_P:.4f}" if p < _LEAST_P else f"{p:.2g}"


def verdicts(metric: MetricComparison) -> tuple[str, ...]:
    """What can be said of a metric, and what cannot, one sentence each."""
    name = metric.metric if metric.higher_is_better else f"{metric.metric} (lower is better)"
    told = []
    for winner in dict.fromkeys(pair.better for pair in metric.pairs if pair.better is not None):
        wins = [_turned(pair, winner) for pair in metric.pairs if pair.better == winner]
        (first, *others) = (f"{pair.other}{{on}} by {_size(metric, pair)}{_doubt(metric, pair)}" for pair in wins)
        told.append(
            f"{winner} beats {', and '.join([first.format(on=f' on {name}'), *(o.format(on='') for o in others)])}"
        )
    undecided = []
    for pair in metric.pairs:
        both = f"{pair.system} and {pair.other}"
        if pair.better is not None:
            continue
        if not pair.n:
            told.append(f"{both} cannot be compared on {name}: no sample has a score of both")
        elif pair.n_equal == pair.n:
            doubt = _doubt(metric, pair, 0.0, 0.0, what="the difference")
            told.append(f"{both} score alike on {name}, on {_all(pair.n)}{doubt}")
        elif _within(metric, pair):
            edge = metric.detect or 0.0
            doubt = _doubt(metric, pair, -edge, edge)
            told.append(f"{both} are within {_step(metric)} of each other on {name}: {_size(metric, pair)}{doubt}")
        else:
            undecided.append(pair)
    if undecided:
        pairs = ", ".join(
            f"{p.system} and {p.other}" + (f" ({_size(metric, p)})" if len(undecided) > 1 else "") for p in undecided
        )
        size = f": {_size(metric, undecided[0])}" if len(undecided) == 1 else ""
        told.append(f"no difference can be claimed on {name} between {pairs}{size}; {_wanted(metric, undecided)}")
    return tuple(told)


def means_table(metrics: Sequence[MetricComparison]) -> list[str]:
    """Means of all metrics and systems, each with interval and denominators."""
    rows = [("metric", "system", "mean [95% CI]", "n scored / failed / n.a.")]
    for metric in metrics:
        for s in metric.systems:
            e = s.estimate
            mean = "no score" if e is None else f"{e.value:.3f} [{e.low:.3f}, {e.high:.3f}]"
            rows.append((metric.metric, s.system, mean, f"{s.n_scored} / {s.n_failed} / {s.n_not_applicable}"))
    return table(rows)


def pairs_table(metrics: Sequence[MetricComparison]) -> list[str]:
    """All differences: intervals that hold together, p-values, sizes."""
    rows = [
        (
            metric.metric,
            f"{p.system} - {p.other}",
            "no common score" if p.difference is None else _size(metric, p, sign=True),
            probability(p.p_value),
            "" if p.effect_size is None else f"{p.effect_size:+.2f}",
            f"{p.n_higher} / {p.n_equal} / {p.n_lower}",
            str(p.n),
        )
        for metric in metrics
        for p in metric.pairs
    ]
    return table([("metric", "difference", "of means", "p", "effect", "higher / equal / lower", "n"), *rows])


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns side by side."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _number(value: float, *, points: bool, sign: bool = False, digits: int = 1) -> str:
    if math.isinf(value):
        return "no bound"
    text = f"{_POINTS * value:.{digits}f}" if points else f"{value:.4g}"
    # One point is "1", and nothing is not less than nothing.
    if float(text) == int(float(text)):
        text = str(int(float(text)))
    return f"+{text}" if sign and value > 0 else text


def _size(metric: MetricComparison, pair: PairDifference, *, sign: bool = False) -> str:
    ends = [end for end in (pair.difference, pair.low, pair.high) if end is not None]
    digits = _digits(ends)
    told = amount(pair.difference or 0.0, points=metric.in_points, sign=sign, digits=digits)
    if pair.low is None or pair.high is None:
        return told
    return f"{told} {interval_text(pair.low, pair.high, points=metric.in_points, digits=digits)}"


def _digits(values: Sequence[float]) -> int:
    """As many digits as it takes to tell from 0 what is not 0: an interval that excludes it must be seen to."""
    digits = 1
    seen = [value for value in values if float(f"{_POINTS * value:.{_MOST_DIGITS}f}")]
    while any(not float(f"{_POINTS * value:.{digits}f}") for value in seen):
        digits += 1
    return digits


def _turned(pair: PairDifference, winner: str) -> PairDifference:
    """The difference as the winner sees it: from its side, and above 0 also where less is better."""
    difference, low, high, bounds = pair.difference or 0.0, pair.low, pair.high, pair.bounds
    if difference < 0:
        difference = -difference
        low, high = None if high is None else -high, None if low is None else -low
        bounds = None if bounds is None else (-bounds[1], -bounds[0])
    return replace(
        pair,
        system=winner,
        other=pair.other if winner == pair.system else pair.system,
        difference=difference,
        low=low,
        high=high,
        bounds=bounds,
    )


def _doubt(
    metric: MetricComparison, pair: PairDifference, low: float = 0.0, high: float = math.inf, *, what: str = "it"
) -> str:
    """Say so where the samples that failed could take the difference out of what is claimed (from the winner's side)."""
    if not pair.n_failed or pair.bounds is None or low < pair.bounds[0] <= pair.bounds[1] < high:
        return ""
    failed = f"{pair.n_failed} {'sample' if pair.n_failed == 1 else 'samples'} failed"
    return (
        f" (but {failed}: whatever {'that' if pair.n_failed == 1 else 'those'} had scored, {what} lies in "
        f"{interval_text(*pair.bounds, points=metric.in_points)})"
    )


def _within(metric: MetricComparison, pair: PairDifference) -> bool:
    """Whether a difference that matters is ruled out."""
    if metric.detect is None or pair.low is None or pair.high is None:
        return False
    return -metric.detect < pair.low <= pair.high < metric.detect


def _step(metric: MetricComparison) -> str:
    return amount(metric.detect or 0.0, points=metric.in_points)


def _wanted(metric: MetricComparison, undecided: Sequence[PairDifference]) -> str:
    """What would decide: how many more samples, for all undecided pairs."""
    few = [pair for pair in undecided if pair.detectable is None]
    if few:
        pair = few[0]
        return f"too few samples differ to claim anything ({pair.n - pair.n_equal} of {pair.n})"
    wanted = [pair.n_more for pair in undecided if pair.n_more is not None]
    if not wanted:
        reach = max(pair.detectable or 0.0 for pair in undecided)
        return f"these samples detect {amount(reach, points=metric.in_points)}"
    if not max(wanted):
        return f"the samples suffice to detect {_step(metric)}"
    return (
        f"about {_about(max(wanted)):,} more {'sample' if max(wanted) == 1 else 'samples'} would detect {_step(metric)}"
    )


def _about(n: int) -> int:
    """Round up to two digits."""
    unit = int(10 ** max(0, len(str(n)) - 2))
    return -(-n // unit) * unit


def _all(n: int) -> str:
    return "the one sample they share" if n == 1 else f"all {n} samples"
