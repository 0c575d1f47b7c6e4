"""Tools for research on metrics: build datasets, validate metrics and judges, fit and correlate UDCG.

An application that is only monitored or evaluated never imports this package.
"""

from ragstone.research._card.plan import plan_judge_card
from ragstone.research._card.run import judge_card
from ragstone.research._dataset.apply import apply_review
from ragstone.research._dataset.build import build_dataset
from ragstone.research._dataset.negatives import build_negatives, plan_negatives
from ragstone.research._dataset.plan import plan_dataset
from ragstone.research._run import RunResult
from ragstone.research._topicality import topicality
from ragstone.research._udcg.ask import erag_scores
from ragstone.research._udcg.correlate import correlate_udcg
from ragstone.research._udcg.experiment.run import plan_udcg_experiment, run_udcg_experiment
from ragstone.research._udcg.fit import fit_udcg
from ragstone.research._udcg.rank import best_passages, rank_udcg
from ragstone.research._validation.evaluate import validate_metrics

__all__ = [
    "apply_review",
    "best_passages",
    "build_dataset",
    "build_negatives",
    "correlate_udcg",
    "erag_scores",
    "fit_udcg",
    "judge_card",
    "plan_dataset",
    "plan_judge_card",
    "plan_negatives",
    "plan_udcg_experiment",
    "rank_udcg",
    "run_udcg_experiment",
    "topicality",
    "validate_metrics",
]
