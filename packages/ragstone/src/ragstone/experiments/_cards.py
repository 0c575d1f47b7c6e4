"""Cards of metrics by name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ragstone.errors import ConfigurationError
from ragstone.metrics import MetricCard, resolve_metrics
from ragstone.schema import Outcome


def card_of(metric: str) -> MetricCard | None:
    """Return the card of a metric, or None if this installation does not know it."""
    try:
        (resolved,) = resolve_metrics([metric])
    except (ConfigurationError, ValueError):
        return None
    return resolved.card


def titles_of(metrics: Iterable[str]) -> dict[str, str]:
    """Return the display names of the metrics that this installation knows, by metric."""
    return {name: card.title for name in metrics if (card := card_of(name)) is not None}


def card_for(outcome: Outcome, cards: Mapping[str, MetricCard]) -> MetricCard:
    """Return the card of an outcome: of `cards`, of this installation, or with the scale that the outcome states."""
    if (known := cards.get(outcome.metric) or card_of(outcome.metric)) is not None:
        return known
    scale = outcome.scale
    return MetricCard(
        name=outcome.metric,
        title=outcome.metric,
        description="",
        low=scale.low if scale and scale.low is not None else -math.inf,
        high=scale.high if scale and scale.high is not None else math.inf,
        direction=scale.direction if scale else "higher",
        needs=(),
        version=outcome.metric_version,
        source="",
        group="",
    )
