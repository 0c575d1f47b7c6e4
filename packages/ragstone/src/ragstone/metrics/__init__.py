"""Metrics: cards, the registry, and one file a family."""

from ragstone.metrics._card import Extra, Metric, MetricCard, ReadingMetric, WorkedExample
from ragstone.metrics._registry import all_metrics, bind_reader, resolve_metrics
from ragstone.metrics._relevance import LabelMode
from ragstone.metrics._shared import shared, sharing
from ragstone.metrics._utility import PassageUtility, passage_utilities
from ragstone.metrics.ccrs import (
    CCRS,
    AnswerCorrectness,
    ContextualCoherence,
    InformationDensity,
    InformationRecall,
    QuestionRelevance,
)
from ragstone.metrics.crux import CRUX
from ragstone.metrics.ragas import RAGAS
from ragstone.metrics.ragchecker import RAGCHECKER
from ragstone.metrics.ranking import RANKING
from ragstone.metrics.text import TEXT
from ragstone.metrics.udcg import Udcg, UdcgTheta
from ragstone.metrics.vera import VERA

__all__ = [
    "CCRS",
    "CRUX",
    "RAGAS",
    "RAGCHECKER",
    "RANKING",
    "TEXT",
    "VERA",
    "AnswerCorrectness",
    "ContextualCoherence",
    "Extra",
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
    "WorkedExample",
    "all_metrics",
    "bind_reader",
    "passage_utilities",
    "resolve_metrics",
    "shared",
    "sharing",
]
