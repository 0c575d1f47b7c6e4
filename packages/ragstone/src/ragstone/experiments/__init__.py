"""Experiments: score a dataset, summarize the scores with confidence intervals, compare systems."""

from ragstone.experiments._compare.align import AlignedMetric, AlignedScores
from ragstone.experiments._compare.compare import Comparison, compare
from ragstone.experiments._compare.hypotheses import Claim, Hypothesis
from ragstone.experiments._compare.pairs import MetricComparison, PairDifference, SystemMean
from ragstone.experiments._compare.regression import MetricGate, RegressionCheck, assert_no_regression
from ragstone.experiments._evaluate import Experiment, aevaluate, evaluate
from ragstone.experiments._outcomes import OutcomeSource, Period, SystemOutcomes, read_outcomes
from ragstone.experiments._summary import MetricSummary, format_table, summarise

__all__ = [
    "AlignedMetric",
    "AlignedScores",
    "Claim",
    "Comparison",
    "Experiment",
    "Hypothesis",
    "MetricComparison",
    "MetricGate",
    "MetricSummary",
    "OutcomeSource",
    "PairDifference",
    "Period",
    "RegressionCheck",
    "SystemMean",
    "SystemOutcomes",
    "aevaluate",
    "assert_no_regression",
    "compare",
    "evaluate",
    "format_table",
    "read_outcomes",
    "summarise",
]
