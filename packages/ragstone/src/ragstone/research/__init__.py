"""Tools for research on metrics: build datasets, validate metrics, fit and correlate UDCG.

An application that is only monitored or evaluated never imports this package.
"""

from ragstone.research._dataset.apply import DatasetReview, apply_review
from ragstone.research._dataset.build import DatasetBuild, build_dataset
from ragstone.research._dataset.plan import DatasetPlan, plan_dataset
from ragstone.research._topicality import TopicalityReport, topicality
from ragstone.research._udcg.ask import erag_scores
from ragstone.research._udcg.correlate import UdcgCorrelation, correlate_udcg
from ragstone.research._udcg.fit import UdcgFit, fit_udcg
from ragstone.research._udcg.rank import UdcgRanking, best_passages, rank_udcg
from ragstone.research._validation.evaluate import validate_metrics
from ragstone.research._validation.report import MetricValidation

__all__ = [
    "DatasetBuild",
    "DatasetPlan",
    "DatasetReview",
    "MetricValidation",
    "TopicalityReport",
    "UdcgCorrelation",
    "UdcgFit",
    "UdcgRanking",
    "apply_review",
    "best_passages",
    "build_dataset",
    "correlate_udcg",
    "erag_scores",
    "fit_udcg",
    "plan_dataset",
    "rank_udcg",
    "topicality",
    "validate_metrics",
]
