"""CRUX without a reference: by sub-questions that the judge writes from the query alone.

What a query asks for is not what the collection holds, so nobody knows which of these can be answered, and all of them
count. The values are lower than those of `crux`, and not comparable with them; hence the other name.
"""

from __future__ import annotations

from dataclasses import replace

from ragstone.judges import Judge
from ragstone.metrics.crux import _examples
from ragstone.metrics.crux._asking import RATING_TASK, TASK_FROM_QUERY, sub_questions_of
from ragstone.metrics.crux._base import CruxMetric
from ragstone.metrics.crux._coverage import Coverage, ResponseCoverage
from ragstone.metrics.crux._findings import Questions, questions_in
from ragstone.metrics.crux._redundancy import Novelty, Redundancy
from ragstone.schema import Failure, NotApplicable, Sample, Score

__all__ = ["FreeCoverage", "FreeNovelty", "FreeRedundancy", "FreeResponseCoverage"]

_SOURCE = "after CRUX, section 3.1; sub-questions from the query are ours"


class _Free(CruxMetric):
    group = "crux_reference_free"
    source = _SOURCE
    tasks = (TASK_FROM_QUERY, RATING_TASK)

    def check_sample(self, sample: Sample) -> NotApplicable | None:
        """As for every metric; the sample's own sub-questions, ratings and references are ignored."""
        return super().check_sample(_bare(sample))

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        """Score `sample`; its own sub-questions, ratings and references are ignored."""
        return await super().compute(_bare(sample), judge)

    async def _questions(self, sample: Sample, judge: Judge) -> Questions:
        reply = await sub_questions_of(judge, TASK_FROM_QUERY, query=sample.query or "")
        questions = questions_in(reply.texts, "query", sample, rating_threshold=self.rating_threshold)
        return replace(questions, replies=((reply.raw, reply.method),))


class FreeCoverage(_Free, Coverage):
    """Share of the sub-questions written from the query that at least one retrieved passage answers."""

    name = "crux_reference_free.coverage"
    title = "Context coverage (reference-free)"
    advice = (
        "Low means that passages do not cover what the query seems to ask. "
        'Next: Read details["missing"]; never compare with context coverage.'
    )
    description = "How much of what the query calls for is in the retrieved passages, counted in sub-questions?"
    formula = "sub-questions of the query that a retrieved passage answers (rating >= 3) / sub-questions of the query"
    needs = ("query", "contexts")
    judge_calls = 1
    example = _examples.FREE_COVERAGE


class FreeResponseCoverage(_Free, ResponseCoverage):
    """Share of the sub-questions written from the query that the response answers."""

    name = "crux_reference_free.response_coverage"
    title = "Answer coverage (reference-free)"
    advice = (
        "Low means that the answer does not cover what the query seems to ask. "
        "Next: If the context value is high, fix the generator."
    )
    description = "How much of what the query calls for does the response say, counted in sub-questions?"
    formula = "sub-questions of the query that the response answers (rating >= 3) / sub-questions of the query"
    needs = ("query", "response")
    judge_calls = 2
    example = _examples.FREE_RESPONSE_COVERAGE


class FreeRedundancy(_Free, Redundancy):
    """Share of the answers to those sub-questions that a passage above gives as well."""

    name = "crux_reference_free.redundancy"
    title = "Context redundancy (reference-free)"
    advice = "High means that passages repeat each other. Next: Remove duplicates; diversify."
    needs = ("query", "contexts")
    judge_calls = 1
    example = _examples.FREE_REDUNDANCY


class FreeNovelty(_Free, Novelty):
    """Share of the passages that answer one of those sub-questions first."""

    name = "crux_reference_free.novelty"
    title = "Context novelty (reference-free)"
    advice = "Low means that many passages add nothing new. Next: Retrieve fewer, or diversify."
    needs = ("query", "contexts")
    judge_calls = 1
    example = _examples.FREE_NOVELTY


def _bare(sample: Sample) -> Sample:
    return sample.model_copy(update={"sub_questions": (), "ratings": None, "reference": ()})
