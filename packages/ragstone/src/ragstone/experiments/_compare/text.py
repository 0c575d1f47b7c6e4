"""What a comparison says in words: verdicts that need no statistics, and the tables behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from ragstone._util.table import text_table
from ragstone.experiments._compare.pairs import MetricComparison, PairDifference
from ragstone.experiments._outcomes import titles_of

__all__ = [
    "KINDS",
    "Kind",
    "claim_size",
    "describe_failed_samples",
    "format_difference",
    "format_verdicts",
    "full_name",
    "interval_text",
    "kind_of",
    "means_table",
    "orient_to_winner",
    "pairs_table",
    "probability",
    "size",
]

Kind = Literal["claimed", "within", "undecided", "alike", "apart"]
"""What can be said of a pair: one is better, a difference that matters is ruled out, nothing, not one sample differs, or
no sample has a score of both."""

_POINTS: Final = 100
KINDS: Final[tuple[Kind, ...]] = ("claimed", "within", "undecided", "alike", "apart")
"""In the order in which they are told: what can be claimed comes first."""
_LEAST_P: Final = 0.0001
_MOST_DIGITS: Final = 4


def format_difference(value: float, *, points: bool, sign: bool = False, digits: int = 1) -> str:
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


def format_p_value(p: float | None) -> str:
    """A p-value behind the letter p: "= 0.03", "< 0.0001" or "untestable"."""
    told = probability(p)
    return f"= {told}" if told[0].isdigit() else told


def kind_of(metric: MetricComparison, pair: PairDifference) -> Kind:
    """What can be said of a pair."""
    if pair.better is not None:
        return "claimed"
    if not pair.n:
        return "apart"
    if pair.n_equal == pair.n:
        return "alike"
    return "within" if _within(metric, pair) else "undecided"


def full_name(metric: MetricComparison) -> str:
    """A metric's name, with a warning where less of it is better."""
    return metric.metric if metric.higher_is_better else f"{metric.metric} (lower is better)"


def format_verdicts(metrics: Sequence[MetricComparison]) -> tuple[str, ...]:
    """What can be said of metrics, and then what cannot, one sentence each."""
    return tuple(sentence for kind in KINDS for metric in metrics for sentence in _format_pairs(metric, kind))


def _format_pairs(metric: MetricComparison, kind: Kind) -> list[str]:
    """What is to be said of this kind about the pairs of a metric."""
    name = full_name(metric)
    pairs = [pair for pair in metric.pairs if kind_of(metric, pair) == kind]
    if kind == "claimed":
        return _claims(metric, pairs)
    if kind == "undecided":
        return _undecided(metric, pairs)
    told = []
    for pair in pairs:
        both = f"{pair.system} and {pair.other}"
        doubt = describe_failed_samples(metric, pair)
        if kind == "within":
            told.append(f"{both} are within {_step(metric)} of each other on {name}: {size(metric, pair)}{doubt}")
        elif kind == "alike":
            told.append(f"{both} score alike on {name}, on {_all(pair.n)}{doubt}")
        else:
            told.append(f"{both} cannot be compared on {name}: no sample has a score of both")
    return told


def _claims(metric: MetricComparison, pairs: Sequence[PairDifference]) -> list[str]:
    told = []
    for winner in dict.fromkeys(pair.better for pair in pairs if pair.better is not None):
        won = [(pair.other, claim_size(metric, pair)) for pair in map(orient_to_winner, pairs) if pair.system == winner]
        (first, by), *others = won
        told.append(
            f"{winner} beats {', and '.join([f'{first} on {full_name(metric)} by {by}', *(f'{o} by {b}' for o, b in others)])}"
        )
    return told


def _undecided(metric: MetricComparison, pairs: Sequence[PairDifference]) -> list[str]:
    if not pairs:
        return []
    several = len(pairs) > 1
    which = ", ".join(f"{p.system} and {p.other}" + (f" ({size(metric, p)})" if several else "") for p in pairs)
    by = "" if several else f": {size(metric, pairs[0])}"
    return [
        f"no difference can be claimed on {full_name(metric)} between {which}{by}; {_estimate_samples_needed(metric, pairs)}"
    ]


def means_table(metrics: Sequence[MetricComparison]) -> str:
    """Means of all metrics and systems, each with interval and denominators."""
    rows = [("metric", "system", "mean [95% CI]", "n scored / failed / n.a.")]
    for metric in metrics:
        for s in metric.systems:
            e = s.estimate
            mean = "no score" if e is None else f"{e.value:.3f} [{_end(e.low)}, {_end(e.high)}]"
            rows.append((metric.metric, s.system, mean, f"{s.n_scored} / {s.n_failed} / {s.n_not_applicable}"))
    return text_table(rows, n_keys=2, titles=titles_of(metric.metric for metric in metrics))


def pairs_table(metrics: Sequence[MetricComparison], *, paired: bool = True) -> str:
    """All differences: intervals that hold together, p-values, sizes, and what would decide where nothing can be claimed.

    Args:
        metrics: What was found.
        paired: Whether systems have samples in common, whose differences can be counted.
    """
    rows = [
        (
            metric.metric,
            f"{p.system} - {p.other}",
            "no common score" if p.difference is None else size(metric, p, sign=True),
            probability(p.p_value),
            "" if p.effect_size is None else f"{p.effect_size:+.2f}",
            *([f"{p.n_higher} / {p.n_equal} / {p.n_lower}"] if paired else []),
            str(p.n),
            _more(metric, p),
        )
        for metric in metrics
        for p in metric.pairs
    ]
    counts = ["higher / equal / lower"] if paired else []
    head = ("metric", "difference", "of means", "p", "effect", *counts, "n", "more samples")
    return text_table([head, *rows], n_keys=2, titles=titles_of(metric.metric for metric in metrics))


def _end(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "no bound"


def _number(value: float, *, points: bool, sign: bool = False, digits: int = 1) -> str:
    if math.isinf(value):
        return "no bound"
    text = f"{_POINTS * value:.{digits}f}" if points else f"{value:.4g}"
    # One point is "1", and nothing is not less than nothing.
    if float(text) == int(float(text)):
        text = str(int(float(text)))
    return f"+{text}" if sign and value > 0 else text


def size(metric: MetricComparison, pair: PairDifference, *, sign: bool = False) -> str:
    """A difference with its interval."""
    ends = [end for end in (pair.difference, pair.low, pair.high) if end is not None]
    digits = _digits(ends)
    told = format_difference(pair.difference or 0.0, points=metric.in_points, sign=sign, digits=digits)
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


def orient_to_winner(pair: PairDifference) -> PairDifference:
    """The difference as the better system sees it: from its side, and above 0 also where less is better."""
    winner = pair.better or pair.system
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


def claim_size(metric: MetricComparison, pair: PairDifference) -> str:
    """By how much the winner is ahead (told from its side), and what could undo it."""
    return f"{size(metric, pair)}{_doubt(metric, pair)}"


def describe_failed_samples(metric: MetricComparison, pair: PairDifference) -> str:
    """What the samples that failed could do to a claim that systems are alike, or nearly so; empty where nothing."""
    match kind_of(metric, pair):
        case "within":
            edge = metric.min_effect or 0.0
            return _doubt(metric, pair, -edge, edge)
        case "alike":
            return _doubt(metric, pair, 0.0, 0.0, what="the difference")
        case _:
            return ""


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
    if metric.min_effect is None or pair.low is None or pair.high is None:
        return False
    return -metric.min_effect < pair.low <= pair.high < metric.min_effect


def _step(metric: MetricComparison) -> str:
    return format_difference(metric.min_effect or 0.0, points=metric.in_points)


def _estimate_samples_needed(metric: MetricComparison, undecided: Sequence[PairDifference]) -> str:
    """What would decide: how many more samples, for all undecided pairs."""
    few = [pair for pair in undecided if pair.detectable is None]
    if few:
        pair = few[0]
        return f"too few samples differ to claim anything ({pair.n - pair.n_equal} of {pair.n})"
    wanted = [pair.n_more for pair in undecided if pair.n_more is not None]
    if not wanted:
        reach = max(pair.detectable or 0.0 for pair in undecided)
        return f"these samples detect {format_difference(reach, points=metric.in_points)}"
    if not max(wanted):
        return f"the samples suffice to detect {_step(metric)}"
    return (
        f"about {_about(max(wanted)):,} more {'sample' if max(wanted) == 1 else 'samples'} would detect {_step(metric)}"
    )


def _more(metric: MetricComparison, pair: PairDifference) -> str:
    """How many more samples would detect what matters, where no difference can be claimed."""
    if kind_of(metric, pair) != "undecided":
        return ""
    if pair.detectable is None:
        return "too few differ"
    if pair.n_more is None:
        return ""
    return f"{_about(pair.n_more):,} to detect {_step(metric)}" if pair.n_more else "enough"


def _about(n: int) -> int:
    """Round up to two digits."""
    unit = int(10 ** max(0, len(str(n)) - 2))
    return -(-n // unit) * unit


def _all(n: int) -> str:
    return "the one sample they share" if n == 1 else f"all {n} samples"
