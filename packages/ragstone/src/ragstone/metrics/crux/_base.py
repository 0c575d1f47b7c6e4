"""What all CRUX metrics do first: find the sub-questions that count, then the ratings."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Final

from ragstone.judges import Judge
from ragstone.metrics._base import TEXTLESS, MetricBase, find_missing_fields, have_no_text
from ragstone.metrics.crux._asking import RATING_TASK, TASK_FROM_REFERENCE, sub_questions_of
from ragstone.metrics.crux._findings import (
    Questions,
    Rated,
    find_invalid_rating,
    questions_in,
    rate_contexts,
    rate_response,
)
from ragstone.metrics.crux._matrix import ETA, Answers, answers_of
from ragstone.schema import Failure, NotApplicable, Sample, Score

__all__ = ["FROM_REFERENCE", "ContextsMetric", "CruxMetric", "ResponseMetric"]

FROM_REFERENCE: Final = "Where a sample has no sub_questions, they are written from its reference, for one call more."
"""What a user who has none wants to know."""

_SHOWN = 3
"""Missing sub-questions that the explanation names; `details` has all."""


class CruxMetric(MetricBase):
    """A metric on sub-questions: those of the sample, else written from its reference, which costs one call more."""

    group = "crux"
    rating_threshold: ClassVar[float] = ETA
    tasks = (TASK_FROM_REFERENCE, RATING_TASK)

    def check_sample(self, sample: Sample) -> NotApplicable | None:
        """As for every metric, but a reference replaces missing sub-questions, and ratings replace missing texts."""
        referred = bool(_reference(sample))
        missing = tuple(
            name for name in find_missing_fields(sample, self.needs) if name != "sub_questions" or not referred
        )
        if missing:
            named = (
                f"{name} (nor a reference to make them from)" if name == "sub_questions" else name for name in missing
            )
            return self.make_not_applicable(sample, f"the sample has no {' and no '.join(named)}", missing)
        if sample.ratings is None and "contexts" in self.needs and have_no_text(sample):
            return self.make_not_applicable(sample, TEXTLESS)
        odd = find_invalid_rating(sample)
        return self.make_not_applicable(sample, odd) if odd else None

    async def compute(self, sample: Sample, judge: Judge) -> Score | NotApplicable | Failure:
        if self._nothing_in(sample) and self._known(sample) is None:
            # No sub-question need be written to know what nothing answers.
            return self._of_nothing(sample)
        questions = await self._questions(sample, judge)
        if not questions.texts:
            return self.make_not_applicable(sample, _none_counts(questions))
        return await self._from(sample, questions, judge)

    @abstractmethod
    def _nothing_in(self, sample: Sample) -> bool:
        """Whether there is no text to rate."""

    def _of_nothing(self, sample: Sample) -> Score | NotApplicable:
        """The outcome where there is no text to rate: it answers nothing."""
        details = {"answered": [], "n_judged": 0}
        return self.make_score(
            sample, 0.0, method="no_text", explanation="there is no text to answer anything", details=details
        )

    @abstractmethod
    async def _from(self, sample: Sample, questions: Questions, judge: Judge) -> Score | NotApplicable:
        """The outcome, with at least one sub-question that counts."""

    async def _questions(self, sample: Sample, judge: Judge) -> Questions:
        if (known := self._known(sample)) is not None:
            return known
        reply = await sub_questions_of(judge, TASK_FROM_REFERENCE, reference=_reference(sample))
        questions = questions_in(reply.texts, "reference", sample, rating_threshold=self.rating_threshold)
        return replace(questions, replies=((reply.raw, reply.method),))

    def _known(self, sample: Sample) -> Questions | None:
        """The sub-questions that need no judge; None where there are none."""
        if any(text.strip() for text in sample.sub_questions):
            return questions_in(sample.sub_questions, "given", sample, rating_threshold=self.rating_threshold)
        return None

    def _answered(self, rated: Rated, questions: Questions) -> Answers:
        return answers_of(rated.keys, rated.ratings, questions.texts, rating_threshold=self.rating_threshold)

    def _made(
        self, sample: Sample, value: float, questions: Questions, rated: Rated, answers: Answers, **more: Any
    ) -> Score:
        """The score, with what was answered and what is missing."""
        said = [*questions.replies, *((reply.raw, reply.method) for reply in rated.replies if reply.method)]
        methods = list(dict.fromkeys(method for _, method in said))
        missing = "; ".join(answers.missing[:_SHOWN]) + ("; ..." if len(answers.missing) > _SHOWN else "")
        n = len(questions.texts)
        details = questions.details() | {"eta": self.rating_threshold, "answered": list(answers.answered)}
        return self.make_score(
            sample,
            value,
            method="exact" if not methods else methods[0] if len(methods) == 1 else "mixed",
            n=max(1, len(said)),
            raw="\n".join(raw for raw, _ in said) or None,
            explanation=f"{len(answers.answered)} of {n} sub-questions answered"
            + (f"; missing: {missing}" if missing else ""),
            details=details | {"missing": list(answers.missing), "n_judged": rated.n_judged} | more,
        )


class ContextsMetric(CruxMetric):
    """A metric on what the retrieved passages answer."""

    def _nothing_in(self, sample: Sample) -> bool:
        return not any(passage.text.strip() for passage in sample.contexts or ())

    async def _from(self, sample: Sample, questions: Questions, judge: Judge) -> Score | NotApplicable:
        rated = await rate_contexts(sample, questions, judge)
        return self._value(sample, questions, rated, self._answered(rated, questions))

    @abstractmethod
    def _value(self, sample: Sample, questions: Questions, rated: Rated, answers: Answers) -> Score | NotApplicable:
        """The outcome, from what the passages answer."""


class ResponseMetric(CruxMetric):
    """A metric on what the response answers."""

    def _nothing_in(self, sample: Sample) -> bool:
        return not (sample.response or "").strip()

    async def _from(self, sample: Sample, questions: Questions, judge: Judge) -> Score | NotApplicable:
        rated = await rate_response(sample, questions, judge)
        return self._value(sample, questions, rated, self._answered(rated, questions))

    @abstractmethod
    def _value(self, sample: Sample, questions: Questions, rated: Rated, answers: Answers) -> Score | NotApplicable:
        """The outcome, from what the response answers."""


def _reference(sample: Sample) -> str:
    """The first reference. Any one is a complete answer: what all of them say together would ask for too much."""
    return next((text for text in sample.reference if text.strip()), "")


def _none_counts(questions: Questions) -> str:
    if questions.unanswerable:
        return (
            f"no rated passage answers any of the {len(questions.unanswerable)} sub-questions: a share of none is "
            "undefined"
        )
    return f"the judge found no sub-question in the {questions.source}"
