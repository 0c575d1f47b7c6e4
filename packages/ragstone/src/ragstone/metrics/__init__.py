"""Metrics: cards, the registry, and one file a family."""

from ragstone.metrics._card import Metric, MetricCard, ReadingMetric
from ragstone.metrics._registry import all_metrics, bind_reader, resolve_metrics
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
    "ReadingMetric",
    "all_metrics",
    "bind_reader",
    "resolve_metrics",
]
