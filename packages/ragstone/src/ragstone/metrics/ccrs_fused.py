"""CCRS with one judge call: the five ratings of a response in one JSON reply. The prompt is our own.

The definitions are those of `ccrs`. The values are not the same: the judge sees the reference in all ratings, and its
ratings can influence each other. Names and versions of their own keep both apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Final

from pydantic import TypeAdapter, WithJsonSchema

from ragstone.errors import JudgeReplyError
from ragstone.judges import JsonReply, Judge, NumberReply, Prompt
from ragstone.metrics._arguments import Share
from ragstone.metrics._shared import compute_once
from ragstone.metrics.ccrs import (
    AnswerCorrectness,
    CcrsMetric,
    ContextualCoherence,
    InformationDensity,
    InformationRecall,
    QuestionRelevance,
)

_CONSTRUCT: Final = "ccrs_fused"
_INTRODUCTION: Final = (
    "Your assignment: rate the response, with one integer from 0 to 100 for each of these names. Rate each by itself."
)
_RATINGS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "coherence": (
        ("contexts",),
        (
            "how much of the response the numbered passages of the contexts support. 0 if it contradicts them. It does not "
            "matter if it answers the query."
        ),
    ),
    "relevance": (
        ("query",),
        "how completely and directly the response answers the query. It does not matter if it is true.",
    ),
    "density": (
        ("query",),
        (
            "100 if the response has everything useful and no unnecessary word, 50 if it is padded or lacks needed details, "
            "0 if nothing in it is useful for the query."
        ),
    ),
    "correctness": (
        ("reference",),
        (
            "how much of the response agrees with the reference (the closest, if there are several). 0 if the answer is wrong. "
            "Omissions do not matter."
        ),
    ),
    "recall": (
        ("reference",),
        (
            "how many of the important points of the reference (the closest) the response states correctly. Additions do "
            "not matter."
        ),
    ),
}
"""For each rating: the fields that it needs, and its definition."""
_MAX_TOKENS: Final = 128

_REPLIES: Final = {_CONSTRUCT: {"coherence": 55, "relevance": 90, "density": 80, "correctness": 70, "recall": 100}}


def _names(given: Collection[str]) -> tuple[str, ...]:
    """Return the ratings that the given fields allow."""
    return tuple(name for name, (needed, _) in _RATINGS.items() if all(field in given for field in needed))


def _task(names: Sequence[str]) -> str:
    return "\n".join([_INTRODUCTION, *(f"{name}: {_RATINGS[name][1]}" for name in names)])


_OPTIONAL: Final = ("query", "contexts", "reference")
_TASKS: Final = tuple(
    dict.fromkeys(_task(_names(given)) for n in range(4) for given in itertools.combinations(_OPTIONAL, n))
)
"""The tasks for all combinations of fields that a sample may have."""


def _shape(names: tuple[str, ...]) -> TypeAdapter[dict[str, Any]]:
    """Return the shape of a reply. Its values are checked one by one, so that an invalid one fails only its metric."""
    rating = {"type": "integer", "minimum": 0, "maximum": 100}
    schema = {
        "type": "object",
        "properties": dict.fromkeys(names, rating),
        "required": list(names),
        "additionalProperties": False,
    }
    return TypeAdapter(Annotated[dict[str, Any], WithJsonSchema(schema)])


async def _rate(fields: dict[str, str | tuple[str, ...]], judge: Judge) -> JsonReply[dict[str, Any]]:
    """Return all ratings that the fields allow, from one judge call for all metrics of a sample."""
    shown = {name: value for name, value in fields.items() if name != "contexts" or any(map(str.strip, value))}
    names = _names(shown)
    task = _task(names)
    prompt = Prompt(construct=_CONSTRUCT, task=task, fields=shown)
    key = (_CONSTRUCT, judge, task, tuple(shown.items()))
    return await compute_once(key, lambda: judge.ask_json(prompt, _shape(names), max_tokens=_MAX_TOKENS))


class _Fused(CcrsMetric):
    """Base class of the five metrics: the rating comes from the reply that they share."""

    construct, task = _CONSTRUCT, _INTRODUCTION
    rating: ClassVar[str]
    prompts = ()
    """Name of the metric's rating in the reply."""

    def __init__(self) -> None:
        super().__init__()

    def __init_subclass__(cls) -> None:
        cls.tasks = (_CONSTRUCT, *_TASKS)

    async def _ask(self, fields: dict[str, str | tuple[str, ...]], judge: Judge) -> NumberReply:
        reply = await _rate(fields, judge)
        value = reply.value.get(self.rating)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
            raise JudgeReplyError(
                f"the reply does not have a number from 0 to 100 for {self.rating!r}, but {value!r:.100}", raw=reply.raw
            )
        return NumberReply(value=float(value), raw=reply.raw, method=reply.method)


class FusedCoherence(_Fused, ContextualCoherence):
    """Contextual coherence, rated in one judge call with the other CCRS metrics."""

    name, title, rating = "ccrs_fused.cc", "Contextual coherence (one call)", "coherence"
    example = replace(ContextualCoherence.example, replies=_REPLIES)


class FusedRelevance(_Fused, QuestionRelevance):
    """Question relevance, rated in one judge call with the other CCRS metrics."""

    name, title, rating = "ccrs_fused.qr", "Question relevance (one call)", "relevance"
    example = replace(QuestionRelevance.example, replies=_REPLIES)


class FusedDensity(_Fused, InformationDensity):
    """Information density, rated in one judge call with the other CCRS metrics."""

    name, title, rating = "ccrs_fused.id", "Information density (one call)", "density"
    example = replace(InformationDensity.example, replies=_REPLIES)


class FusedCorrectness(_Fused, AnswerCorrectness):
    """Answer correctness, rated in one judge call with the other CCRS metrics."""

    name, title, rating = "ccrs_fused.ac", "Answer correctness (one call)", "correctness"
    replies = _REPLIES

    def __init__(self, *, em_weight: Share = 0.7) -> None:
        AnswerCorrectness.__init__(self, em_weight=em_weight)


class FusedRecall(_Fused, InformationRecall):
    """Information recall, rated in one judge call with the other CCRS metrics."""

    name, title, rating = "ccrs_fused.ir", "Information recall (one call)", "recall"
    example = replace(InformationRecall.example, replies=_REPLIES)


CCRS_FUSED: Final = (FusedCoherence(), FusedRelevance(), FusedDensity(), FusedCorrectness(), FusedRecall())
"""The five metrics with one judge call for a sample."""
