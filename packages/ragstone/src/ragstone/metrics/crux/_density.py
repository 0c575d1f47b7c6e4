"""Density: coverage per token, relative to the required passages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ragstone._util.words import split_words
from ragstone.metrics._arguments import Positive, RatingThreshold
from ragstone.metrics.crux import _examples
from ragstone.metrics.crux._base import ContextsMetric, CruxMetric, ResponseMetric
from ragstone.metrics.crux._findings import Questions, Rated, own_ratings, threshold_of
from ragstone.metrics.crux._matrix import DENSITY_WEIGHT, Answers, answers_of, relative_density, required_subset
from ragstone.schema import NotApplicable, Sample, Score

_REQUIRED: Final = "required"
"""Key of the required passages (id to text) in a row of `ragstone lab dataset`."""
_EMPTY: Final = "the text has 0 tokens, so coverage per token is undefined"


class _PerToken(CruxMetric):
    """Base class of metrics of coverage per token, relative to the required passages.

    Tokens are words, or characters in scripts without spaces. Both sides use the same unit, so it cancels out.

    Args:
        rating_threshold: Smallest rating that means that a text answers a sub-question. None: as in all metrics.
            With another threshold than that of the dataset, other passages are required, whose texts must be known.
        weight: Exponent w, above 0.
    """

    high = float("inf")

    def __init__(self, rating_threshold: RatingThreshold | None = None, *, weight: Positive = DENSITY_WEIGHT) -> None:
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
        eta = self.eta(sample)
        required, missing = _required_at(sample, questions, eta)
        if missing:
            return self.make_not_applicable(
                sample,
                f"with the rating threshold {eta:g}, the passage {missing!r} is required, and its text is not in the "
                f"sample, which was built with {threshold_of(sample):g}. Build the dataset with --rating-threshold {eta:g}",
                (_REQUIRED,),
            )
        oracle = answers_of(required, sample.ratings or {}, questions.texts, rating_threshold=eta)
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
    _meaning = "the contexts are long for what they answer"
    _next_step = "Use smaller chunks or fewer passages."
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
    _meaning = "the answer is long for what it says (above 1 is good)"
    _next_step = "Ask for shorter answers."
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


def _required_at(sample: Sample, questions: Questions, eta: float) -> tuple[dict[str, str], str | None]:
    """Return the texts of the passages that are required with a threshold, and one whose text is not known, if any."""
    known = _required(sample)
    if eta == threshold_of(sample):
        return known, None
    texts = known | {passage.id: passage.text for passage in sample.contexts or () if passage.id}
    names = required_subset(own_ratings(sample, questions), rating_threshold=eta)
    missing = next((name for name in names if name not in texts), None)
    return {name: texts[name] for name in names if name in texts}, missing


def _undefined(tokens: int, required_tokens: int) -> str:
    if not tokens:
        return _EMPTY
    return (
        "the required passages have 0 tokens"
        if not required_tokens
        else "the required passages do not answer any sub-question"
    )
