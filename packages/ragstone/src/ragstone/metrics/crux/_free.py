"""CRUX without a reference: metrics on sub-questions that the judge writes from the query alone.

The collection may not contain answers to all of these sub-questions. It is unknown which ones are answerable, so all of
them count. Values are lower than those of `crux` and not comparable with them. Therefore the group has its own name.
"""

from __future__ import annotations

from dataclasses import replace

from ragstone.judges import Judge
from ragstone.metrics._history import question_fields
from ragstone.metrics.crux import _examples
from ragstone.metrics.crux._asking import RATING_EXAMPLES, RATING_TASK, TASK_FROM_QUERY, sub_questions_of
from ragstone.metrics.crux._base import CruxMetric
from ragstone.metrics.crux._coverage import Coverage, ResponseCoverage
from ragstone.metrics.crux._findings import Questions, questions_in
from ragstone.metrics.crux._redundancy import Novelty, Redundancy
from ragstone.schema import Failure, NotApplicable, Sample, Score


class _Free(CruxMetric):
    source = "adapted from CRUX, section 3.1. Sub-questions from the query are our own"
    needs = ("query", "contexts")
    judge_calls = 1
    tasks = (TASK_FROM_QUERY, RATING_TASK, RATING_EXAMPLES)

    def check_sample(self, sample: Sample) -> NotApplicable | None:
        """Check the needed fields. The sample's sub-questions, ratings and references are ignored."""
        return super().check_sample(_without_labels(sample))

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        """Score `sample`. Its sub-questions, ratings and references are ignored."""
        return await super().compute(_without_labels(sample), judge)

    async def _questions(self, sample: Sample, judge: Judge) -> Questions:
        reply = await sub_questions_of(judge, TASK_FROM_QUERY, **question_fields(sample))
        return replace(questions_in(reply.texts, "query", sample), replies=((reply.raw, reply.method),))


class FreeCoverage(_Free, Coverage):
    """Share of the sub-questions written from the query that at least one retrieved passage answers."""

    name = "crux_reference_free.coverage"
    title = "Context coverage (reference-free)"
    _meaning = "passages do not cover what the query seems to ask"
    _next_step = 'Read details["missing"]; never compare with context coverage.'
    description = "How many sub-questions of the query do the retrieved passages answer?"
    formula = "sub-questions of the query that a retrieved passage answers (rating >= 3) / sub-questions of the query"
    example = _examples.FREE_COVERAGE


class FreeResponseCoverage(_Free, ResponseCoverage):
    """Share of the sub-questions written from the query that the response answers."""

    name = "crux_reference_free.response_coverage"
    title = "Answer coverage (reference-free)"
    _meaning = "the answer does not cover what the query seems to ask"
    _next_step = "If the context value is high, fix the generator."
    description = "How many sub-questions of the query does the response answer?"
    formula = "sub-questions of the query that the response answers (rating >= 3) / sub-questions of the query"
    needs = ("query", "response")
    judge_calls = 2
    example = _examples.FREE_RESPONSE_COVERAGE


class FreeRedundancy(_Free, Redundancy):
    """Share of the answers to sub-questions written from the query that repeat an answer of a higher-ranked passage."""

    name = "crux_reference_free.redundancy"
    title = "Context redundancy (reference-free)"
    _meaning = "passages repeat each other"
    _next_step = "Remove duplicates; diversify."
    description = "How many answers to sub-questions of the query do the passages repeat?"
    example = _examples.FREE_REDUNDANCY


class FreeNovelty(_Free, Novelty):
    """Share of the passages that are the first to answer a sub-question written from the query."""

    name = "crux_reference_free.novelty"
    title = "Context novelty (reference-free)"
    _meaning = "many passages add nothing new"
    _next_step = "Retrieve fewer, or diversify."
    description = "How many passages answer a sub-question of the query that no higher-ranked passage answers?"
    example = _examples.FREE_NOVELTY


def _without_labels(sample: Sample) -> Sample:
    return sample.model_copy(update={"sub_questions": (), "ratings": None, "reference": ()})
