"""Scoring: computes outcomes of samples and metrics under one limit and with a deadline, and estimates runs."""

from ragstone._util.run_async import run_async
from ragstone.scoring._causes import (
    CAUSES,
    DECIDING_FAILED,
    Cause,
    Signals,
    answer_probabilities,
    claims_of,
    describe_signals,
    diagnose,
    find_cause,
    list_positions,
    note_outcome,
    note_outline,
    note_sample,
    relevant_positions,
    used_positions,
    why_wrong,
)
from ragstone.scoring._estimate import RunEstimate, estimate_run
from ragstone.scoring._judged import JudgedCounts
from ragstone.scoring._reasons import (
    MAX_CALLS_PER_REASON,
    WorstAnswers,
    explain_lowest,
    explain_lowest_scores,
    explain_worst,
)
from ragstone.scoring._scorer import Scorer
from ragstone.scoring._spread import StrideSampler

__all__ = ["Scorer", "run_async"]
