"""Cards of metrics by name."""

from __future__ import annotations

import math
from collections.abc import Iterable

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


def unknown_card(outcome: Outcome) -> MetricCard:
    """Make a card of a metric that this installation does not know, with the scale that its outcome states."""
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
