"""Means over a whole experiment, in the shape of LangSmith's summary evaluators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ragstone.metrics import Metric
from ragstone.schema import Failure, NotApplicable, Score
from ragstone.stats import mean_interval

RowOutcome = Score | NotApplicable | Failure | None
"""The outcome of a metric for one row; None for a row that could not be read."""


def summarize(metric: Metric, outcomes: Sequence[RowOutcome]) -> dict[str, Any]:
    """Return the mean score of a metric over all rows, as one feedback of the experiment.

    `score` is None if no row has a score. `metadata` contains the number of rows by outcome, and the 95% confidence
    interval of the mean.
    """
    values = [outcome.value for outcome in outcomes if isinstance(outcome, Score)]
    counts = Counter("unreadable" if outcome is None else outcome.outcome for outcome in outcomes)
    counts.pop("score", None)
    card = metric.card
    estimate = mean_interval(values, low=card.low, high=card.high) if values else None
    parts = [f"mean of {len(values)} scores"]
    if estimate is not None:
        parts.append(f"95% CI [{estimate.low:.3f}, {estimate.high:.3f}]")
    parts += [f"{n} {name.replace('_', ' ')}" for name, n in sorted(counts.items())]
    return {
        "key": card.name,
        "score": None if estimate is None else estimate.value,
        "comment": ", ".join(parts),
        "metadata": {
            "n": len(values),
            "counts": dict(counts),
            "interval": None
            if estimate is None
            else {"low": estimate.low, "high": estimate.high, "confidence_level": 0.95, "method": estimate.method},
            "direction": card.direction,
            "metric_version": card.version,
        },
    }
