"""What is known of a sample before a CRUX metric has its value: sub-questions, the pool, and ratings."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ragstone.judges import Judge
from ragstone.metrics._ask import RatingsReply
from ragstone.metrics.crux._asking import rate_answerability
from ragstone.metrics.crux._matrix import RATING_MAX, answerable
from ragstone.schema import Passage, Sample

__all__ = ["Questions", "Rated", "find_invalid_rating", "key_of", "questions_in", "rate_contexts", "rate_response"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The sub-questions of a sample, and which of them count."""

    texts: tuple[str, ...]
    """Those that count."""
    unanswerable: tuple[str, ...]
    """Those that no passage of the pool answers; they are in no denominator."""
    source: str
    """Where they come from: "given", "reference" or "query"."""
    pool: str
    """Says "rated" where ratings tell what is answerable, "assumed" where all sub-questions are taken to be."""
    replies: tuple[tuple[str, str], ...] = ()
    """What the judge replied that wrote them, and by which method."""

    def details(self) -> dict[str, Any]:
        """For the details of a score."""
        return {
            "sub_questions_from": self.source,
            "pool": self.pool,
            "answerable": list(self.texts),
            "unanswerable": list(self.unanswerable),
        }


def questions_in(texts: Sequence[str], source: str, sample: Sample, *, rating_threshold: float) -> Questions:
    """Which sub-questions count: those that a rated passage answers; all of them where nobody rated.

    A sub-question that nobody rated is not known to be unanswerable, so it counts.
    """
    texts = tuple(dict.fromkeys(text for text in texts if text.strip()))
    ratings = sample.ratings or {}
    rated = {text: ratings[text] for text in texts if ratings.get(text)}
    unanswerable = tuple(text for text in rated if text not in answerable(rated, rating_threshold=rating_threshold))
    return Questions(
        texts=tuple(text for text in texts if text not in unanswerable),
        unanswerable=unanswerable,
        source=source,
        pool="rated" if rated else "assumed",
    )


def find_invalid_rating(sample: Sample) -> str | None:
    """What is wrong with the ratings; None for those that can be used."""
    for question, row in (sample.ratings or {}).items():
        for passage, rating in row.items():
            if not 0 <= rating <= RATING_MAX:
                return (
                    f"the rating of passage {passage!r} for {question[:80]!r} is {rating:g}; ratings go from 0 to "
                    f"{RATING_MAX}"
                )
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """Ratings of some texts for the sub-questions that count, and who gave them."""

    keys: tuple[str, ...]
    """One for each text, in their order; equal for equal passages."""
    ratings: dict[str, dict[str, float]]
    """Sub-question to key to rating; those of the whole pool are in it."""
    n_judged: int
    """Texts that the judge rated, in whole or in part."""
    replies: tuple[RatingsReply, ...] = ()


def key_of(passage: Passage) -> str:
    """What names a passage: its id, else its text."""
    return passage.id or f"text:{hashlib.sha256(passage.text.encode(errors='replace')).hexdigest()[:12]}"


async def rate_contexts(sample: Sample, questions: Questions, judge: Judge) -> Rated:
    """Ratings of the retrieved passages: those of the sample, and of the judge where it has none.

    Raises:
        JudgeError: The judge gave no usable answer for a passage.
    """
    ratings = {text: dict((sample.ratings or {}).get(text, {})) for text in questions.texts}
    passages: dict[str, Passage] = {}
    for passage in sample.contexts or ():
        passages.setdefault(key_of(passage), passage)
    lacking = {
        key: open_texts
        for key in passages
        if (open_texts := tuple(text for text in questions.texts if key not in ratings[text]))
    }
    asked = await asyncio.gather(
        *(rate_answerability(judge, passages[key].text, texts) for key, texts in lacking.items()),
        return_exceptions=True,
    )
    replies = []
    for (key, texts), reply in zip(lacking.items(), asked, strict=True):
        if isinstance(reply, BaseException):
            raise reply
        replies.append(reply)
        for text, mark in zip(texts, reply.marks, strict=True):
            ratings[text][key] = mark
    return Rated(
        keys=tuple(key_of(passage) for passage in sample.contexts or ()),
        ratings=ratings,
        n_judged=sum(bool(reply.method) for reply in replies),
        replies=tuple(replies),
    )


async def rate_response(sample: Sample, questions: Questions, judge: Judge) -> Rated:
    """Ratings of the response, by the same sub-questions.

    Raises:
        JudgeError: The judge gave no usable answer.
    """
    reply = await rate_answerability(judge, sample.response or "", questions.texts)
    ratings = {text: {"response": float(mark)} for text, mark in zip(questions.texts, reply.marks, strict=True)}
    return Rated(keys=("response",), ratings=ratings, n_judged=int(bool(reply.method)), replies=(reply,))
