"""The printed verdict: single sentences for few results, and grouped lines for many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
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

_MOST_SENTENCES: Final = 12
"""Maximum number of verdicts printed as single sentences."""
_MOST_CLAIMS: Final = 40
"""Maximum number of significant differences printed with their sizes. The table has all."""
_MOST_NAMES: Final = 10
"""Maximum number of metrics named for each of several pairs of systems. Otherwise only their number is printed."""
_GROUPED: Final[dict[Kind, str]] = {
    "within": "differences below the minimum effect",
    "undecided": "no significant difference",
    "identical": "no significant difference (identical scores on all samples)",
    "incomparable": "not comparable, no sample has a score of both",
}

Finding = tuple[MetricComparison, PairDifference]


def overview(metrics: Sequence[MetricComparison], *, confidence_level: float, across_metrics: bool) -> list[str]:
    """Format the verdicts: first significant differences, then the other pairs, grouped by systems if there are many."""
    others = [metric for metric in metrics if metric.exploratory]
    if others:
        primary = [metric for metric in metrics if not metric.exploratory]
        return [
            *overview(primary, confidence_level=confidence_level, across_metrics=True),
            "",
            f"exploratory, because {primary[0].metric} is the primary metric (not corrected for {len(others)} metrics):",
            *overview(
                [replace(m, exploratory=False) for m in others], confidence_level=confidence_level, across_metrics=True
            ),
        ]
    sentences = format_verdicts(metrics)
    tested = sum(any(pair.n for pair in metric.pairs) for metric in metrics)
    false_positives = [] if across_metrics or tested < 2 else [_describe_uncorrected(tested, confidence_level)]
    if len(sentences) <= _MOST_SENTENCES:
        return [*sentences, *false_positives]
    findings: dict[Kind, list[Finding]] = {kind: [] for kind in KINDS}
    for metric in metrics:
        for pair in metric.pairs:
            findings[kind_of(metric, pair)].append((metric, pair))
    lines = [*_claims(findings["claimed"], len(metrics)), *false_positives]
    for kind, heading in _GROUPED.items():
        if findings[kind]:
            lines += ["", f"{heading}{_more(kind)}:", *_by_systems(findings[kind])]
    return lines


def _claims(claimed: Sequence[Finding], n_metrics: int) -> list[str]:
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
        if len(claimed) > _MOST_CLAIMS:
            lines.append(f"{head}: {', '.join(metric.metric for metric, _ in wins)}")
            continue
        width = max(len(full_name(metric)) for metric, _ in wins)
        lines += [f"{head}:", *(f"  {full_name(m):<{width}}  by {claim_size(m, pair)}" for m, pair in wins)]
    return lines if len(claimed) <= _MOST_CLAIMS else [*lines, "(sizes and intervals: see the table of differences)"]


def _more(kind: Kind) -> str:
    return " (number of samples needed: see the table of differences)" if kind == "undecided" else ""


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
        f"(not corrected for {tested} metrics: without any real difference, each of them shows a significant difference with a "
        f"probability of up to {1 - confidence_level:.0%})"
    )
