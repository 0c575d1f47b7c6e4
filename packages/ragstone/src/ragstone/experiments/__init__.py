"""Experiments: the outcomes of one system on one data set, summed up with error bars; and what UDCG is worth."""

from ragstone.experiments._evaluate import Experiment, aevaluate, evaluate
from ragstone.experiments._outcomes import OutcomeSource, SystemOutcomes, read_outcomes
from ragstone.experiments._read import Rejection, SampleSource, read_samples
from ragstone.experiments._summary import MetricSummary, format_table, summarise
from ragstone.experiments._udcg.ask import erag_scores
from ragstone.experiments._udcg.correlate import MetricCorrelation, UdcgCorrelation, correlate_udcg
from ragstone.experiments._udcg.fit import UdcgFit, fit_udcg
from ragstone.experiments._udcg.rank import UdcgRanking, best_passages, rank_udcg

__all__ = [
    "Experiment",
    "MetricCorrelation",
    "MetricSummary",
    "OutcomeSource",
    "Rejection",
    "SampleSource",
    "SystemOutcomes",
    "UdcgCorrelation",
    "UdcgFit",
    "UdcgRanking",
    "aevaluate",
    "best_passages",
    "correlate_udcg",
    "erag_scores",
    "evaluate",
    "fit_udcg",
    "format_table",
    "rank_udcg",
    "read_outcomes",
    "read_samples",
    "summarise",
]
