"""The view of a comparison: what its page and its tables show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from importlib.metadata import version
from typing import Any, Final

from ragstone.experiments._compare.differences import describe_difference
from ragstone.experiments._compare.pairs import MetricComparison
from ragstone.experiments._outcomes import open_source
from ragstone.experiments._table import ScoreTable
from ragstone.experiments._views.reading import Reading, axis_of
from ragstone.schema import Sample
from ragstone.views import ChangesView, ComparedMetric, ComparisonView, SystemScores

_PERCENTILES: Final = (5, 25, 50, 75, 95)
_FEWEST: Final = 5
"""Fewest scores with percentiles."""
MAX_CHANGES: Final = 5
"""Most systems whose gained and lost questions are shown."""


def view_systems(
    comparison: Any,
    data: Mapping[str, Iterable[Sample]],
    *,
    verdict: tuple[str, ...],
    gate: tuple[tuple[str, ...], ...],
    n_changes: int,
) -> ComparisonView:
    """Build the view of a `Comparison`. `data` are the evaluated samples of files of outcomes, by system."""
    baseline = comparison.baseline or comparison.systems[0]
    analysis = comparison.analysis
    readings = {}
    for name, source in comparison.sources.items():
        opened = open_source(source, name=name, samples=data.get(name, ()), analysis=analysis, compares=True)
        readings[name] = Reading(opened)
        readings[name].row_ids = {own: row for (system, row), own in comparison.other_ids.items() if system == name}
        readings[name].read()
    changes: list[ChangesView] = []
    ids: dict[str, list[str]] = {name: [] for name in readings}
    for name in [name for name in comparison.systems if name != baseline][:n_changes]:
        compared = comparison.compared(name, baseline, readings[baseline].source)
        changes.append(readings[name].changes(compared, readings[baseline]))
        ids[name] = [row.id for row in (*changes[-1].lost, *changes[-1].gained)]
        ids[baseline] += ids[name]
    answers = {name: {one.id: one for one in readings[name].answers(ids[name])} for name in readings if ids[name]}
    return ComparisonView(
        systems=comparison.systems,
        n_samples=comparison.n_samples,
        n_common=comparison.n_common if comparison.paired else 0,
        verdict=verdict,
        gate=gate,
        metrics=tuple(_metric(metric, comparison.scores) for metric in comparison.metrics),
        differences=tuple(
            sorted(
                (describe_difference(metric, pair) for metric in comparison.metrics for pair in metric.pairs),
                key=lambda each: (comparison.systems.index(each.system), comparison.systems.index(each.other)),
            )
        ),
        changes=tuple(changes),
        answers=answers,
        causes={name: reading.report({}, 0).causes for name, reading in readings.items()},
        usage={name: reading.usage for name, reading in readings.items()},
        spent=comparison.spent,
        cheapest=comparison.cheapest,
        method=comparison.method,
        notes=comparison.notes,
        version=version("ragstone"),
    )


def _metric(metric: MetricComparison, table: ScoreTable) -> ComparedMetric:
    import numpy as np

    scores = table.metrics[metric.metric]
    wins = [
        (pair.better, pair.other if pair.better == pair.system else pair.system) for pair in metric.pairs if pair.better
    ]
    systems = []
    for column, mean in enumerate(metric.systems):
        values = scores.values[scores.scored(column), column]
        systems.append(
            SystemScores(
                **{field.name: getattr(mean, field.name) for field in fields(mean)},
                quantiles=tuple(np.percentile(values, _PERCENTILES).tolist())
                if values.size >= _FEWEST and table.probabilities is None
                else (),
                beats=tuple(table.systems.index(loser) for winner, loser in wins if winner == mean.system),
                loses=tuple(table.systems.index(winner) for winner, loser in wins if loser == mean.system),
            )
        )
    return ComparedMetric(
        name=metric.metric,
        title=scores.card.title,
        lower_is_better=not metric.higher_is_better,
        is_exploratory=metric.exploratory,
        axis=axis_of(scores.card, scores.values[~np.isnan(scores.values)]),
        systems=tuple(systems),
    )
