"""The commands of `ragstone lab` by path, as in `ragstone.cli.extension`. No command is imported here."""

from __future__ import annotations

from typing import Final

from ragstone.cli.extension import Command

_LAB: Final = "judge --set cache budget limits.concurrency limits.stop_early limits.max_failed_share"
_UDCG: Final = f"reader {_LAB} answers prompts"
_MEANS: Final = "analysis.cluster analysis.confidence_level analysis.seed analysis.n_resamples"

GROUPS: Final = {
    "lab dataset": "Build a dataset from documents, and measure with it.",
    "lab udcg": "Fit UDCG, correlate it with answers, and rank passages.",
}
"""The purposes of the groups of commands."""

COMMANDS: Final = {
    "lab judge-card": Command(
        "Measure how far judges can be trusted.",
        "--labels labels.csv --judge openai:gpt-4o",
        f"budget {_LAB} prompts limits.deadline_s limits.max_outage_s limits.call_latency_s "
        "analysis.confidence_level analysis.n_resamples analysis.seed research.conditions research.max_crossed "
        "research.repeats research.flip_threshold research.label_values research.label_range research.threshold",
    ),
    "lab validate-metrics": Command(
        "Evaluate the metrics themselves.",
        "outcomes.jsonl --labels labels.csv",
        f"{_MEANS} analysis.n_permutations research.label_values research.label_range research.threshold "
        "research.flip_threshold research.target research.pass_at",
    ),
    "lab dataset build": Command(
        "Generate queries, sub-questions and ratings.",
        "handbook/ --judge http://localhost:8000/v1",
        f"budget {_LAB} research.max_items research.max_passages research.questions research.rating_threshold",
    ),
    "lab dataset apply-review": Command("Write the dataset of your edited review.csv.", "dataset", _LAB),
    "lab dataset negatives": Command(
        "Write queries that your documents do not answer.",
        "handbook/ --judge openai:gpt-4o",
        f"{_LAB} research.queries research.max_passages research.rating_threshold",
    ),
    "lab dataset bounds": Command(
        "Measure what retriever and generator can still gain.",
        "set.jsonl --app rag:answer --judge openai:gpt-4o",
        f"{_LAB} limits.app_concurrency limits.app_timeout_s limits.deadline_s limits.max_outage_s analysis.cluster "
        "analysis.confidence_level analysis.n_permutations analysis.seed",
    ),
    "lab udcg fit": Command(
        "Fit the weights of UDCG to graded contexts.",
        "graded.jsonl --reader http://localhost:8000/v1",
        f"{_UDCG} analysis.seed research.svm_c",
    ),
    "lab udcg correlate": Command(
        "Correlate UDCG and other ranking metrics with graded answers.",
        "graded.jsonl --reader openai:gpt-4o",
        f"{_UDCG} analysis.seed",
    ),
    "lab udcg rank": Command(
        "Sort the passages of each sample by their utility.", "samples.jsonl --reader openai:gpt-4o", _UDCG
    ),
    "lab udcg experiment": Command(
        "Repeat the experiments of the UDCG paper on your data.",
        "questions.jsonl --reader openai:gpt-4o",
        f"{_UDCG} limits.call_latency_s analysis.seed research.k research.top_n "
        "research.max_questions research.n_contexts research.k_values research.n_distractors research.weak_below research.hard_above "
        "research.threshold research.second_judge research.second_judge_model research.other_readers",
    ),
    "lab topicality": Command(
        "Check if a repository is about a domain.", "in-domain.jsonl out-of-domain.jsonl", _MEANS
    ),
}
"""The commands."""
