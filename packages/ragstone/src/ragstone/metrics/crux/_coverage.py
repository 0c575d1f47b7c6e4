"""Coverage of sub-questions by the passages, by the response, and by rank."""

from __future__ import annotations

from ragstone.metrics._arguments import Cutoff, RatingThreshold, Share
from ragstone.metrics._card import WorkedExample
from ragstone.metrics.crux import _examples
from ragstone.metrics.crux._base import FROM_REFERENCE, ContextsMetric, CruxMetric, ResponseMetric
from ragstone.metrics.crux._findings import Questions, Rated, own_ratings
from ragstone.metrics.crux._matrix import Answers, covered_by, required_subset
from ragstone.metrics.ranking import ALPHA, ALPHA_NDCG_MAX, alpha_ndcg
from ragstone.schema import NotApplicable, Sample, Score


class _Share(CruxMetric):
    """Share of the sub-questions that are answered."""

    def _value(self, sample: Sample, questions: Questions, rated: Rated, answers: Answers) -> Score | NotApplicable:
        share = len(answers.answered) / len(questions.texts)
        return self._made(sample, share, questions, rated, answers, ratings=rated.judged)


class Coverage(_Share, ContextsMetric):
    """Share of the answerable sub-questions that at least one retrieved passage answers.

    If retrieval returned no passages, coverage is 0.
    """

    name = "crux.coverage"
    title = "Context coverage"
    _meaning = "retrieval misses facts that a complete answer needs"
    _next_step = 'Read details["missing"]; retrieve more, or other sources.'
    description = f"How many sub-questions of a complete answer do the retrieved passages answer? {FROM_REFERENCE}"
    source = "CRUX, section 3.3, equation 3"
    formula = "answerable sub-questions that a retrieved passage answers (rating >= 3) / answerable sub-questions"
    needs = ("contexts", "sub_questions")
    judge_calls_per_passage = 1
    example = _examples.COVERAGE


class ResponseCoverage(_Share, ResponseMetric):
    """Share of the answerable sub-questions that the response answers.

    For an empty response, coverage is 0 without a judge call.
    """

    name = "crux.response_coverage"
    title = "Answer coverage"
    _meaning = "the answer omits sub-questions"
    _next_step = "If context coverage is high, fix the generator."
    description = f"How many sub-questions of a complete answer does the response answer? {FROM_REFERENCE}"
    source = "CRUX, section 3.3, equation 3, applied to the response"
    formula = "answerable sub-questions that the response answers (rating >= 3) / answerable sub-questions"
    needs = ("response", "sub_questions")
    judge_calls = 1
    example = _examples.RESPONSE_COVERAGE


class RankedCoverage(ContextsMetric):
    """alpha-nDCG of the retrieved order, with sub-questions as topics.

    The pool contains the rated and the retrieved passages. By default k is the number of retrieved passages, but at
    least the size of the required subset. A retrieval of fewer passages than required therefore scores below 1.

    Args:
        rating_threshold: Smallest rating that means that a passage answers a sub-question. None: as in all metrics.
        alpha: Share of a sub-question's gain that one passage uses up, from 0 to 1.
        k: Number of ranks that count, in the ranking and in the ideal order. None: the rule above.
    """

    name = "crux.ranked_coverage"
    title = "Ranked coverage"
    _meaning = "passages with new facts come late"
    _next_step = "Rerank for diversity."
    description = "Are the passages that answer new sub-questions ranked first?"
    source = "CRUX, section 3.3, equations 4 and 5. Clarke et al. 2008"
    formula = (
        "sum of gain(r) / log2(r + 1), divided by that of the greedy ideal, "
        "gain = sum over the answered sub-questions of 0.5**(number of higher-ranked answers)"
    )
    needs = ("contexts", "sub_questions", "ratings")
    high = ALPHA_NDCG_MAX
    judge_calls_per_passage = 1
    example: WorkedExample | None = _examples.RANKED_COVERAGE

    def __init__(
        self, rating_threshold: RatingThreshold | None = None, *, alpha: Share = ALPHA, k: Cutoff | None = None
    ) -> None:
        self.alpha = alpha
        self.k = k
        if (alpha, k) != (ALPHA, None):
            self.version = f"1(alpha={alpha:g},k={k})"
            self.formula = self.formula.replace("0.5**", f"{1 - alpha:g}**")
            self.example = None
        super().__init__(rating_threshold)

    def _value(self, sample: Sample, questions: Questions, rated: Rated, answers: Answers) -> Score | NotApplicable:
        eta = self.eta(sample)
        covered = covered_by(rated.ratings, rating_threshold=eta)
        n_required = len(required_subset(own_ratings(sample, questions), rating_threshold=eta))
        k = self.k or max(1, len(rated.keys), n_required)
        value = alpha_ndcg(rated.keys, covered, k=k, alpha=self.alpha)
        if value is None:
            return self.make_not_applicable(
                sample, "no passage answers any sub-question, so the ideal order is undefined"
            )
        n_pool = len({passage for row in rated.ratings.values() for passage in row})
        more = {"alpha": self.alpha, "k": k, "n_pool": n_pool, "n_required": n_required}
        return self._made(sample, value, questions, rated, answers, **more)
