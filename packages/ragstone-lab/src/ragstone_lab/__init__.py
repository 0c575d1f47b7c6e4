"""Research on metrics and judges: build datasets, validate metrics and judges, fit and correlate UDCG.

An application that is only monitored or evaluated does not need this distribution. Its commands are those of `ragstone lab`.
"""

from typing import TYPE_CHECKING

from ragstone.extension import lazy_names

if TYPE_CHECKING:
    from ragstone_lab._bounds import retrieval_bounds
    from ragstone_lab._card.plan import plan_judge_card
    from ragstone_lab._card.run import judge_card
    from ragstone_lab._dataset.build import build_dataset
    from ragstone_lab._dataset.negatives import build_negatives, plan_negatives
    from ragstone_lab._dataset.plan import plan_dataset
    from ragstone_lab._dataset.review import apply_review
    from ragstone_lab._topicality import topicality
    from ragstone_lab._udcg.ask import erag_scores
    from ragstone_lab._udcg.correlate import correlate_udcg
    from ragstone_lab._udcg.experiment.run import plan_udcg_experiment, run_udcg_experiment
    from ragstone_lab._udcg.fit import fit_udcg
    from ragstone_lab._udcg.rank import best_passages, rank_udcg
    from ragstone_lab._validation.evaluate import validate_metrics

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
    "retrieval_bounds",
    "run_udcg_experiment",
    "topicality",
    "validate_metrics",
]

if not TYPE_CHECKING:  # a type checker would accept any name
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_bounds": "retrieval_bounds",
            "_card.plan": "plan_judge_card",
            "_card.run": "judge_card",
            "_dataset.build": "build_dataset",
            "_dataset.negatives": "build_negatives plan_negatives",
            "_dataset.plan": "plan_dataset",
            "_dataset.review": "apply_review",
            "_topicality": "topicality",
            "_udcg.ask": "erag_scores",
            "_udcg.correlate": "correlate_udcg",
            "_udcg.experiment.run": "plan_udcg_experiment run_udcg_experiment",
            "_udcg.fit": "fit_udcg",
            "_udcg.rank": "best_passages rank_udcg",
            "_validation.evaluate": "validate_metrics",
        },
    )
