"""The base classes of CRUX metrics, which obtain sub-questions and ratings."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, Final

from ragstone.judges import Judge, common_method
from ragstone.metrics._arguments import RatingThreshold
from ragstone.metrics._base import TEXTLESS, MetricBase, find_missing_fields, have_no_text
from ragstone.metrics.crux._asking import RATING_EXAMPLES, RATING_TASK, TASK_FROM_REFERENCE, sub_questions_of
from ragstone.metrics.crux._findings import (
    Questions,
    Rated,
    find_invalid_rating,
    questions_in,
    rate_contexts,
    rate_response,
    threshold_of,
)
from ragstone.metrics.crux._matrix import ETA, Answers, answers_of
from ragstone.schema import Failure, NotApplicable, Sample, Score

FROM_REFERENCE: Final = "If sub_questions are missing, the judge writes them from the reference (one additional call)."
"""Sentence in descriptions about samples without sub-questions."""

_SHOWN = 3
"""Maximum number of missing sub-questions in the explanation. `details` contains all."""


class CruxMetric(MetricBase):
    """Base class of metrics on sub-questions.

    If the sample does not have sub-questions, the judge writes them from its reference, with one additional call.

    Args:
        rating_threshold: Smallest rating that means that a text answers a sub-question (η), which is then part of the
            metric's name (`crux.coverage@4`). None: the threshold that the dataset states, or 3.
    """

    tasks = (TASK_FROM_REFERENCE, RATING_TASK, RATING_EXAMPLES)

    def __init__(self, rating_threshold: RatingThreshold | None = None) -> None:
        self.rating_threshold = rating_threshold
        if rating_threshold is not None:
            self.formula = self.formula.replace(f"rating >= {ETA:g}", f"rating >= {rating_threshold:g}")
            self.version = f"{self.version}(eta={rating_threshold:g})"
            # The example is calculated with the default threshold.
            self.example = None

    def eta(self, sample: Sample) -> float:
        """Return the smallest rating that means that a text answers a sub-question of the sample."""
        return threshold_of(sample) if self.rating_threshold is None else self.rating_threshold

    def check_sample(self, sample: Sample) -> NotApplicable | None:
        """Check the needed fields. A reference replaces missing sub-questions, and ratings replace missing texts."""
        has_reference = bool(_reference(sample))
        missing = tuple(
            name for name in find_missing_fields(sample, self.needs) if name != "sub_questions" or not has_reference
        )
        if missing:
            names = ("sub_questions or reference" if name == "sub_questions" else name for name in missing)
            reason = f"the sample has no {' and no '.join(names)}"  # codespell:ignore (stored reason)
            return self.make_not_applicable(sample, reason, missing)
        if sample.ratings is None and "contexts" in self.needs and have_no_text(sample):
            return self.make_not_applicable(sample, TEXTLESS)
        invalid = find_invalid_rating(sample)
        return self.make_not_applicable(sample, invalid) if invalid else None

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        if self._is_blank(sample) and self._known(sample) is None:
            # The outcome does not depend on the sub-questions, so none are requested.
            return self._without_text(sample)
        questions = await self._questions(sample, judge)
        if not questions.texts:
            return self.make_not_applicable(sample, _explain_no_questions(questions))
        return await self._from(sample, questions, judge)

    @abstractmethod
    def _is_blank(self, sample: Sample) -> bool:
        """Return whether the text to rate is blank."""

    def _without_text(self, sample: Sample) -> Score | NotApplicable:
        """Make the outcome for a blank text, which does not answer any sub-question."""
        details = {"answered": [], "n_judged": 0}
        return self.make_score(sample, 0.0, method="no_text", explanation="the text is blank", details=details)

    async def _from(self, sample: Sample, questions: Questions, judge: Judge) -> Score | NotApplicable:
        """Compute the outcome from at least one sub-question that counts."""
        rated = await self._rate(sample, questions, judge)
        answers = answers_of(rated.keys, rated.ratings, questions.texts, rating_threshold=self.eta(sample))
        return self._value(sample, questions, rated, answers)

    @abstractmethod
    async def _rate(self, sample: Sample, questions: Questions, judge: Judge) -> Rated:
        """Rate the passages or the response."""

    @abstractmethod
    def _value(self, sample: Sample, questions: Questions, rated: Rated, answers: Answers) -> Score | NotApplicable:
        """Compute the outcome from the sub-questions that the passages, or the response, answer."""

    async def _questions(self, sample: Sample, judge: Judge) -> Questions:
        if (known := self._known(sample)) is not None:
            return known
        reply = await sub_questions_of(judge, TASK_FROM_REFERENCE, reference=_reference(sample))
        return replace(questions_in(reply.texts, "reference", sample), replies=((reply.raw, reply.method),))

    def _known(self, sample: Sample) -> Questions | None:
        """Return the sample's own sub-questions, or None if it does not have any."""
        if any(text.strip() for text in sample.sub_questions):
            return questions_in(sample.sub_questions, "given", sample)
        return None

    def _made(
        self, sample: Sample, value: float, questions: Questions, rated: Rated, answers: Answers, **more: Any
    ) -> Score:
        """Make the score, with the answered and the missing sub-questions in its details."""
        replies = [*questions.replies, *((reply.raw, reply.method) for reply in rated.replies if reply.method)]
        missing = "; ".join(answers.missing[:_SHOWN]) + ("; ..." if len(answers.missing) > _SHOWN else "")
        n = len(questions.texts)
        details = questions.details() | {"eta": self.eta(sample), "answered": list(answers.answered)}
        return self.make_score(
            sample,
            value,
            method=common_method(method for _, method in replies) if replies else "exact",
            n=max(1, len(replies)),
            raw="\n".join(raw for raw, _ in replies) or None,
            explanation=f"{len(answers.answered)} of {n} sub-questions answered"
            + (f". Missing: {missing}" if missing else ""),
            details=details | {"missing": list(answers.missing), "n_judged": rated.n_judged} | more,
        )


class ContextsMetric(CruxMetric):
    """Base class of metrics on the sub-questions that the retrieved passages answer."""

    def _is_blank(self, sample: Sample) -> bool:
        return not any(passage.text.strip() for passage in sample.contexts or ())

    async def _rate(self, sample: Sample, questions: Questions, judge: Judge) -> Rated:
        return await rate_contexts(sample, questions, judge)


class ResponseMetric(CruxMetric):
    """Base class of metrics on the sub-questions that the response answers."""

    def _is_blank(self, sample: Sample) -> bool:
        return not (sample.response or "").strip()

    async def _rate(self, sample: Sample, questions: Questions, judge: Judge) -> Rated:
        return await rate_response(sample, questions, judge)


def _reference(sample: Sample) -> str:
    """Return the first reference. Each reference is a complete answer, so one of them covers all that is needed."""
    return next((text for text in sample.reference if text.strip()), "")


def _explain_no_questions(questions: Questions) -> str:
    if questions.unanswerable:
        return f"no rated passage answers any of the {len(questions.unanswerable)} sub-questions, so the share is undefined"
    return f"the judge wrote no sub-questions from the {questions.source}"
