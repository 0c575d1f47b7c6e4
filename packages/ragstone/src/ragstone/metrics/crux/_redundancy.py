"""Redundancy: how much of what passages answer was answered above, passage by passage; and which bring something new."""

from __future__ import annotations

from typing import Any

from ragstone.metrics.crux import _examples
from ragstone.metrics.crux._base import FROM_REFERENCE, ContextsMetric
from ragstone.metrics.crux._findings import Questions, Rated
from ragstone.metrics.crux._matrix import Answers
from ragstone.schema import NotApplicable, Sample, Score

__all__ = ["Novelty", "Redundancy"]

_NOTHING_RETRIEVED = "no context: retrieval found nothing that could repeat itself or be new"


class _PerPassage(ContextsMetric):
    needs = ("contexts", "sub_questions")
    judge_calls_per_passage = 1

    def _of_nothing(self, sample: Sample) -> Score | NotApplicable:
        return self.make_not_applicable(sample, _NOTHING_RETRIEVED)


class Redundancy(_PerPassage):
    """Share of the answers in the passages that a passage above gives as well; `details` says it of each passage.

    The value does not depend on the order of the passages. Which of them are redundant does.
    """

    name = "crux.redundancy"
    title = "Context redundancy"
    advice = "High means that passages repeat each other. Next: Remove duplicates; diversify."
    description = f"How much of what the passages answer do they answer more than once? {FROM_REFERENCE}"
    source = "CRUX, section 3.2 (partially and fully redundant passages); the value is ours"
    formula = "(answers - different sub-questions answered) / answers, an answer being a passage with a sub-question"
    direction = "lower"
    example = _examples.REDUNDANCY

    def _value(self, sample: Sample, questions: Questions, rated: Rated, answers: Answers) -> Score | NotApplicable:
        if answers.redundancy is None:
            return self.make_not_applicable(sample, "no passage answers any sub-question: there is no answer to repeat")
        return self._made(
            sample, answers.redundancy, questions, rated, answers, passages=_passages(sample, rated, answers)
        )


class Novelty(_PerPassage):
    """Share of the passages that answer something no passage above them answers; the others could go.

    An irrelevant passage brings nothing new either.
    """

    name = "crux.novelty"
    title = "Context novelty"
    advice = "Low means that many passages add nothing new. Next: Retrieve fewer, or diversify."
    description = f"How many of the retrieved passages answer something that those above them do not? {FROM_REFERENCE}"
    source = "CRUX, section 3.2 (required and redundant passages); the value is ours"
    formula = "passages that answer a sub-question not answered above / passages"
    example = _examples.NOVELTY

    def _value(self, sample: Sample, questions: Questions, rated: Rated, answers: Answers) -> Score | NotApplicable:
        if answers.novelty is None:
            return self.make_not_applicable(sample, _NOTHING_RETRIEVED)
        return self._made(
            sample, answers.novelty, questions, rated, answers, passages=_passages(sample, rated, answers)
        )


def _passages(sample: Sample, rated: Rated, answers: Answers) -> list[dict[str, Any]]:
    return [
        {
            "position": position,
            "id": passage.id,
            "verdict": found.verdict,
            "new": list(found.new),
            "repeated": list(found.repeated),
            "best_rating": max((row.get(found.passage, 0.0) for row in rated.ratings.values()), default=0.0),
        }
        for position, (passage, found) in enumerate(zip(sample.contexts or (), answers.passages, strict=True), start=1)
    ]
