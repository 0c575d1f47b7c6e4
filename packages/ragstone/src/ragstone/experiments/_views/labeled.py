"""What labels of people say about a report: agreement with the metrics, and means that the labels correct."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from ragstone._util.quantities import count
from ragstone.experiments._table import ScoreTable
from ragstone.stats import Agreement, PredictionPoweredMean, drawn_kappa, drawn_prediction_powered_mean
from ragstone.store import DrawnRequest, StoredLabel
from ragstone.views import LabeledMetric, LabelsView, MetricRow, Statement, format_interval, format_mean, format_share

_CORRECT_FROM: Final = 0.5
"""Smallest label, from 0 to 1, of a correct answer."""
_FEWEST: Final = 5
"""Fewest labels for a mean that they correct."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HumanLabels:
    """The labels of a store."""

    labels: Sequence[StoredLabel] = ()
    drawn: Sequence[DrawnRequest] = ()

    def values(self) -> dict[str, float]:
        """Mean label by request."""
        given: dict[str, list[float]] = {}
        for label in self.labels:
            if label.value is not None:
                given.setdefault(label.trace_id, []).append(label.value)
        return {trace_id: math.fsum(values) / len(values) for trace_id, values in given.items()}


def build_labels(
    human: HumanLabels, wrong: Mapping[str, bool], table: ScoreTable, rows: Sequence[MetricRow], confidence_level: float
) -> LabelsView | None:
    """Compare labels with scores. Returns None without labels of samples. `wrong` has the judged answers by id."""
    numbers = {id_: row for row, id_ in enumerate(table.sample_ids)}
    values = {id_: value for id_, value in human.values().items() if id_ in numbers}
    if not values:
        return None
    frame = {each.trace_id: each.probability for each in human.drawn if each.trace_id in numbers}
    drawn = {each.trace_id for each in human.drawn if each.position is not None} & frame.keys()
    compared = _Compared(values, drawn, frame, table, confidence_level, numbers)
    metrics = []
    for row in rows:
        if not takes_labels(row.stage, row.low, row.high, lower_is_better=row.lower_is_better):
            continue
        scores = table.metrics[row.name]
        decided = {id_: value for id_, value in table.by_sample(row.name, decisions=True).items() if id_ in frame}
        result, at = compared.correct(values, decided), [numbers[id_] for id_ in decided]
        mean = table.estimate(
            [*decided.values()], at, low=scores.low, high=scores.high, confidence_level=confidence_level, system=0
        )
        if result is not None and mean is not None:
            metrics.append(
                LabeledMetric(
                    metric=row.name,
                    title=row.title,
                    compared=scores.card.decision_name if scores.card.decided_by else "",
                    mean=mean,
                    label_mean=result.estimate,
                    labels_worth=result.labels_worth,
                    n=result.n_labeled,
                )
            )
    return LabelsView(
        n_labeled=len(values),
        n_drawn=len(drawn),
        n_drawn_labeled=len(values.keys() & drawn),
        n_not_in_draw=len(numbers.keys() - frame.keys()) if drawn else 0,
        authors=tuple(sorted({label.author for label in human.labels if label.trace_id in numbers})),
        statements=(*compared.describe_agreement(wrong), *compared.describe_share(wrong)),
        metrics=tuple(metrics),
    )


def takes_labels(stage: str, low: float, high: float, *, lower_is_better: bool) -> bool:
    """Whether a metric rates answers on a scale with two ends, so that its scores can be compared with labels of answers."""
    return stage != "passages" and not lower_is_better and math.isfinite(low) and math.isfinite(high)


@dataclass(frozen=True, slots=True)
class _Compared:
    """Labels, and the table of the scores that they are compared with."""

    _values: Mapping[str, float]
    _drawn: AbstractSet[str]
    _frame: Mapping[str, float]
    """Probabilities of the requests that could be drawn."""
    _table: ScoreTable
    _confidence_level: float
    _rows: Mapping[str, int]

    def correct(self, values: Mapping[str, float], scores: Mapping[str, float]) -> PredictionPoweredMean | None:
        """Estimate the mean label of requests that could be drawn, by their scores. Return None with too few labels."""
        ids, rows = list(scores), [self._rows[id_] for id_ in scores]
        labels = [values[each] if each in self._drawn and each in values else None for each in ids]
        if sum(label is not None for label in labels) < _FEWEST:
            return None
        return drawn_prediction_powered_mean(
            labels,
            list(scores.values()),
            [self._frame[each] for each in ids],
            probabilities=None if self._table.probabilities is None else self._table.probabilities[rows].tolist(),
            clusters=self._table.clusters_of(rows),
            confidence_level=self._confidence_level,
        )

    def _name_frame(self, wrong: Mapping[str, bool]) -> str:
        n = sum(each in self._frame for each in wrong)
        if n == len(wrong):
            return "all answers"
        return f"the {count(n, 'answer')} that could be drawn ({len(wrong) - n:,} others could not)"

    def describe_agreement(self, wrong: Mapping[str, bool]) -> list[Statement]:
        """State how often metrics and people agree that an answer is wrong."""
        values = self._values
        both = [each for each in values if each in wrong]
        if not both:
            return []
        same = sum((values[each] < _CORRECT_FROM) == wrong[each] for each in both)
        numbers: dict[str, float] = {"n_same": same, "n": len(both)}
        text = f"Metrics and people agree on {same:,} of {count(len(both), 'labeled answer')}"
        ids = [each for each in both if each in self._drawn]
        found: Agreement | None = None
        if len(ids) >= _FEWEST:
            rows = [self._rows[each] for each in ids]
            shares: list[float] = self._table.inclusion[rows].tolist()
            found = drawn_kappa(
                [wrong[each] for each in ids],
                [values[each] < _CORRECT_FROM for each in ids],
                [self._frame[each] * share for each, share in zip(ids, shares, strict=True)],
                clusters=self._table.clusters_of(rows),
                confidence_level=self._confidence_level,
            )
        if found is not None and found.coefficient is not None and found.observed is not None:
            kappa = found.coefficient
            numbers |= {"kappa": kappa.value, "low": kappa.low, "high": kappa.high, "observed": found.observed}
            agreement = f"(kappa {format_mean(kappa)} {format_interval(kappa)})"
            text += f", which means on {100 * found.observed:.0f} % of {self._name_frame(wrong)} {agreement}"
        return [Statement(text=f"{text}.", kind="count", numbers=numbers)]

    def describe_share(self, wrong: Mapping[str, bool]) -> list[Statement]:
        """State the share of wrong answers according to people, with the help of the metrics."""
        result = self.correct(
            {each: float(value < _CORRECT_FROM) for each, value in self._values.items()},
            {each: float(is_wrong) for each, is_wrong in wrong.items() if each in self._frame},
        )
        if result is None:
            return []
        share = result.estimate
        text = (
            f"According to people, {format_share(share)} of {self._name_frame(wrong)} are wrong, estimated from "
            f"{count(share.n, 'label')}; "
            f"the metrics alone say {100 * result.judge_mean:.0f} %."
        )
        ends = {"share": share.value, "low": share.low, "high": share.high}
        numbers = ends | {"metrics": result.judge_mean, "n": share.n}
        return [Statement(text=text, kind="count", numbers=numbers)]
