"""What a report shows of a comparison: differences from a baseline, means of all systems, changed samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ragstone.experiments._cards import card_of
from ragstone.experiments._compare.changed import find_changed
from ragstone.experiments._compare.pairs import MetricComparison, PairDifference
from ragstone.experiments._compare.text import describe_doubt, size
from ragstone.experiments._table import ScoreTable
from ragstone.experiments._views.changes import Compared
from ragstone.experiments._views.source import Source
from ragstone.judges import BASELINE_NOTE
from ragstone.views import Difference, SystemEstimate

_STAGES = ("answer", "support", "passages")


def view_comparison(
    metrics: Sequence[MetricComparison],
    table: ScoreTable,
    *,
    system: str,
    baseline: str,
    primary: str | None,
    n_common: int | None,
    notes: Sequence[str],
    method: str,
    before: Source,
) -> Compared:
    """Return what a report of `system` shows of a comparison.

    Args:
        metrics: The compared metrics, with the pairs of all systems with the baseline.
        table: The compared scores.
        system: The reported system.
        baseline: The system that it is compared with.
        primary: The metric that decides, if one was named.
        n_common: Number of samples that all systems have. None if the comparison is not paired by sample.
        notes: Notes about the comparison.
        method: How differences were computed.
        before: Outcomes and samples of the baseline.
    """
    systems = (system, *(s for s in table.systems if s not in (system, baseline)), baseline)
    differences = tuple(
        _difference(metric, pair)
        for name in systems[:-1]
        for metric in metrics
        for pair in metric.pairs
        if {pair.system, pair.other} == {name, baseline}
        for pair in [pair if pair.system == name else _turned(pair)]
    )
    key = primary or _key_metric(metrics)
    means = {
        metric.metric: {
            mean.system: SystemEstimate(system=mean.system, estimate=mean.estimate) for mean in metric.systems
        }
        for metric in metrics
    }
    column = table.metrics[key]
    indices = [table.systems.index(name) for name in (baseline, system)]
    return Compared(
        system=system,
        baseline=baseline,
        systems=systems,
        paired=n_common is not None,
        differences=differences,
        means={metric: tuple(by[name] for name in systems) for metric, by in means.items()},
        metric=key,
        n_common=n_common or 0,
        values={
            id_: (_number(first), _number(second))
            for id_, first, second in zip(
                table.sample_ids, *(column.values[:, index].tolist() for index in indices), strict=True
            )
        }
        if n_common is not None
        else {},
        higher_is_better=column.higher_is_better,
        changed={} if n_common is None else _changed(table, key, system, baseline),
        notes=tuple(note for note in notes if note != BASELINE_NOTE),
        method=method,
        before=before,
    )


def _changed(table: ScoreTable, metric: str, system: str, baseline: str) -> dict[str, bool]:
    """Return whether a score is better, for samples whose score changed by at least half of the metric's range."""
    width = table.metrics[metric].high - table.metrics[metric].low
    found = find_changed(
        table, metric, system=system, baseline=baseline, min_change=width / 2 if math.isfinite(width) else 0.0
    )
    return {each.sample_id: each.is_better for each in found}


def _key_metric(metrics: Sequence[MetricComparison]) -> str:
    """Return the first metric that rates the answer against the reference, or the first one of the next stages.

    Metrics that some system does not have scores of come last.
    """

    def place(metric: MetricComparison) -> tuple[bool, int]:
        card = card_of(metric.metric)
        is_absent = any(mean.estimate is None for mean in metric.systems)
        return is_absent, len(_STAGES) if card is None else _STAGES.index(card.stage)

    return min(metrics, key=place).metric


def _difference(metric: MetricComparison, pair: PairDifference) -> Difference:
    card = card_of(metric.metric)
    return Difference(
        system=pair.system,
        metric=metric.metric,
        title=card.title if card is not None else metric.metric,
        lower_is_better=not metric.higher_is_better,
        width=metric.high - metric.low,
        difference=pair.difference,
        low=pair.low,
        high=pair.high,
        size="no common score" if pair.difference is None else size(metric, pair, sign=True),
        better=pair.better,
        n=pair.n,
        n_up=pair.n_higher,
        n_down=pair.n_lower,
        doubt=describe_doubt(metric, pair).strip(),
        is_exploratory=metric.exploratory,
    )


def _turned(pair: PairDifference) -> PairDifference:
    """Return the difference of the other system from this one."""
    return replace(
        pair,
        system=pair.other,
        other=pair.system,
        difference=None if pair.difference is None else -pair.difference,
        low=None if pair.high is None else -pair.high,
        high=None if pair.low is None else -pair.low,
        effect_size=None if pair.effect_size is None else -pair.effect_size,
        n_higher=pair.n_lower,
        n_lower=pair.n_higher,
        bounds=None if pair.bounds is None else (-pair.bounds[1], -pair.bounds[0]),
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
