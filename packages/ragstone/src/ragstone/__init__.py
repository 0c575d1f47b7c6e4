"""Ragstone: know how good a RAG application's retrieval and answers are, with honest uncertainty."""

from ragstone.errors import RagstoneError
from ragstone.experiments import Experiment, aevaluate, evaluate
from ragstone.monitor import Monitor
from ragstone.schema import Failure, NotApplicable, Outcome, Passage, Sample, Score, Search, Trace

__all__ = [
    "Experiment",
    "Failure",
    "Monitor",
    "NotApplicable",
    "Outcome",
    "Passage",
    "RagstoneError",
    "Sample",
    "Score",
    "Search",
    "Trace",
    "aevaluate",
    "evaluate",
]
