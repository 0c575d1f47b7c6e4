"""What labels of people say about a report: agreement with the metrics, and means that the labels correct."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ragstone._util.plural import count
from ragstone.experiments._levels import CONFIDENCE_LEVEL
from ragstone.stats import Agreement, PredictionPoweredMean, drawn_kappa, drawn_prediction_powered_mean
from ragstone.store import DrawnRequest, StoredLabel
from ragstone.views import LabeledMetric, LabelsView, MetricRow, Statement, format_interval, format_mean, format_share

WRONG_BELOW: Final = 0.5
"""Labels below this mean a wrong answer, as for the judged correctness."""
_FEWEST: Final = 5
"""Fewest labels for a mean that they correct."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanLabels:
    """The labels of a store."""

    labels: Sequence[StoredLabel] = ()
    drawn: Sequence[DrawnRequest] = ()

    @property
    def values(self) -> dict[str, float]:
        """Mean label by request."""
        given: dict[str, list[float]] = {}
        for label in self.labels:
            if label.value is not None:
                given.setdefault(label.trace_id, []).append(label.value)
        return {trace_id: math.fsum(values) / len(values) for trace_id, values in given.items()}

    @property
    def probabilities(self) -> dict[str, float]:
        """Probabilities of the requests that were drawn."""
        return {each.trace_id: each.probability for each in self.drawn if each.position is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Labeled:
    """The scores of a report, as far as labels are compared with them."""

    wrong: Mapping[str, bool]
    """Whether an answer is wrong according to the metrics, by the ids of the judged answers."""
    scores: Mapping[str, Mapping[str, float]]
    """Scores by metric and request."""
    probabilities: Mapping[str, float] = field(default_factory=dict)
    """Sampling probabilities below 1, by request."""
    clusters: Callable[[Sequence[str]], Sequence[str | None]] | None = None
    """Returns the clusters of requests."""
    confidence_level: float = CONFIDENCE_LEVEL
    """Confidence level of intervals."""


def build_labels(human: HumanLabels, of: Labeled, rows: Sequence[MetricRow]) -> LabelsView | None:
    """Compare labels with scores. Returns None without labels."""
    values, drawn = human.values, human.probabilities
    if not values:
        return None
    metrics = []
    for row in rows:
        scores = of.scores.get(row.name, {})
        if not takes_labels(row.stage, row.low, row.high, lower_is_better=row.lower_is_better):
            continue
        result = _corrected(values, scores, drawn, of)
        if result is not None and row.estimate is not None:
            metrics.append(
                LabeledMetric(
                    metric=row.name,
                    title=row.title,
                    mean=row.estimate,
                    label_mean=result.estimate,
                    labels_worth=result.labels_worth,
                    n=result.n_labeled,
                )
            )
    statements = [*_agreement(values, drawn, of), *_share(values, drawn, of)]
    return LabelsView(
        n_labeled=len(values),
        n_drawn=len(drawn),
        n_drawn_labeled=len(values.keys() & drawn.keys()),
        authors=tuple(sorted({label.author for label in human.labels})),
        statements=tuple(statements),
        metrics=tuple(metrics),
    )


def takes_labels(stage: str, low: float, high: float, *, lower_is_better: bool) -> bool:
    """Whether a metric rates answers on a scale with two ends, so that its scores can be compared with labels of answers."""
    return stage != "passages" and not lower_is_better and math.isfinite(low) and math.isfinite(high)


def _corrected(
    values: Mapping[str, float], scores: Mapping[str, float], drawn: Mapping[str, float], of: Labeled
) -> PredictionPoweredMean | None:
    """Estimate the mean label of all requests with a score, or return None with too few labels of drawn requests."""
    ids = list(scores)
    labels = [values[each] if each in drawn and each in values else None for each in ids]
    if sum(label is not None for label in labels) < _FEWEST:
        return None
    return drawn_prediction_powered_mean(
        labels,
        [scores[each] for each in ids],
        [drawn.get(each, 1.0) for each in ids],
        probabilities=[of.probabilities.get(each, 1.0) for each in ids] if of.probabilities else None,
        clusters=None if of.clusters is None else of.clusters(ids),
        confidence_level=of.confidence_level,
    )


def _agreement(values: Mapping[str, float], drawn: Mapping[str, float], of: Labeled) -> list[Statement]:
    """State how often metrics and people agree that an answer is wrong."""
    both = [each for each in values if each in of.wrong]
    if not both:
        return []
    same = sum((values[each] < WRONG_BELOW) == of.wrong[each] for each in both)
    numbers: dict[str, float] = {"n_same": same, "n": len(both)}
    text = f"Metrics and people agree on {same:,} of {count(len(both), 'labeled answer')}"
    ids = [each for each in both if each in drawn]
    found: Agreement | None = None
    if len(ids) >= _FEWEST:
        found = drawn_kappa(
            [of.wrong[each] for each in ids],
            [values[each] < WRONG_BELOW for each in ids],
            [drawn[each] * of.probabilities.get(each, 1.0) for each in ids],
            clusters=None if of.clusters is None else of.clusters(ids),
            confidence_level=of.confidence_level,
        )
    if found is not None and found.coefficient is not None and found.observed is not None:
        kappa = found.coefficient
        numbers |= {"kappa": kappa.value, "low": kappa.low, "high": kappa.high, "observed": found.observed}
        text += f", which means on {100 * found.observed:.0f} % of all answers (kappa {format_mean(kappa)} {format_interval(kappa)})"
    return [Statement(text=f"{text}.", kind="count", numbers=numbers)]


def _share(values: Mapping[str, float], drawn: Mapping[str, float], of: Labeled) -> list[Statement]:
    """State the share of wrong answers according to people, with the help of the metrics."""
    result = _corrected(
        {each: float(value < WRONG_BELOW) for each, value in values.items()},
        {each: float(is_wrong) for each, is_wrong in of.wrong.items()},
        drawn,
        of,
    )
    if result is None:
        return []
    share = result.estimate
    text = (
        f"According to people, {format_share(share)} of all answers are wrong, estimated from {count(share.n, 'label')}; "
        f"the metrics alone say {100 * result.judge_mean:.0f} %."
    )
    numbers = {"share": share.value, "low": share.low, "high": share.high, "metrics": result.judge_mean, "n": share.n}
    return [Statement(text=text, kind="count", numbers=numbers)]
