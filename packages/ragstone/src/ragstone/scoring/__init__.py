"""Scoring: computes outcomes of samples and metrics under one limit and with a deadline, and estimates runs."""

from ragstone._util.run_async import run_async
from ragstone.scoring._estimate import RunEstimate as RunEstimate
from ragstone.scoring._estimate import estimate_run as estimate_run
from ragstone.scoring._judged import JudgedCounts as JudgedCounts
from ragstone.scoring._reasons import MAX_CALLS_PER_REASON as MAX_CALLS_PER_REASON
from ragstone.scoring._reasons import WorstAnswers as WorstAnswers
from ragstone.scoring._reasons import explain_lowest as explain_lowest
from ragstone.scoring._reasons import explain_worst as explain_worst
from ragstone.scoring._scorer import Scorer

__all__ = ["Scorer", "run_async"]
