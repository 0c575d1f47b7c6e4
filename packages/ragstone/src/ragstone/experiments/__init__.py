"""Experiments: the outcomes of one system on one data set, summed up with error bars; systems compared; what UDCG is worth."""

from ragstone.experiments._compare.align import AlignedMetric, AlignedScores
from ragstone.experiments._compare.compare import Comparison, compare
from ragstone.experiments._compare.hypotheses import Claim, Hypothesis
from ragstone.experiments._compare.pairs import MetricComparison, PairDifference, SystemMean
from ragstone.experiments._compare.regression import MetricGate, RegressionCheck, assert_no_regression
from ragstone.experiments._dataset.apply import DatasetReview, apply_review
from ragstone.experiments._dataset.build import DatasetBuild, build_dataset
from ragstone.experiments._dataset.plan import DatasetPlan, plan_dataset
from ragstone.experiments._evaluate import Experiment, aevaluate, evaluate
from ragstone.experiments._meta.describe import Distribution, MetricPairCorrelation, MetricPower
from ragstone.experiments._meta.evaluate import meta_evaluate
from ragstone.experiments._meta.labels import LabelAgreement
from ragstone.experiments._meta.repeats import MetricFlips
from ragstone.experiments._meta.report import MetaReport
from ragstone.experiments._outcomes import OutcomeSource, Period, SystemOutcomes, read_outcomes
from ragstone.experiments._summary import MetricSummary, format_table, summarise
from ragstone.experiments._topicality import TopicalityMetric, TopicalityReport, topicality
from ragstone.experiments._udcg.ask import erag_scores
from ragstone.experiments._udcg.correlate import MetricCorrelation, UdcgCorrelation, correlate_udcg
from ragstone.experiments._udcg.fit import UdcgFit, fit_udcg
from ragstone.experiments._udcg.rank import UdcgRanking, best_passages, rank_udcg

__all__ = [
    "AlignedMetric",
    "AlignedScores",
    "Claim",
    "Comparison",
    "DatasetBuild",
    "DatasetPlan",
    "DatasetReview",
    "Distribution",
    "Experiment",
    "Hypothesis",
    "LabelAgreement",
    "MetaReport",
    "MetricComparison",
    "MetricCorrelation",
    "MetricFlips",
    "MetricGate",
    "MetricPairCorrelation",
    "MetricPower",
    "MetricSummary",
    "OutcomeSource",
    "PairDifference",
    "Period",
    "RegressionCheck",
    "SystemMean",
    "SystemOutcomes",
    "TopicalityMetric",
    "TopicalityReport",
    "UdcgCorrelation",
    "UdcgFit",
    "UdcgRanking",
    "aevaluate",
    "apply_review",
    "assert_no_regression",
    "best_passages",
    "build_dataset",
    "compare",
    "correlate_udcg",
    "erag_scores",
    "evaluate",
    "fit_udcg",
    "format_table",
    "meta_evaluate",
    "plan_dataset",
    "rank_udcg",
    "read_outcomes",
    "summarise",
    "topicality",
]
