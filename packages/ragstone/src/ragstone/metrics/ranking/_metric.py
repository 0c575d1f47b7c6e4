"""The ranking metrics: measures of the retrieved passages against relevance that somebody labelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragstone.errors import ConfigurationError
from ragstone.judges import Judge
from ragstone.metrics._base import MetricBase
from ragstone.metrics.ranking._alpha_ndcg import ALPHA, ALPHA_NDCG_MAX, alpha_ndcg
from ragstone.metrics.ranking._examples import alpha_example_of, example_of
from ragstone.metrics.ranking._grades import THRESHOLD
from ragstone.metrics.ranking._measures import Measure, measure_from
from ragstone.metrics.ranking._ndcg import MAX_GRADE
from ragstone.schema import NotApplicable, Passage, Sample, Score

__all__ = ["AlphaNdcg", "RankingMetric", "key_of"]

_ETA: Final = 3.0
"""A rating answers its sub-question from here on (CRUX, section 3.3, footnote 3)."""


class RankingMetric(MetricBase):
    """A measure of the retrieved passages, from relevance labels.

    Labels are those of the sample's `qrels`, which cover the whole collection: a passage that is not in them is not
    relevant. Without qrels they are the `relevance` of the passages themselves; then only these are known, and measures
    that ask for all relevant passages (recall, F1) are not applicable.

    Args:
        measure: "precision@5", "recall@20", "reciprocal_rank", "average_precision", "ndcg@10", "ndcg_linear@10", ...
        threshold: Relevant is a grade from here on; nDCG takes the grades themselves.

    Raises:
        ConfigurationError: There is no such measure, or the threshold is not above 0.

    Example:
        ```python
        ragstone.evaluate(rows, [RankingMetric("precision@3", threshold=2)])
        ```
    """

    reads_passages = False
    group = "ranking"
    needs = ("contexts", "qrels")

    def __init__(self, measure: str, *, threshold: float = THRESHOLD) -> None:
        # At 0 everything that is labelled would be relevant.
        if not 0 < threshold < float("inf"):
            raise ConfigurationError(f"threshold must be above 0 and finite, got {threshold!r}")
        self.measure: Measure = measure_from(measure)
        self.threshold = threshold
        kind = self.measure.kind
        self.name = self.measure.name
        self.title = self.measure.title
        self.advice = kind.advice
        self.description = kind.description
        if kind.labels != "collection":
            self.description += (
                " Labels on the passages do in place of qrels, and then tell nothing of what was missed."
            )
        self.source = kind.source
        self.formula = kind.formula
        self.version = f"1({threshold:g})"
        self.example = example_of(self.measure)

    def check_sample(self, sample: Sample) -> NotApplicable | None:
        """As for every metric, but labels on the passages replace missing qrels."""
        return None if _is_labelled(sample) else super().check_sample(sample)

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable:  # noqa: ARG002  nobody is asked
        if _is_labelled(sample):
            return self._from_labels(sample, sample.contexts or ())
        assert sample.contexts is not None and sample.qrels is not None  # noqa: S101, PT018  needed, so there
        nameless = next((n for n, p in enumerate(sample.contexts, start=1) if p.id is None), None)
        if nameless is not None:
            return self.make_not_applicable(
                sample, f"passage {nameless} has no id, and qrels name passages by their ids"
            )
        ranking = [passage.id for passage in sample.contexts if passage.id is not None]
        value, reason = self._value(ranking, sample.qrels)
        if value is None:
            return self.make_not_applicable(
                sample,
                reason or f"the qrels name no relevant passage: {self.name} is undefined where nothing is relevant",
            )
        return self._exact(sample, value, ranking, sample.qrels, pool="qrels")

    def _from_labels(self, sample: Sample, contexts: Sequence[Passage]) -> Score | NotApplicable:
        kind, k = self.measure.kind, self.measure.k
        if kind.labels == "collection":
            return self.make_not_applicable(
                sample,
                f"{self.name} counts all relevant passages, retrieved or not, and labels on what was retrieved do not "
                "tell how many there are; the sample has no qrels",
                ("qrels",),
            )
        ranking = [key_of(passage) for passage in contexts]
        labels: dict[str, float | None] = {}
        for key, passage in zip(ranking, contexts, strict=True):
            labels.setdefault(key, passage.relevance)
        for place, key in enumerate(ranking if kind.labels == "all" else ranking[:k], start=1):
            label = labels[key]
            if label is None:
                return self.make_not_applicable(
                    sample, f"passage {place} has no relevance label, and others have; {self.name} needs it", ("qrels",)
                )
            if kind.labels == "first relevant" and label >= self.threshold:
                break
        grades = {key: label for key, label in labels.items() if label is not None}
        value, reason = self._value(ranking, grades)
        if value is None and kind.labels != "all":
            # Whatever else the collection holds, these places hold nothing relevant.
            value = 0.0
        if value is None:
            return self.make_not_applicable(
                sample,
                reason
                or f"no retrieved passage is labelled relevant, and {self.name} of these passages alone is undefined",
            )
        return self._exact(sample, value, ranking, grades, pool="contexts")

    def _value(self, ranking: Sequence[str], grades: Mapping[str, float]) -> tuple[float | None, str | None]:
        """The value; or None, and why, if it is not for want of relevant passages."""
        if self.measure.kind.gain == "exp" and (top := max(grades.values(), default=0.0)) > MAX_GRADE:
            return None, f"2**grade is no number for the grade {top:g}; such grades need ndcg_linear"
        return self.measure.kind.function(ranking, grades, k=self.measure.k, threshold=self.threshold), None

    def _exact(
        self, sample: Sample, value: float, ranking: Sequence[str], grades: Mapping[str, float], *, pool: str
    ) -> Score:
        details: dict[str, Any] = {
            "pool": pool,
            "n_relevant": sum(grade >= self.threshold for grade in grades.values()),
            "n_retrieved": len(ranking),
            "n_unjudged": len(set(ranking[: self.measure.k]) - grades.keys()),
        }
        return self.make_score(sample, value, method="exact", details=details)


def _is_labelled(sample: Sample) -> bool:
    return sample.qrels is None and any(passage.relevance is not None for passage in sample.contexts or ())


class AlphaNdcg(MetricBase):
    """alpha-nDCG: do passages come first that answer sub-questions which those above left open?

    The sub-questions and the passages that answer them are those of the sample's `ratings`: the pool is every passage
    rated `rating_threshold` or more for any sub-question, retrieved or not.

    Args:
        k: How many places count, in the list and in the ideal.
        alpha: How much of a sub-question's gain one passage uses up.
        rating_threshold: A rating answers its sub-question from here on.

    Raises:
        ConfigurationError: An option out of range.

    Example:
        ```python
        ragstone.evaluate(rows, [AlphaNdcg(k=20)])
        ```
    """

    reads_passages = False
    group = "ranking"
    description = "Do passages come first that answer sub-questions which those above left open?"
    advice = "Low means that the top passages repeat each other. Next: Remove duplicates or diversify (MMR)."
    needs = ("contexts", "ratings")
    high = ALPHA_NDCG_MAX
    source = "Clarke et al. 2008, section 4; CRUX, section 3.3, equations 4 and 5"
    formula = (
        "sum of ng(rank) / log2(rank + 1) up to k / the same of the greedy ideal, "
        "ng = sum over the sub-questions answered of (1 - alpha)**(times answered above)"
    )

    def __init__(self, *, k: int = 10, alpha: float = ALPHA, rating_threshold: float = _ETA) -> None:
        if k < 1 or not 0 <= alpha <= 1 or not 0 < rating_threshold <= 5:
            raise ConfigurationError(
                f"k must be at least 1, alpha in [0, 1] and eta in (0, 5], got k={k!r}, alpha={alpha!r}, rating_threshold={rating_threshold!r}"
            )
        self.k, self.alpha, self.rating_threshold = k, alpha, rating_threshold
        self.name = f"alpha_ndcg@{k}"
        self.title = f"Alpha-nDCG at {k} (diversity)"
        self.version = f"1({alpha:g},{rating_threshold:g})"
        if (alpha, rating_threshold) == (ALPHA, _ETA):
            self.example = alpha_example_of(k)

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable:  # noqa: ARG002  nobody is asked
        assert sample.contexts is not None and sample.ratings is not None  # noqa: S101, PT018  needed, so there
        nameless = next((n for n, p in enumerate(sample.contexts, start=1) if p.id is None), None)
        if nameless is not None:
            return self.make_not_applicable(
                sample, f"passage {nameless} has no id, and ratings name passages by their ids"
            )
        covered = {
            question: [passage for passage, rating in rated.items() if rating >= self.rating_threshold]
            for question, rated in sample.ratings.items()
        }
        value = alpha_ndcg([p.id for p in sample.contexts if p.id is not None], covered, k=self.k, alpha=self.alpha)
        if value is None:
            return self.make_not_applicable(
                sample, f"no passage is rated {self.rating_threshold:g} or more for any sub-question"
            )
        details = {
            "pool": "ratings",
            "n_pool": len({passage for passages in covered.values() for passage in passages}),
            "n_sub_questions": len(covered),
            "n_answerable": sum(bool(passages) for passages in covered.values()),
            "alpha": self.alpha,
            "eta": self.rating_threshold,
        }
        return self.make_score(sample, value, method="exact", details=details)


def key_of(passage: Passage) -> str:
    """What tells a passage from others of its list: its id, else its text."""
    return passage.text if passage.id is None else passage.id
