"""Scoring: computes outcomes of samples and metrics under one limit and with a deadline, and estimates runs."""

from ragstone._util.run_async import run_async
from ragstone.scoring._causes import CAUSES as CAUSES
from ragstone.scoring._causes import Cause as Cause
from ragstone.scoring._causes import Signals as Signals
from ragstone.scoring._causes import answer_probabilities as answer_probabilities
from ragstone.scoring._causes import claims_of as claims_of
from ragstone.scoring._causes import describe_signals as describe_signals
from ragstone.scoring._causes import diagnose as diagnose
from ragstone.scoring._causes import find_cause as find_cause
from ragstone.scoring._causes import list_positions as list_positions
from ragstone.scoring._causes import note_outcome as note_outcome
from ragstone.scoring._causes import note_outline as note_outline
from ragstone.scoring._causes import note_sample as note_sample
from ragstone.scoring._causes import relevant_positions as relevant_positions
from ragstone.scoring._causes import used_positions as used_positions
from ragstone.scoring._causes import why_wrong as why_wrong
from ragstone.scoring._estimate import RunEstimate as RunEstimate
from ragstone.scoring._estimate import estimate_run as estimate_run
from ragstone.scoring._judged import JudgedCounts as JudgedCounts
from ragstone.scoring._reasons import MAX_CALLS_PER_REASON as MAX_CALLS_PER_REASON
from ragstone.scoring._reasons import WorstAnswers as WorstAnswers
from ragstone.scoring._reasons import explain_lowest as explain_lowest
from ragstone.scoring._reasons import explain_lowest_scores as explain_lowest_scores
from ragstone.scoring._reasons import explain_worst as explain_worst
from ragstone.scoring._scorer import Scorer
from ragstone.scoring._spread import StrideSampler as StrideSampler

__all__ = ["Scorer", "run_async"]
