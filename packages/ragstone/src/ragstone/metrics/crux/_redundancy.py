"""Redundancy and novelty: answers that passages repeat, and passages that add new answers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from ragstone.metrics.crux import _examples
from ragstone.metrics.crux._base import FROM_REFERENCE, ContextsMetric
from ragstone.metrics.crux._findings import Questions, Rated
from ragstone.metrics.crux._matrix import Answers
from ragstone.schema import NotApplicable, Sample, Score

_NO_PASSAGES = "retrieval returned no passages with text"


class _PerPassage(ContextsMetric):
    needs = ("contexts", "sub_questions")
    judge_calls_per_passage = 1
    undefined = _NO_PASSAGES
    """Why the metric is not applicable if its value is undefined."""

    def _without_text(self, sample: Sample) -> Score | NotApplicable:
        return self.make_not_applicable(sample, _NO_PASSAGES)

    def _value(self, sample: Sample, questions: Questions, rated: Rated, answers: Answers) -> Score | NotApplicable:
        value = self._share(answers)
        if value is None:
            return self.make_not_applicable(sample, self.undefined)
        return self._made(sample, value, questions, rated, answers, passages=_passages(sample, rated, answers))

    @abstractmethod
    def _share(self, answers: Answers) -> float | None:
        """Return the value, or None if it is undefined."""


class Redundancy(_PerPassage):
    """Share of the answers in the passages that repeat an answer of a higher-ranked passage.

    `details` lists new and repeated answers per passage. The value does not depend on the order of the passages, but
    the order determines which passages are redundant.
    """

    name = "crux.redundancy"
    title = "Context redundancy"
    _meaning = "passages repeat each other"
    _next_step = "Remove duplicates; diversify."
    description = f"How many of the answers in the passages are repetitions? {FROM_REFERENCE}"
    source = "CRUX, section 3.2 (partially and fully redundant passages). The value is our own"
    formula = "(answers - distinct answered sub-questions) / answers, answer = pair of a passage and a sub-question"
    direction = "lower"
    example = _examples.REDUNDANCY
    undefined = "no passage answers any sub-question"

    def _share(self, answers: Answers) -> float | None:
        return answers.redundancy


class Novelty(_PerPassage):
    """Share of the passages that answer a sub-question that no higher-ranked passage answers.

    The other passages could be removed. They are redundant or irrelevant.
    """

    name = "crux.novelty"
    title = "Context novelty"
    _meaning = "many passages add nothing new"
    _next_step = "Retrieve fewer, or diversify."
    description = f"How many passages answer a sub-question that no higher-ranked passage answers? {FROM_REFERENCE}"
    source = "CRUX, section 3.2 (required and redundant passages). The value is our own"
    formula = "passages that answer a sub-question first / passages"
    example = _examples.NOVELTY

    def _share(self, answers: Answers) -> float | None:
        return answers.novelty


def _passages(sample: Sample, rated: Rated, answers: Answers) -> list[dict[str, Any]]:
    return [
        {
            "position": position,
            "id": passage.id,
            "verdict": one.verdict,
            "new": list(one.new),
            "repeated": list(one.repeated),
            "best_rating": max((row.get(one.passage, 0.0) for row in rated.ratings.values()), default=0.0),
        }
        for position, (passage, one) in enumerate(zip(sample.contexts or (), answers.passages, strict=True), start=1)
    ]
