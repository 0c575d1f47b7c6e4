"""Ranking metrics without labels: the judge says which of the retrieved passages are relevant."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cached_property

from ragstone.errors import ConfigurationError
from ragstone.judges import Judge
from ragstone.metrics._base import MetricBase
from ragstone.metrics._relevance import RELEVANCE_HASH, Label, label_of
from ragstone.metrics._shared import compute_once
from ragstone.metrics.ranking._examples import judged_example_of
from ragstone.metrics.ranking._grades import THRESHOLD
from ragstone.metrics.ranking._measures import KINDS, measure_from
from ragstone.metrics.ranking._metric import key_of
from ragstone.schema import NotApplicable, Passage, Sample, Score

__all__ = ["JUDGED_KINDS", "JudgedRankingMetric"]

JUDGED_KINDS = tuple(kind for kind in KINDS.values() if kind.labels != "collection" and kind.gain != "linear")
"""Measures that can do with labels on what was retrieved, which are 0 or 1: both gains are then the same."""


class JudgedRankingMetric(MetricBase):
    """A measure of the retrieved passages, each labelled by the judge, relevant or not.

    A passage is labelled once for all metrics of this kind. The labels know what was retrieved and nothing else: nDCG
    and average precision compare with the best order of these very passages, and say nothing of what was missed.

    Args:
        measure: "precision@5", "hit_rate@5", "reciprocal_rank", "average_precision" or "ndcg@10", with any cut-off.

    Raises:
        ConfigurationError: There is no such measure, or it needs the labels of the whole collection.

    Example:
        ```python
        ragstone.evaluate(rows, [JudgedRankingMetric("precision@3")], judge="http://localhost:8000/v1")
        ```
    """

    group = "judged"
    needs = ("query", "contexts")
    judge_calls_per_passage = 1

    def __init__(self, measure: str) -> None:
        self.measure = measure_from(measure)
        kind = self.measure.kind
        if kind not in JUDGED_KINDS:
            raise ConfigurationError(
                f"there is no judged.{self.measure.name}: a judge sees what was retrieved, and not the collection; "
                f"there are {', '.join(f'judged.{kind.name}' for kind in JUDGED_KINDS)}"
            )
        self.name = f"judged.{self.measure.name}"
        self.title = self.measure.judged_title
        self.advice = kind.judged_advice
        self.description = f"{kind.description} The judge labels what was retrieved."
        self.source = kind.source
        self.formula = f"{kind.formula}, of the passages retrieved" if kind.labels == "all" else kind.formula
        self.example = judged_example_of(self.measure)

    @cached_property
    def prompt_hash(self) -> str:
        """That of the question whether a passage is relevant."""
        return RELEVANCE_HASH

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable:
        assert sample.contexts is not None and sample.query is not None  # noqa: S101, PT018  needed, so there
        kind, k = self.measure.kind, self.measure.k
        if not sample.contexts:
            return self.make_not_applicable(sample, f"retrieval found nothing: {self.name} has no passage to judge")
        if not any(passage.text.strip() for passage in sample.contexts):
            return self.make_not_applicable(sample, "the passages have no text that could be judged")
        ranking = [key_of(passage) for passage in sample.contexts]
        first = dict(zip(reversed(ranking), reversed(sample.contexts), strict=True))
        # What stands below the cut-off matters only where the ideal is made of it.
        asked = list(dict.fromkeys(ranking if kind.labels == "all" else ranking[:k]))
        labels = dict(zip(asked, await _labels([first[key] for key in asked], sample, judge), strict=True))
        grades = {key: float(label.relevant) for key, label in labels.items()}
        value = kind.function(ranking, grades, k=k, threshold=THRESHOLD)
        if value is None and kind.labels == "all":
            return self.make_not_applicable(
                sample, f"the judge takes no retrieved passage for relevant: {self.name} of them alone is undefined"
            )
        details = {
            "pool": "contexts",
            "labels": next(iter(labels.values())).source,
            "relevant": [rank for rank, key in enumerate(ranking, start=1) if grades.get(key)],
            "n_retrieved": len(ranking),
        }
        n = sum(label.n for label in labels.values())
        return self.make_score(sample, value or 0.0, method="judged_labels", n=n, details=details)


async def _labels(passages: Sequence[Passage], sample: Sample, judge: Judge) -> list[Label]:
    """Label each passage, all at once."""
    query = sample.query or ""

    async def label(passage: Passage) -> Label:
        async def ask() -> Label:
            return await label_of(
                passage, query=query, reference=sample.reference, judge=judge, mode="judge", threshold=THRESHOLD
            )

        return await compute_once(("passage_relevance", judge, query, sample.reference, passage.text), ask)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(label(passage)) for passage in passages]
    except BaseExceptionGroup as errors:
        # One judge's error is what the scorer knows how to report; a group of them is not.
        raise errors.exceptions[0] from errors
    return [task.result() for task in tasks]
