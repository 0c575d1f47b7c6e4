"""Inputs of CRUX metrics: the sub-questions that count, and the ratings of passages or response."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragstone.judges import Judge
from ragstone.metrics._ask import RatingsReply
from ragstone.metrics._card import is_number
from ragstone.metrics.crux._asking import rate_answerability
from ragstone.metrics.crux._matrix import ETA, RATING_MAX, answerable
from ragstone.schema import Passage, Sample

THRESHOLD: Final = "rating_threshold"
"""Key of the threshold in a row of `ragstone lab dataset`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Sub-questions of a sample, divided into answerable and unanswerable ones."""

    texts: tuple[str, ...]
    """Sub-questions that count."""
    unanswerable: tuple[str, ...]
    """Sub-questions that no passage of the pool answers. Denominators omit them."""
    source: str
    """Source of the sub-questions: "given", "reference" or "query"."""
    pool: str
    """"rated" if ratings determine the answerable sub-questions, or "assumed" if all are assumed to be answerable."""
    replies: tuple[tuple[str, str], ...] = ()
    """Raw reply and method of the judge call that wrote the sub-questions."""

    def details(self) -> dict[str, Any]:
        """Return the details for a score."""
        return {
            "sub_questions_from": self.source,
            "pool": self.pool,
            "answerable": list(self.texts),
            "unanswerable": list(self.unanswerable),
        }


def threshold_of(sample: Sample) -> float:
    """Return the rating threshold with which the sample was built, which it may state."""
    stated = sample.metadata.get(THRESHOLD)
    return float(stated) if is_number(stated) else ETA


def questions_in(texts: Sequence[str], source: str, sample: Sample) -> Questions:
    """Select the sub-questions that count: those that a rated passage answers, and those without ratings.

    A sub-question without ratings may be answerable, so it counts. What is answerable depends on the threshold of the
    data, not on that of a metric: otherwise the questions of a stricter metric would be easier ones.
    """
    rating_threshold = threshold_of(sample)
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
    """Return a message about the first invalid rating or threshold, or None if all are valid."""
    stated = sample.metadata.get(THRESHOLD)
    if stated is not None and not (is_number(stated) and 0 < stated <= RATING_MAX):
        return f"{THRESHOLD} must be a number above 0 and at most {RATING_MAX}, got {stated!r:.80}"
    for question, row in (sample.ratings or {}).items():
        for passage, rating in row.items():
            if not 0 <= rating <= RATING_MAX:
                return (
                    f"the rating of passage {passage!r} for {question[:80]!r} is {rating:g}. Ratings must be between 0 "
                    f"and {RATING_MAX}"
                )
    return None


def own_ratings(sample: Sample, questions: Questions) -> dict[str, dict[str, float]]:
    """Return the ratings in the sample, for the sub-questions that count."""
    return {text: (sample.ratings or {}).get(text, {}) for text in questions.texts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """Ratings of texts for the sub-questions that count, and the judge replies that they come from."""

    keys: tuple[str, ...]
    """One key per text, in their order. Equal passages have equal keys."""
    ratings: dict[str, dict[str, float]]
    """Sub-question to key to rating, including the ratings of the whole pool."""
    n_judged: int
    """Number of texts that the judge rated, for all or some sub-questions."""
    judged: dict[str, list[int | None]]
    """Ratings of the judge by key, in the order of the sub-questions that count. None: from the data."""
    replies: tuple[RatingsReply, ...] = ()


def key_of(passage: Passage) -> str:
    """Return the key of a passage: its id, or a hash of its text if it does not have an id."""
    return passage.id or f"text:{hashlib.sha256(passage.text.encode(errors='replace')).hexdigest()[:12]}"


async def rate_contexts(sample: Sample, questions: Questions, judge: Judge) -> Rated:
    """Rate the retrieved passages. The judge rates only the pairs without a rating in the sample.

    Raise JudgeError if the judge does not return a usable reply for a passage.
    """
    ratings = {text: dict((sample.ratings or {}).get(text, {})) for text in questions.texts}
    passages: dict[str, Passage] = {}
    for passage in sample.contexts or ():
        passages.setdefault(key_of(passage), passage)
    unrated = {
        key: unrated_texts
        for key in passages
        if (unrated_texts := tuple(text for text in questions.texts if key not in ratings[text]))
    }
    results = await asyncio.gather(
        *(rate_answerability(judge, passages[key].text, texts) for key, texts in unrated.items()),
        return_exceptions=True,
    )
    replies = []
    judged: dict[str, list[int | None]] = {}
    for (key, texts), reply in zip(unrated.items(), results, strict=True):
        if isinstance(reply, BaseException):
            raise reply
        replies.append(reply)
        marks = dict(zip(texts, reply.marks, strict=True))
        judged[key] = [marks.get(text) for text in questions.texts]
        for text, mark in marks.items():
            ratings[text][key] = mark
    return Rated(
        keys=tuple(key_of(passage) for passage in sample.contexts or ()),
        ratings=ratings,
        n_judged=sum(bool(reply.method) for reply in replies),
        judged=judged,
        replies=tuple(replies),
    )


async def rate_response(sample: Sample, questions: Questions, judge: Judge) -> Rated:
    """Rate the response for the same sub-questions. Raise JudgeError if the judge does not return a usable reply."""
    reply = await rate_answerability(judge, sample.response or "", questions.texts)
    return Rated(
        keys=("response",),
        ratings={text: {"response": float(mark)} for text, mark in zip(questions.texts, reply.marks, strict=True)},
        n_judged=int(bool(reply.method)),
        judged={"response": [*reply.marks]},
        replies=(reply,),
    )
