"""Metrics: cards, the registry, and one file a family."""

from ragstone.metrics._card import Metric, MetricCard
from ragstone.metrics._registry import all_metrics, resolve_metrics
from ragstone.metrics.ccrs import (
    CCRS,
    AnswerCorrectness,
    ContextualCoherence,
    InformationDensity,
    InformationRecall,
    QuestionRelevance,
)

__all__ = [
    "CCRS",
    "AnswerCorrectness",
    "ContextualCoherence",
    "InformationDensity",
    "InformationRecall",
    "Metric",
    "MetricCard",
    "QuestionRelevance",
    "all_metrics",
    "resolve_metrics",
]
