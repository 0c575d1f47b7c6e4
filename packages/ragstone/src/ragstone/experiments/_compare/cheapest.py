"""The cheapest and the fastest system that is shown to be not worse than the best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ragstone.experiments._compare.pairs import MetricComparison, permute_pairs
from ragstone.experiments._compare.regression import check_margin, least_gain
from ragstone.experiments._compare.text import format_difference, format_p_value
from ragstone.experiments._spent import SPENT, SpentName
from ragstone.experiments._table import ScoreTable
from ragstone.settings import Analysis
from ragstone.views import SpentRow, describe_spent

Margin = float | Mapping[str, float] | None
_KINDS: Final[tuple[tuple[str, tuple[SpentName, ...]], ...]] = (
    ("cheapest", ("cost_usd", "tokens")),
    ("fastest", ("latency_s",)),
)


def describe_cheapest(
    metrics: Sequence[MetricComparison],
    table: ScoreTable,
    spent: Mapping[str, tuple[SpentRow, ...]],
    analysis: Analysis,
    margin: Margin,
) -> Iterator[str]:
    """Yield a sentence about the cheapest and one about the fastest system that is not worse.

    See `Comparison.cheapest`. Raise ConfigurationError if a margin is invalid.
    """
    deciding = [metric for metric in metrics if not metric.exploratory and any(s.estimate for s in metric.systems)]
    margins = {m.metric: margin.get(m.metric) if isinstance(margin, Mapping) else margin for m in deciding}
    for name, value in margins.items():
        check_margin(table.metrics[name], value)
    known = {system: {row.name: row for row in rows if row.estimate} for system, rows in spent.items()}
    # The best system is chosen by the same scores, so each bound is corrected for all pairs (Bonferroni).
    n_bounds = len(table.systems) * (len(table.systems) - 1)
    level = 1 - (1 - analysis.confidence_level) / n_bounds
    shown = [
        system
        for system in table.systems
        if all(_is_not_worse(table, system, metric, margins[metric.metric], level) for metric in deciding)
    ]
    losses = (f"{format_difference(margins[m.metric] or 0.0, points=m.in_points)} on {m.metric}" for m in deciding)
    proof = (
        f"a loss of {' or '.join(losses)} against the best system is excluded (non-inferiority test, one-sided "
        f"{100 * analysis.confidence_level:.4g}% bounds corrected for all pairs)"
    )
    for kind, fields in _KINDS:
        # Tokens decide if no cost is known.
        field = next((name for name in fields if any(name in rows for rows in known.values())), None)
        if field is None:
            continue
        head = f"{kind} that is not worse"
        rows = sorted((row.estimate.value, s) for s in shown if (row := known[s].get(field)) and row.estimate)
        if without := [name for name, value in margins.items() if value is None]:
            yield (
                f"{head}: not stated, because no margin is named for {', '.join(without)}. Name the largest loss "
                "that does not matter, in the metric's own units: margin=0.02 (--margin, which is also a gate), or "
                "min_effect=0.02 (--set analysis.min_effect=0.02)"
            )
        elif not rows:
            unknown = f"unknown for {', '.join(shown)}" if shown else f"none is shown. For no system, {proof}"
            yield f"{head}: {unknown}"
        else:
            (_, first), *others = rows
            tests = "".join(f"; {_test(table, first, other, SPENT.index(field), analysis)}" for _, other in others)
            unknown = ", ".join(system for system in shown if field not in known[system])
            rest = f"; not considered, because it is unknown: {unknown}" if unknown else ""
            yield f"{head}: {first}, {describe_spent(known[first][field])}: {proof}{tests}{rest}"


def _is_not_worse(
    table: ScoreTable, system: str, metric: MetricComparison, margin: float | None, confidence_level: float
) -> bool:
    """Return whether a loss of the margin or more against the best system is excluded."""
    sign = 1 if metric.higher_is_better else -1
    means = {s.system: sign * s.estimate.value for s in metric.systems if s.estimate is not None}
    best = max(means, key=means.__getitem__)
    if system == best or margin is None:
        return system == best
    pair = table.systems.index(system), table.systems.index(best)
    low = least_gain(table.metrics[metric.metric], table, pair, confidence_level)
    return low is not None and low > -margin


def _test(table: ScoreTable, system: str, other: str, field: int, analysis: Analysis) -> str:
    """Test whether a system needs less than another on more of the common samples than the other way round."""
    import numpy as np

    first, second = (table.spent[:, table.systems.index(name), field] for name in (system, other))
    signs = np.sign(first - second)
    (result,) = permute_pairs([np.stack([signs, 0 * signs], axis=1)], table, [(0, 1)], analysis)
    (test,) = result.pairs
    is_less = test.difference is not None and test.difference < 0
    is_shown = is_less and test.p_value is not None and test.p_value <= 1 - analysis.confidence_level
    return (
        f"it {'needs less' if is_shown else 'is not shown to need less'} than {other} (on {int((signs < 0).sum()):,} "
        f"of {test.n:,} samples, sign test, p {format_p_value(test.p_value)})"
    )
