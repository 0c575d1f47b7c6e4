"""The ranking metrics: measures of the retrieved passages with relevance labels in the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ragstone.judges import Judge
from ragstone.metrics._arguments import Cutoff, Positive, RatingThreshold, Share
from ragstone.metrics._base import MetricBase
from ragstone.metrics.ranking._alpha_ndcg import ALPHA, ALPHA_NDCG_MAX, alpha_ndcg
from ragstone.metrics.ranking._examples import alpha_example_of, example_of
from ragstone.metrics.ranking._grades import THRESHOLD
from ragstone.metrics.ranking._measures import Measure, measure_from
from ragstone.metrics.ranking._ndcg import MAX_GRADE
from ragstone.schema import NotApplicable, Passage, Sample, Score

_ETA: Final = 3.0
"""Smallest rating that means that a passage answers its sub-question (CRUX, section 3.3, footnote 3)."""


class RankingMetric(MetricBase):
    """A measure of the retrieved passages with relevance labels in the data.

    The labels are the sample's `qrels`, which cover the whole collection: a passage without a grade is not relevant.
    Without qrels, the labels are the `relevance` of the retrieved passages. In that case measures that require all
    relevant passages (recall, F1) are not applicable.

    Args:
        measure: "precision", "recall", "reciprocal_rank", "average_precision", "ndcg", "ndcg_linear", ...
        k: Number of ranks that count, in the name as `precision@3`. None: all.
        threshold: Smallest grade that means relevant. nDCG uses the grades directly.
    """

    reads_passages = False
    group = "ranking"
    needs = ("contexts", "qrels")
    unstated = ("measure",)

    def __init__(self, measure: str, k: Cutoff | None = None, *, threshold: Positive = THRESHOLD) -> None:
        self.measure: Measure = measure_from(measure, k)
        self.threshold = threshold
        kind = self.measure.kind
        self.name = kind.name + self.suffix
        self.title = self.extend_title(self.measure.title, "k")
        self._meaning, self._next_step = kind.meaning, kind.next_step
        self.description = kind.description
        if kind.labels != "collection":
            self.description += " Labels on the passages can replace qrels, but then missing passages are not counted."
        if kind.name == "f1":
            self.follows_from = (f"precision{self.suffix}", f"recall{self.suffix}")
        self.source = kind.source
        self.formula = kind.formula
        self.version = f"1({threshold:g})"
        self.example = example_of(self.measure) if threshold == THRESHOLD else None

    def check_sample(self, sample: Sample) -> NotApplicable | None:
        """Check the needed fields. Labels on the passages replace missing qrels."""
        return None if _is_labeled(sample) else super().check_sample(sample)

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable:  # noqa: ARG002  the judge is not called
        if _is_labeled(sample):
            return self._from_labels(sample, sample.contexts or ())
        assert sample.qrels is not None  # noqa: S101  checked by `check_sample`
        ranking, without_id = _ids_of(sample, "qrels")
        if without_id:
            return self.make_not_applicable(sample, without_id)
        value, reason = self._value(ranking, sample.qrels)
        if value is None:
            return self.make_not_applicable(
                sample, reason or f"the qrels do not contain a relevant passage, so {self.name} is undefined"
            )
        return self._exact(sample, value, ranking, sample.qrels, pool="qrels")

    def _from_labels(self, sample: Sample, contexts: Sequence[Passage]) -> Score | NotApplicable:
        kind, k = self.measure.kind, self.measure.k
        if kind.name == "judged_share":
            known = {key_of(passage): passage.relevance for passage in contexts if passage.relevance is not None}
            keys = [key_of(passage) for passage in contexts]
            return self._exact(sample, self._value(keys, known)[0] or 0.0, keys, known, pool="contexts")
        if kind.labels == "collection":
            return self.make_not_applicable(
                sample,
                f"{self.name} requires the number of all relevant passages, and the sample has labels only on the "
                "retrieved passages. Add qrels",
                ("qrels",),
            )
        ranking = [key_of(passage) for passage in contexts]
        labels: dict[str, float | None] = {}
        for key, passage in zip(ranking, contexts, strict=True):
            labels.setdefault(key, passage.relevance)
        for rank, key in enumerate(ranking if kind.labels == "all" else ranking[:k], start=1):
            label = labels[key]
            if label is None:
                return self.make_not_applicable(
                    sample, f"passage {rank} does not have a relevance label, which {self.name} requires", ("qrels",)
                )
            if kind.labels == "first relevant" and label >= self.threshold:
                break
        grades = {key: label for key, label in labels.items() if label is not None}
        value, reason = self._value(ranking, grades)
        if value is None and kind.labels == "all":
            return self.make_not_applicable(
                sample,
                reason or f"no retrieved passage is labeled as relevant, so {self.name} of these passages is undefined",
            )
        # Other labels show that these ranks do not contain a relevant passage.
        return self._exact(sample, value or 0.0, ranking, grades, pool="contexts")

    def _value(self, ranking: Sequence[str], grades: Mapping[str, float]) -> tuple[float | None, str | None]:
        """Compute the value, or None and a reason. The reason is None if no passage is relevant."""
        if self.measure.kind.gain == "exp" and (top := max(grades.values(), default=0.0)) > MAX_GRADE:
            return None, f"2**grade is too large for the grade {top:g}. Use ndcg_linear"
        return self.measure.kind.function(ranking, grades, k=self.measure.k, threshold=self.threshold), None

    def _exact(
        self, sample: Sample, value: float, ranking: Sequence[str], grades: Mapping[str, float], *, pool: str
    ) -> Score:
        details: dict[str, Any] = {
            "pool": pool,
            "n_relevant": sum(grade >= self.threshold for grade in grades.values()),
            "n_retrieved": len(ranking),
            "n_ranks": len(set(ranking[: self.measure.k])),
            "n_unjudged": len(set(ranking[: self.measure.k]) - grades.keys()),
        }
        return self.make_score(sample, value, method="exact", details=details)


def _is_labeled(sample: Sample) -> bool:
    return sample.qrels is None and any(passage.relevance is not None for passage in sample.contexts or ())


class AlphaNdcg(MetricBase):
    """alpha-nDCG: graded ranking with a penalty for passages that repeat the answers of higher-ranked passages.

    The sample's `ratings` define the sub-questions and the passages that answer them. The pool consists of all passages
    with a rating of at least `rating_threshold` for any sub-question, retrieved or not.

    Args:
        k: Number of ranks that count, in the ranking and in the ideal order.
        alpha: Share of a sub-question's gain that one passage uses up.
        rating_threshold: Smallest rating that means that a passage answers the sub-question.
    """

    name = "alpha_ndcg"
    reads_passages = False
    group = "ranking"
    description = "Are passages ranked first that answer sub-questions not answered by higher-ranked passages?"
    _meaning = "the top passages repeat each other"
    _next_step = "Remove duplicates or diversify (MMR)."
    needs = ("contexts", "ratings")
    high = ALPHA_NDCG_MAX
    source = "Clarke et al. 2008, section 4; CRUX, section 3.3, equations 4 and 5"
    formula = (
        "sum of ng(rank) / log2(rank + 1) up to k / the same sum of the greedy ideal, "
        "ng = sum over the answered sub-questions of (1 - alpha)**(number of higher-ranked answers)"
    )

    def __init__(self, k: Cutoff, *, alpha: Share = ALPHA, rating_threshold: RatingThreshold = _ETA) -> None:
        self.k, self.alpha, self.rating_threshold = k, alpha, rating_threshold
        self.title = self.extend_title(f"Alpha-nDCG at {k} (diversity)", "k")
        self.version = f"1({alpha:g},{rating_threshold:g})"
        if (alpha, rating_threshold) == (ALPHA, _ETA):
            self.example = alpha_example_of(k)

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable:  # noqa: ARG002  the judge is not called
        assert sample.ratings is not None  # noqa: S101  checked by `check_sample`
        ranking, without_id = _ids_of(sample, "ratings")
        if without_id:
            return self.make_not_applicable(sample, without_id)
        covered = {
            question: [passage for passage, rating in rated.items() if rating >= self.rating_threshold]
            for question, rated in sample.ratings.items()
        }
        value = alpha_ndcg(ranking, covered, k=self.k, alpha=self.alpha)
        if value is None:
            return self.make_not_applicable(
                sample, f"no passage has a rating of at least {self.rating_threshold:g} for any sub-question"
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


def _ids_of(sample: Sample, labels: str) -> tuple[list[str], str | None]:
    """Return the ids of the passages, and what is wrong if one does not have an id."""
    found = [passage.id for passage in sample.contexts or ()]
    wrong = f"passage {found.index(None) + 1} does not have an id, which {labels} require" if None in found else None
    return [id_ for id_ in found if id_ is not None], wrong


def key_of(passage: Passage) -> str:
    """Return the key of a passage in its list: its id, or its text if it does not have an id."""
    return passage.text if passage.id is None else passage.id
