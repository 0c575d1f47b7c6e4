"""Ranking metrics with labels from the judge for the retrieved passages."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.errors import ConfigurationError
from ragstone.judges import Judge
from ragstone.metrics._arguments import Cutoff
from ragstone.metrics._base import MetricBase
from ragstone.metrics._claims import gather_or_cancel
from ragstone.metrics._history import question_text
from ragstone.metrics._relevance import RELEVANCE_TASKS, Label, label_of
from ragstone.metrics._shared import compute_once
from ragstone.metrics.ranking._examples import judged_example_of
from ragstone.metrics.ranking._grades import THRESHOLD
from ragstone.metrics.ranking._measures import KINDS, measure_from
from ragstone.metrics.ranking._metric import key_of
from ragstone.schema import NotApplicable, Passage, Sample, Score

JUDGED_KINDS = tuple(kind for kind in KINDS.values() if kind.labels != "collection" and kind.gain != "linear")
"""Measures that need only binary labels of the retrieved passages. With these, both gains of nDCG are identical."""


class JudgedRankingMetric(MetricBase):
    """A measure of the retrieved passages. The judge labels each passage as relevant or not.

    A passage is labeled once for all metrics of this kind. Only retrieved passages have labels. nDCG and average
    precision therefore compare with the best order of these passages and do not measure missing passages.

    Args:
        measure: "precision", "hit_rate", "reciprocal_rank", "average_precision" or "ndcg".
        k: Number of ranks that count. None: all.

    Raises:
        ConfigurationError: If the measure is unknown, or needs labels of the whole collection.
    """

    needs = ("query", "contexts")
    judge_calls_per_passage = 1
    tasks = RELEVANCE_TASKS
    unstated = ("measure",)

    def __init__(self, measure: str, k: Cutoff | None = None) -> None:
        self.measure = measure_from(measure, k)
        kind = self.measure.kind
        if kind not in JUDGED_KINDS:
            raise ConfigurationError(
                f"judged.{kind.name} does not exist, because a judge labels only the retrieved passages. Use one "
                f"of {', '.join(f'judged.{kind.name}' for kind in JUDGED_KINDS)}"
            )
        self.name = f"judged.{kind.name}{self.suffix}"
        self.title = self.measure.judged_title
        self._meaning, self._next_step = kind.judged_meaning, kind.judged_next_step
        self.description = f"{kind.description} The judge labels the retrieved passages."
        self.source = kind.source
        self.formula = f"{kind.formula}, of the retrieved passages" if kind.labels == "all" else kind.formula
        self.example = judged_example_of(self.measure)

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable:
        assert sample.contexts is not None and sample.query is not None  # noqa: S101, PT018  checked by `check_sample`
        kind, k = self.measure.kind, self.measure.k
        if not sample.contexts:
            return self.make_not_applicable(
                sample, f"retrieval returned no passages, so {self.name} does not have a passage to judge"
            )
        if not any(passage.text.strip() for passage in sample.contexts):
            return self.make_not_applicable(sample, "all passages are blank")
        ranking = [key_of(passage) for passage in sample.contexts]
        first = dict(zip(reversed(ranking), reversed(sample.contexts), strict=True))
        # Passages below the cutoff are labeled only if the ideal order includes them.
        keys = list(dict.fromkeys(ranking if kind.labels == "all" else ranking[:k]))
        labels = dict(zip(keys, await _label([first[key] for key in keys], sample, judge), strict=True))
        grades = {key: float(label.relevant) for key, label in labels.items()}
        value = kind.function(ranking, grades, k=k, threshold=THRESHOLD)
        if value is None and kind.labels == "all":
            return self.make_not_applicable(
                sample, f"the judge labels no retrieved passage as relevant, so {self.name} is undefined"
            )
        details = {
            "pool": "contexts",
            "labels": next(iter(labels.values())).source,
            "relevant": [rank for rank, key in enumerate(ranking, start=1) if grades.get(key)],
            "n_retrieved": len(ranking),
        }
        n = sum(label.n for label in labels.values())
        return self.make_score(sample, value or 0.0, method="judged_labels", n=n, details=details)


async def _label(passages: Sequence[Passage], sample: Sample, judge: Judge) -> list[Label]:
    """Label the passages concurrently."""
    query = question_text(sample)

    async def label(passage: Passage) -> Label:
        async def ask() -> Label:
            return await label_of(
                passage, query=query, reference=sample.reference, judge=judge, mode="judge", threshold=THRESHOLD
            )

        return await compute_once(
            ("passage_relevance", judge.identity.hash, query, sample.reference, passage.text), ask
        )

    return await gather_or_cancel(map(label, passages))
