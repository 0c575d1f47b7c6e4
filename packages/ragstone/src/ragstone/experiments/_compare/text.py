"""Text of a comparison: verdicts as sentences, and tables."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal

from ragstone._util.table import text_table
from ragstone.experiments._cards import titles_of
from ragstone.experiments._compare.pairs import MetricComparison, PairDifference
from ragstone.experiments._summary import ci_heading, mean_cells

Kind = Literal["claimed", "within", "undecided", "identical", "incomparable"]
"""Finding for a pair: a significant difference, a difference below the minimum effect, undecided, identical scores, or
no sample with a score of both."""

_POINTS: Final = 100
KINDS: Final[tuple[Kind, ...]] = ("claimed", "within", "undecided", "identical", "incomparable")
"""Kinds in the order in which they are printed."""
_LEAST_P: Final = 0.0001
_MOST_DIGITS: Final = 4
_MOST_SENTENCES: Final = 12
"""Maximum number of verdicts printed as single sentences."""
_MOST_LINES: Final = 20
"""Maximum number of lines of the verdict. The table has all differences."""
_MOST_NAMES: Final = 10
"""Maximum number of metrics named for each of several pairs of systems. Otherwise only their number is printed."""
_GROUPED: Final[dict[Kind, str]] = {
    "within": "differences below the minimum effect",
    "undecided": "no significant difference (number of samples needed: see the table of differences)",
    "identical": "no significant difference (identical scores on all samples)",
    "incomparable": "not comparable, no sample has a score of both",
}

Finding = tuple[MetricComparison, PairDifference]


def format_difference(value: float, *, points: bool, sign: bool = False, digits: int | None = None) -> str:
    """Format a difference: "2.6 points", or in the metric's own units if its range is not 0 to 1.

    `points` says whether the range is 0 to 1, of which a point is a hundredth, and `sign` whether to show a plus sign.
    Default of `digits`: one decimal of points, or four significant digits, without zeros at the end.
    """
    number = _number(value, points=points, sign=sign, digits=digits)
    if not points:
        return number
    return f"{number} {'point' if number.lstrip('+-') == '1' else 'points'}"


def interval_text(low: float, high: float, *, points: bool, digits: int | None = None) -> str:
    """Format an interval without its unit."""
    return f"[{_number(low, points=points, digits=digits)}, {_number(high, points=points, digits=digits)}]"


def probability(p: float | None) -> str:
    """Format a p-value with two significant digits."""
    if p is None:
        return "untestable"
    return f"< {_LEAST_P:.4f}" if p < _LEAST_P else f"{p:.2g}"


def format_p_value(p: float | None) -> str:
    """Format a p-value after the letter p: "= 0.03", "< 0.0001" or "untestable"."""
    text = probability(p)
    return f"= {text}" if text[0].isdigit() else text


def kind_of(metric: MetricComparison, pair: PairDifference) -> Kind:
    """Return the kind of finding for a pair."""
    if pair.better is not None:
        return "claimed"
    if not pair.n:
        return "incomparable"
    if pair.n_equal == pair.n:
        return "identical"
    return "within" if _within(metric, pair) else "undecided"


def full_name(metric: MetricComparison) -> str:
    """Return a metric's name, with a note if lower is better."""
    return metric.metric if metric.higher_is_better else f"{metric.metric} (lower is better)"


def _titled_name(metric: MetricComparison) -> str:
    """Return a metric's display name and id, with a note if lower is better."""
    title = titles_of([metric.metric]).get(metric.metric)
    if title is None:
        return full_name(metric)
    return f"{title} ({metric.metric}{'' if metric.higher_is_better else ', lower is better'})"


def format_verdicts(metrics: Sequence[MetricComparison]) -> tuple[str, ...]:
    """Format all findings as sentences, significant differences first."""
    return tuple(
        f"exploratory: {sentence}" if metric.exploratory else sentence
        for exploratory in (False, True)
        for kind in KINDS
        for metric in metrics
        if metric.exploratory == exploratory
        for sentence in _format_pairs(metric, kind)
    )


def _format_pairs(metric: MetricComparison, kind: Kind) -> list[str]:
    """Format the findings of one kind for the pairs of a metric."""
    name = full_name(metric)
    pairs = [pair for pair in metric.pairs if kind_of(metric, pair) == kind]
    if kind == "claimed":
        return _claims(metric, pairs)
    sentences = []
    if kind == "undecided" and pairs:
        between = ", ".join(f"{pair.system} and {pair.other} ({size(metric, pair, sign=True)})" for pair in pairs)
        needed = _estimate_samples_needed(metric, pairs)
        return [f"{_titled_name(metric)}: no significant difference between {between}. {needed}."]
    for pair in pairs:
        both = f"{pair.system} and {pair.other}"
        doubt = describe_failed_samples(metric, pair)
        if kind == "within":
            sentences.append(f"{both} are within {_step(metric)} of each other on {name}: {size(metric, pair)}{doubt}")
        elif kind == "identical":
            shared = "the one sample they share" if pair.n == 1 else f"all {pair.n} samples"
            sentences.append(
                f"{_titled_name(metric)}: no significant difference between {both} (identical scores on {shared}){doubt}"
            )
        else:
            sentences.append(f"{both} cannot be compared on {name}: no sample has a score of both")
    return sentences


def _claims(metric: MetricComparison, pairs: Sequence[PairDifference]) -> list[str]:
    sentences = []
    for winner in dict.fromkeys(pair.better for pair in pairs if pair.better is not None):
        won = [(pair.other, claim_size(metric, pair)) for pair in map(orient_to_winner, pairs) if pair.system == winner]
        (first, by), *others = won
        sentences.append(
            f"{winner} beats {', and '.join([f'{first} on {full_name(metric)} by {by}', *(f'{o} by {b}' for o, b in others)])}"
        )
    return sentences


def means_table(metrics: Sequence[MetricComparison]) -> str:
    """Format the means of all metrics and systems as a table, with intervals and counts."""
    estimates = (s.estimate for metric in metrics for s in metric.systems)
    rows = [("metric", "system", ci_heading(estimates), "n scored / failed / n.a.")]
    rows += [(metric.metric, s.system, *mean_cells(s)) for metric in metrics for s in metric.systems]
    return text_table(rows, n_keys=2, titles=titles_of(metric.metric for metric in metrics))


def pairs_table(metrics: Sequence[MetricComparison], *, paired: bool = True) -> str:
    """Format all differences as a table: simultaneous intervals, p-values, effect sizes and needed samples.

    If the comparison is `paired`, higher, equal and lower samples are counted.
    """
    rows = [
        (
            metric.metric,
            f"{p.system} - {p.other}",
            "no common score" if p.difference is None else size(metric, p, sign=True),
            probability(p.p_value),
            _effect(p),
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


def _effect(pair: PairDifference) -> str:
    ends = "" if pair.effect_interval is None else " [{:.2f}, {:.2f}]".format(*pair.effect_interval)
    return "" if pair.effect_size is None else f"{pair.effect_size:+.2f}{ends}"


def _number(value: float, *, points: bool, sign: bool = False, digits: int | None = None) -> str:
    if math.isinf(value):
        return "no bound"
    if digits is None:
        text = f"{_POINTS * value:.1f}" if points else f"{value:.4g}"
        # Whole numbers lose their decimals.
        if float(text) == int(float(text)):
            text = str(int(float(text)))
    else:
        text = f"{_POINTS * value if points else value:.{digits}f}"
    text = text.removeprefix("-") if not float(text) else text
    return f"+{text}" if sign and value > 0 else text


def size(metric: MetricComparison, pair: PairDifference, *, sign: bool = False) -> str:
    """Format a difference with its interval."""
    digits = _digits(pair, points=metric.in_points)
    text = format_difference(pair.difference or 0.0, points=metric.in_points, sign=sign, digits=digits)
    if pair.low is None or pair.high is None:
        return text
    return f"{text} {interval_text(pair.low, pair.high, points=metric.in_points, digits=digits)}"


def _digits(pair: PairDifference, *, points: bool) -> int:
    """Return the number of decimals of a difference and its interval: the same for all, and none if all are whole.

    No nonzero value is printed as 0, so that intervals visibly exclude 0. In a metric's own units, the width of the
    interval has two significant digits.
    """
    ends = [pair.difference or 0.0, *(end for end in (pair.low, pair.high) if end is not None and math.isfinite(end))]
    values = [_POINTS * end if points else end for end in ends]
    digits, most = 1, _MOST_DIGITS
    if not points:
        width = max(values) - min(values)
        size = width or abs(values[0])
        digits = max(0, 1 - math.floor(math.log10(size))) if size else 1
        most = max(digits + 2, _MOST_DIGITS)
    nonzero = [value for value in values if float(f"{value:.{most}f}")]
    while any(not float(f"{value:.{digits}f}") for value in nonzero):
        digits += 1
    return digits if any(float(f"{value:.{digits}f}") % 1 for value in values) else 0


def orient_to_winner(pair: PairDifference) -> PairDifference:
    """Return the pair with the better system first and a positive difference, also if lower is better."""
    won = pair.turned() if pair.better == pair.other else pair
    return won.negated() if (won.difference or 0.0) < 0 else won


def claim_size(metric: MetricComparison, pair: PairDifference) -> str:
    """Format the size of the winner's advantage, and whether failed samples could reverse it."""
    return f"{size(metric, pair)}{_doubt(metric, pair)}"


def describe_failed_samples(metric: MetricComparison, pair: PairDifference) -> str:
    """Describe if failed samples could reverse "within" or "no significant difference". Empty if not."""
    if (kind := kind_of(metric, pair)) == "within":
        edge = metric.min_effect or 0.0
        return _doubt(metric, pair, -edge, edge)
    return _doubt(metric, pair, 0.0, 0.0, what="the difference") if kind == "identical" else ""


def describe_doubt(metric: MetricComparison, pair: PairDifference) -> str:
    """Describe if failed samples could reverse the finding for a pair. Empty if not."""
    if kind_of(metric, pair) == "claimed":
        return _doubt(metric, orient_to_winner(pair))
    return describe_failed_samples(metric, pair)


def _doubt(
    metric: MetricComparison, pair: PairDifference, low: float = 0.0, high: float = math.inf, *, what: str = "it"
) -> str:
    """Describe if failed samples could move the difference out of (low, high), seen from the winner. Empty if not."""
    if not pair.n_failed or pair.bounds is None or low < pair.bounds[0] <= pair.bounds[1] < high:
        return ""
    failed = f"{pair.n_failed} {'sample' if pair.n_failed == 1 else 'samples'} failed"
    return (
        f" (but {failed}: depending on {'its score' if pair.n_failed == 1 else 'their scores'}, {what} lies in "
        f"{interval_text(*pair.bounds, points=metric.in_points)})"
    )


def _within(metric: MetricComparison, pair: PairDifference) -> bool:
    """Return whether the interval excludes differences of the minimum effect or more."""
    if metric.min_effect is None or pair.low is None or pair.high is None:
        return False
    return -metric.min_effect < pair.low <= pair.high < metric.min_effect


def _step(metric: MetricComparison) -> str:
    return format_difference(metric.min_effect or 0.0, points=metric.in_points)


def _estimate_samples_needed(metric: MetricComparison, undecided: Sequence[PairDifference]) -> str:
    """Describe how many more samples would detect the minimum effect for all undecided pairs."""
    if pair := next((pair for pair in undecided if pair.detectable is None), None):
        return f"Too few samples differ for a test ({pair.n - pair.n_equal} of {pair.n})"
    needed = [pair.n_more for pair in undecided if pair.n_more is not None]
    if not needed:
        detectable = max(pair.detectable or 0.0 for pair in undecided)
        return f"These samples detect a difference of {format_difference(detectable, points=metric.in_points)}"
    if not max(needed):
        return f"These samples detect a difference of {_step(metric)}"
    samples = "sample" if max(needed) == 1 else "samples"
    return f"About {_about(max(needed)):,} more {samples} would detect a difference of {_step(metric)}"


def _more(metric: MetricComparison, pair: PairDifference) -> str:
    """Format the number of additional samples that would detect the minimum effect, for undecided pairs."""
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


def overview(metrics: Sequence[MetricComparison], *, confidence_level: float, across_metrics: bool) -> list[str]:
    """Format the verdicts in at most 20 lines: first significant differences, then the other pairs.

    Many are grouped by systems, and very many have no sizes.
    """
    for has_sizes in (True, False):
        lines = _verdict_lines(metrics, confidence_level, across_metrics=across_metrics, has_sizes=has_sizes)
        if len(lines) <= _MOST_LINES:
            return lines
    return [*lines[: _MOST_LINES - 1], f"(and {len(lines) - _MOST_LINES + 1} more lines: see the table of differences)"]


def _verdict_lines(
    metrics: Sequence[MetricComparison], confidence_level: float, *, across_metrics: bool, has_sizes: bool
) -> list[str]:
    others = [metric for metric in metrics if metric.exploratory]
    if others:
        primary = [metric for metric in metrics if not metric.exploratory]
        first, rest = (
            _verdict_lines(part, confidence_level, across_metrics=True, has_sizes=has_sizes)
            for part in (primary, [replace(metric, exploratory=False) for metric in others])
        )
        why = f"because {_why_exploratory(primary, others)} (not corrected for {len(others)} metrics)"
        return [*first, "", f"exploratory, {why}:", *rest]
    sentences = format_verdicts(metrics)
    tested = sum(any(pair.n for pair in metric.pairs) for metric in metrics)
    false_positives = [] if across_metrics or tested < 2 else [_describe_uncorrected(tested, confidence_level)]
    if len(sentences) <= _MOST_SENTENCES:
        return [*sentences, *false_positives]
    findings: dict[Kind, list[Finding]] = {kind: [] for kind in KINDS}
    for metric in metrics:
        for pair in metric.pairs:
            findings[kind_of(metric, pair)].append((metric, pair))
    lines = [*_claim_lines(findings["claimed"], len(metrics), has_sizes=has_sizes), *false_positives]
    for kind, heading in _GROUPED.items():
        if findings[kind]:
            lines += ["", f"{heading}:", *_by_systems(findings[kind])]
    return lines


def _why_exploratory(primary: Sequence[MetricComparison], others: Sequence[MetricComparison]) -> str:
    if not others[0].follows_from:
        return f"{primary[0].metric} is the primary metric"
    return "; ".join(f"{other.metric} follows from {' and '.join(other.follows_from)}" for other in others)


def _claim_lines(claimed: Sequence[Finding], n_metrics: int, *, has_sizes: bool) -> list[str]:
    if not claimed:
        return [f"no significant difference on any of {n_metrics} metrics"]
    by_pair: dict[tuple[str, str], list[Finding]] = {}
    for metric, pair in claimed:
        won = orient_to_winner(pair)
        by_pair.setdefault((won.system, won.other), []).append((metric, won))
    n_wins = Counter(pair.better for _, pair in claimed)
    lines = []
    for (winner, other), wins in sorted(by_pair.items(), key=lambda kv: (-n_wins[kv[0][0]], kv[0][0], -len(kv[1]))):
        head = f"{winner} beats {other} on {len(wins)} of {n_metrics} metrics"
        if not has_sizes:
            doubt = " (failed samples could reverse it)"
            names = (f"{metric.metric}{doubt if _doubt(metric, pair) else ''}" for metric, pair in wins)
            lines.append(f"{head}: {', '.join(names)}")
            continue
        width = max(len(full_name(metric)) for metric, _ in wins)
        lines += [f"{head}:", *(f"  {full_name(m):<{width}}  by {claim_size(m, pair)}" for m, pair in wins)]
    return lines if has_sizes else [*lines, "(sizes and intervals: see the table of differences)"]


def _by_systems(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield one line for the metrics on which all pairs have this finding, then lines for pairs of systems."""
    n_findings = Counter(_label(metric, pair) for metric, pair in findings)
    n_pairs = {_label(metric, pair): len(metric.pairs) for metric, pair in findings}
    everywhere = [name for name, n in n_findings.items() if 1 < n == n_pairs[name]]
    if everywhere:
        yield f"  all pairs: {', '.join(everywhere)}"
    by_pair: dict[str, list[str]] = {}
    for metric, pair in findings:
        if (label := _label(metric, pair)) not in everywhere:
            by_pair.setdefault(f"{pair.system} and {pair.other}", []).append(label)
    by_metrics: dict[tuple[str, ...], list[str]] = {}
    for both, labels in by_pair.items():
        by_metrics.setdefault(tuple(labels), []).append(both)
    for names, pairs in by_metrics.items():
        short = len(names) > _MOST_NAMES and len(by_pair) > 1
        yield f"  {'; '.join(pairs)}: {f'{len(names)} metrics' if short else ', '.join(names)}"


def _label(metric: MetricComparison, pair: PairDifference) -> str:
    return f"{metric.metric}{describe_failed_samples(metric, pair)}"


def _describe_uncorrected(tested: int, confidence_level: float) -> str:
    return (
        f"(not corrected for {tested} metrics: without any real difference, each of them shows a significant "
        f"difference with a probability of up to {1 - confidence_level:.0%})"
    )
