"""Density: coverage per token, relative to the required passages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ragstone._util.words import split_words
from ragstone.metrics._arguments import Positive, RatingThreshold
from ragstone.metrics.crux import _examples
from ragstone.metrics.crux._base import ContextsMetric, CruxMetric, ResponseMetric
from ragstone.metrics.crux._findings import Questions, Rated
from ragstone.metrics.crux._matrix import DENSITY_WEIGHT, ETA, Answers, answers_of, relative_density
from ragstone.schema import NotApplicable, Sample, Score

_REQUIRED: Final = "required"
"""Key of the required passages (id to text) in a row of `ragstone lab dataset`."""
_EMPTY: Final = "the text has 0 tokens, so coverage per token is undefined"


class _PerToken(CruxMetric):
    """Base class of metrics of coverage per token, relative to the required passages.

    Tokens are words, or characters in scripts without spaces. Both sides use the same unit, so it cancels out.

    Args:
        rating_threshold: Smallest rating that means that a text answers a sub-question.
        weight: Exponent w, above 0.
    """

    high = float("inf")

    def __init__(
        self,
        rating_threshold: RatingThreshold = ETA,
        *,
        weight: Positive = DENSITY_WEIGHT,
    ) -> None:
        self.weight = weight
        if weight != DENSITY_WEIGHT:
            self.version = f"1(w={weight:g})"
            self.formula = self.formula.replace("** 0.5", f"** {weight:g}")
            self.example = None
        super().__init__(rating_threshold)

    def check_sample(self, sample: Sample) -> NotApplicable | None:
        """Check the needed fields. A rated sample also needs the texts of the required passages."""
        if sample.ratings and not _required(sample):
            reason = (
                "the required passages, which density needs for comparison, are missing from the sample. "
                "`ragstone lab dataset` writes them as required={id: text}"
            )
            return self.make_not_applicable(sample, reason, (_REQUIRED,))
        return super().check_sample(sample)

    def _without_text(self, sample: Sample) -> Score | NotApplicable:
        return self.make_not_applicable(sample, _EMPTY)

    def _text(self, sample: Sample) -> str:
        raise NotImplementedError

    def _value(self, sample: Sample, questions: Questions, rated: Rated, answers: Answers) -> Score | NotApplicable:
        required = _required(sample)
        oracle = answers_of(required, sample.ratings or {}, questions.texts, rating_threshold=self.rating_threshold)
        n = len(questions.texts)
        tokens, required_tokens = len(split_words(self._text(sample))), len(split_words("\n".join(required.values())))
        coverage, required_coverage = len(answers.answered) / n, len(oracle.answered) / n
        value = relative_density(
            coverage=coverage,
            tokens=tokens,
            required_coverage=required_coverage,
            required_tokens=required_tokens,
            weight=self.weight,
        )
        if value is None:
            return self.make_not_applicable(sample, _undefined(tokens, required_tokens))
        more = {
            "coverage": coverage,
            "tokens": tokens,
            "required": list(required),
            "required_coverage": required_coverage,
            "required_tokens": required_tokens,
            "weight": self.weight,
        }
        return self._made(sample, value, questions, rated, answers, **more)


class Density(_PerToken, ContextsMetric):
    """Coverage per token of the retrieved passages, relative to the required passages, to the power 0.5. Not clipped."""

    name = "crux.density"
    title = "Context density"
    advice = "Low means that the contexts are long for what they answer. Next: Use smaller chunks or fewer passages."
    description = "How much do the retrieved passages answer for their length, relative to the required passages?"
    source = "CRUX, section 3.3, equation 6"
    formula = "((coverage / tokens) / (coverage / tokens of the required passages)) ** 0.5"
    needs = ("contexts", "sub_questions", "ratings")
    judge_calls_per_passage = 1
    example = _examples.DENSITY

    def _text(self, sample: Sample) -> str:
        return "\n".join(passage.text for passage in sample.contexts or ())


class ResponseDensity(_PerToken, ResponseMetric):
    """Coverage per token of the response, relative to the required passages, to the power 0.5. Not clipped."""

    name = "crux.response_density"
    title = "Answer density"
    advice = "Low means that the answer is long for what it says (above 1 is good). Next: Ask for shorter answers."
    description = "How much does the response answer for its length, relative to the required passages?"
    source = "CRUX, section 3.3, equation 6, applied to the response"
    formula = "((coverage / tokens of the response) / (coverage / tokens of the required passages)) ** 0.5"
    needs = ("response", "sub_questions", "ratings")
    judge_calls = 1
    example = _examples.RESPONSE_DENSITY

    def _text(self, sample: Sample) -> str:
        return sample.response or ""


def _required(sample: Sample) -> dict[str, str]:
    required = sample.metadata.get(_REQUIRED)
    if not isinstance(required, Mapping):
        return {}
    return {str(name): text for name, text in required.items() if isinstance(text, str)}


def _undefined(tokens: int, required_tokens: int) -> str:
    if not tokens:
        return _EMPTY
    return (
        "the required passages have 0 tokens"
        if not required_tokens
        else "the required passages do not answer any sub-question"
    )
