"""Experiments: the outcomes of one system on one data set, summed up with error bars."""

from ragstone.experiments._evaluate import Experiment, aevaluate, evaluate
from ragstone.experiments._read import Rejection, SampleSource, read_samples
from ragstone.experiments._summary import MetricSummary, format_table, summarise

__all__ = [
    "Experiment",
    "MetricSummary",
    "Rejection",
    "SampleSource",
    "aevaluate",
    "evaluate",
    "format_table",
    "read_samples",
    "summarise",
]
