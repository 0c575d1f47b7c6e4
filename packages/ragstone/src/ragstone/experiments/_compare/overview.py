"""The verdict as it is printed: sentences for a few results, and groups where sentences would be a wall of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from ragstone.experiments._compare.pairs import MetricComparison, PairDifference
from ragstone.experiments._compare.text import (
    KINDS,
    Kind,
    claim_size,
    describe_failed_samples,
    format_verdicts,
    full_name,
    kind_of,
    orient_to_winner,
)

__all__ = ["overview"]

_MOST_SENTENCES: Final = 12
"""As many are read one by one."""
_MOST_CLAIMS: Final = 40
"""As many are printed with their sizes; the table has the others'."""
_MOST_NAMES: Final = 10
"""Metrics that are named for each of several pairs of systems; of more the number is told."""
_EXPECTED_FALSE_POSITIVES: Final = 0.5
"""Metrics expected to differ by luck, from which on it has to be said."""
_GROUPED: Final[dict[Kind, str]] = {
    "within": "a difference that matters is ruled out",
    "undecided": "no difference can be claimed",
    "alike": "not one sample differs",
    "apart": "nothing to compare, no sample has a score of both",
}

FormatPairs = tuple[MetricComparison, PairDifference]


def overview(metrics: Sequence[MetricComparison], *, confidence_level: float, across_metrics: bool) -> list[str]:
    """What can be claimed, then what cannot; grouped by systems where there is much of it.

    Args:
        metrics: What was found.
        confidence_level: One less the chance of a false claim.
        across_metrics: Whether that holds for all metrics together.
    """
    sentences = format_verdicts(metrics)
    tested = sum(any(pair.n for pair in metric.pairs) for metric in metrics)
    lucky = (
        []
        if across_metrics or tested * (1 - confidence_level) < _EXPECTED_FALSE_POSITIVES
        else [_count_expected_false_positives(tested, confidence_level)]
    )
    if len(sentences) <= _MOST_SENTENCES:
        return [*sentences, *lucky]
    told: dict[Kind, list[FormatPairs]] = {kind: [] for kind in KINDS}
    for metric in metrics:
        for pair in metric.pairs:
            told[kind_of(metric, pair)].append((metric, pair))
    lines = [*_claims(told["claimed"], len(metrics)), *lucky]
    for kind, what in _GROUPED.items():
        if told[kind]:
            lines += ["", f"{what}{_more(kind)}:", *_by_systems(told[kind])]
    return lines


def _claims(claimed: Sequence[FormatPairs], n_metrics: int) -> list[str]:
    if not claimed:
        return [f"no difference can be claimed on any of {n_metrics} metrics"]
    by_pair: dict[tuple[str, str], list[FormatPairs]] = {}
    for metric, pair in claimed:
        won = orient_to_winner(pair)
        by_pair.setdefault((won.system, won.other), []).append((metric, won))
    n_wins = Counter(pair.better for _, pair in claimed)
    lines = []
    for (winner, other), wins in sorted(by_pair.items(), key=lambda kv: (-n_wins[kv[0][0]], kv[0][0], -len(kv[1]))):
        head = f"{winner} beats {other} on {len(wins)} of {n_metrics} metrics"
        if len(claimed) > _MOST_CLAIMS:
            lines.append(f"{head}: {', '.join(metric.metric for metric, _ in wins)}")
            continue
        width = max(len(full_name(metric)) for metric, _ in wins)
        lines += [f"{head}:", *(f"  {full_name(m):<{width}}  by {claim_size(m, pair)}" for m, pair in wins)]
    return (
        lines
        if len(claimed) <= _MOST_CLAIMS
        else [*lines, "(by how much, and with which intervals, the table of differences tells)"]
    )


def _more(kind: Kind) -> str:
    return " (the table of differences tells how many more samples would detect one)" if kind == "undecided" else ""


def _by_systems(told: Sequence[FormatPairs]) -> Iterator[str]:
    """One line for all metrics of which the same is said of all systems, then one for pairs of systems."""
    n_told = Counter(_label(metric, pair) for metric, pair in told)
    n_pairs = {_label(metric, pair): len(metric.pairs) for metric, pair in told}
    everywhere = [name for name, n in n_told.items() if 1 < n == n_pairs[name]]
    if everywhere:
        yield f"  all pairs: {', '.join(everywhere)}"
    by_pair: dict[str, list[str]] = {}
    for metric, pair in told:
        if (label := _label(metric, pair)) not in everywhere:
            by_pair.setdefault(f"{pair.system} and {pair.other}", []).append(label)
    alike: dict[tuple[str, ...], list[str]] = {}
    for both, labels in by_pair.items():
        alike.setdefault(tuple(labels), []).append(both)
    for names, pairs in alike.items():
        short = len(names) > _MOST_NAMES and len(by_pair) > 1
        yield f"  {'; '.join(pairs)}: {f'{len(names)} metrics' if short else ', '.join(names)}"


def _label(metric: MetricComparison, pair: PairDifference) -> str:
    return f"{metric.metric}{describe_failed_samples(metric, pair)}"


def _count_expected_false_positives(tested: int, confidence_level: float) -> str:
    return (
        f"(each of {tested} metrics is tested by itself: if nothing differed, up to {tested * (1 - confidence_level):.1f} of them would be "
        "expected to show a difference by luck; --across-metrics, across_metrics=True, holds the level for all together)"
    )
