"""`assert_score`: scores of single cases in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragstone._util.table import text_table
from ragstone.errors import ConfigurationError
from ragstone.experiments._cards import titles_of
from ragstone.experiments._evaluate import evaluate
from ragstone.judges import Judge, Reader
from ragstone.metrics import Metric, MetricCard, resolve_metrics
from ragstone.requests import finite_number
from ragstone.schema import Failure, Outcome, Sample, Score


def assert_score(
    case: Mapping[str, Any] | Sample,
    thresholds: Mapping[str, float],
    *,
    judge: str | Judge | None = None,
    reader: str | Reader | None = None,
) -> None:
    """Raise AssertionError if a score of one case is worse than its threshold, or is missing.

    One score is compared, not a mean: the test says something about this case only, and a judge's score near the
    threshold can fall on either side. `Experiment.check` decides about a whole dataset. The compared number is the one
    that decides if a score is good (`ragstone metrics NAME`): for `ccrs.ac` the better of exact match and judge.

    Args:
        case: A row with the field names of common libraries, or a sample.
        thresholds: Thresholds by metric or group, in the metric's range: the smallest acceptable score, or the largest
            if lower values are better.
        judge: The judge, as for `evaluate`.
        reader: The application's generator, as for `evaluate`.

    Raises:
        AssertionError: If a score is worse than its threshold, failed, or is not applicable. The message is a table
            with the judge's reasons.
        ConfigurationError: If a metric does not exist, or a threshold is not in its range.
        DataError: If the case is invalid.

    Examples:
        >>> import ragstone
        >>> case = {"query": "Why?", "contexts": ["Rain."], "response": "Rain."}
        >>> ragstone.assert_score(case, {"ccrs.cc": 0.8}, judge="lexical")
    """
    __tracebackhide__ = True  # pytest then shows the caller's line
    metrics, limits = _resolve(thresholds)
    result = evaluate([case], metrics, judge=judge, reader=reader)
    cards = {card.name: card for card in result.cards}
    worse = [o for o in result.outcomes if not _reaches(o, limits[o.metric], cards[o.metric])]
    if worse:
        rows = [("metric", "score", "threshold", "reason")]
        rows += [_row(o, limits[o.metric], cards[o.metric]) for o in worse]
        table = text_table(rows, titles=titles_of(o.metric for o in worse))
        query = result.samples[0].query
        head = f"FAILED on {len(worse)} of {len(result.outcomes)} metrics" + (f": {query}" if query else "")
        raise AssertionError(f"{head}\n\n{table}")


def _resolve(thresholds: Mapping[str, float]) -> tuple[list[Metric], dict[str, float]]:
    """Return the metrics, and the threshold of each."""
    if not thresholds:
        raise ConfigurationError('assert_score needs a threshold for at least one metric, such as {"ccrs.cc": 0.8}')
    metrics: dict[str, Metric] = {}
    limits: dict[str, float] = {}
    for name, threshold in thresholds.items():
        for metric in resolve_metrics([name]):
            card = metric.card
            if (number := finite_number(threshold)) is None or not card.low <= number <= card.high:
                raise ConfigurationError(
                    f"the threshold of {card.name} must be a number from {card.low:g} to {card.high:g}, got {threshold!r}"
                )
            if card.name not in limits or name == card.name:
                metrics[card.name], limits[card.name] = metric, number
    return list(metrics.values()), limits


def _reaches(outcome: Outcome, threshold: float, card: MetricCard) -> bool:
    decision = card.decision(outcome) if isinstance(outcome, Score) else None
    return decision is not None and bool(card.reaches(decision, threshold))


def _row(outcome: Outcome, threshold: float, card: MetricCard) -> tuple[str, str, str, str]:
    demanded = f"{'<=' if card.direction == 'lower' else '>='} {threshold:g}"
    if isinstance(outcome, Score):
        score, decision = f"{outcome.value:.3f}", card.decision(outcome)
        if card.decided_by:
            score = f"{'unknown' if decision is None else f'{decision:.3f}'}, {card.decision_name} (its value: {score})"
        return outcome.metric, score, demanded, outcome.explanation or ""
    state = "failed" if isinstance(outcome, Failure) else "not applicable"
    return outcome.metric, state, demanded, outcome.reason
