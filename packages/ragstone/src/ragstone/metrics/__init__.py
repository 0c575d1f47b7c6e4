"""Metrics: cards, the registry, and one file a family."""

from ragstone.metrics._card import Metric, MetricCard, ReadingMetric
from ragstone.metrics._registry import all_metrics, bind_reader, resolve_metrics
from ragstone.metrics._relevance import LabelMode
from ragstone.metrics._utility import PassageUtility, passage_utilities
from ragstone.metrics.ccrs import (
    CCRS,
    AnswerCorrectness,
    ContextualCoherence,
    InformationDensity,
    InformationRecall,
    QuestionRelevance,
)
from ragstone.metrics.udcg import Udcg, UdcgTheta

__all__ = [
    "CCRS",
    "AnswerCorrectness",
    "ContextualCoherence",
    "InformationDensity",
    "InformationRecall",
    "LabelMode",
    "Metric",
    "MetricCard",
    "PassageUtility",
    "QuestionRelevance",
    "ReadingMetric",
    "Udcg",
    "UdcgTheta",
    "all_metrics",
    "bind_reader",
    "passage_utilities",
    "resolve_metrics",
]
