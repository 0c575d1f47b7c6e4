"""Judge calls of CRUX: sub-questions of a text, and ratings how well a text answers each. The prompts are our own.

One judge call rates a text for all sub-questions. The source uses one call per pair. For n passages and m sub-questions,
this takes n calls instead of n * m. All metrics of a sample share the calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ragstone.judges import Judge, Prompt
from ragstone.metrics._ask import RatingsReply, TextListReply, ask_ratings, ask_text_list
from ragstone.metrics._shared import compute_once
from ragstone.metrics.crux._matrix import RATING_MAX

__all__ = [
    "MOST_QUESTIONS",
    "RATING_TASK",
    "TASK_FROM_QUERY",
    "TASK_FROM_REFERENCE",
    "rate_answerability",
    "sub_questions_of",
]

MOST_QUESTIONS: Final = 10
"""Maximum number of sub-questions. The source uses 10 for short summaries and 15 for long ones (CRUX, figure 6)."""

RATING_TASK: Final = (
    "Your assignment: for each numbered sub-question, decide how well the evidence answers it. The evidence is all there "
    "is: what you know yourself counts for nothing.\n"
    "5: it gives the full and exact answer.\n"
    "4: it gives the answer, but for a small gap or slip.\n"
    "3: it gives the heart of the answer; something that matters is missing or vague.\n"
    "2: it gives a piece from which nobody could tell the answer.\n"
    "1: it only touches on what is asked.\n"
    "0: it does not answer it.\n"
    "Names and words in common are no answer. Rate each sub-question by itself, whatever the others have."
)
TASK_FROM_REFERENCE: Final = (
    f"Your assignment: write up to {MOST_QUESTIONS} questions that the reference answers, and that together ask for "
    "everything that matters in it.\n"
    "Each asks for one thing and for another than the rest, can be understood by somebody who has not seen the reference "
    "(names in place of 'he' or 'the report'), and is left open: the answer does not show in it.\n"
    "Fewer are better than some that overlap; a short reference may have just one."
)
TASK_FROM_QUERY: Final = (
    f"Your assignment: write up to {MOST_QUESTIONS} questions that a complete answer to the query has to answer.\n"
    "Each asks for one thing and for another than the rest, can be understood without the query, and is something that "
    "whoever sent the query wants to know; ask for nothing that the query does not call for.\n"
    "Fewer are better than some that overlap; a plain query may have just one, itself."
)


async def sub_questions_of(judge: Judge, task: str, **field: str | tuple[str, ...]) -> TextListReply:
    """Ask the judge for sub-questions, once for all metrics of a sample. The list may be empty.

    Raises:
        JudgeError: If the judge does not return a usable reply.
    """
    prompt = Prompt(construct="sub_questions", task=task, fields=field)
    key = ("sub_questions", judge.identity.hash, task, *field.items())
    return await compute_once(key, lambda: ask_text_list(judge, prompt, most=MOST_QUESTIONS))


async def rate_answerability(judge: Judge, evidence: str, questions: Sequence[str]) -> RatingsReply:
    """Rate from 0 to 5 how well a text answers each sub-question, once for all metrics of a sample.

    For blank evidence all ratings are 0, without a judge call (`raw` and `method` are empty).

    Raises:
        JudgeError: If the judge does not return a usable reply.
    """
    if not evidence.strip():
        return RatingsReply(marks=(0,) * len(questions), raw="", method="")
    # Sub-questions come first, because all passages share them and servers cache the beginning of prompts.
    fields: dict[str, str | tuple[str, ...]] = {"sub_questions": tuple(questions), "evidence": evidence}
    prompt = Prompt(construct="answerability", task=RATING_TASK, fields=fields)
    key = ("answerability", judge.identity.hash, evidence, *questions)
    return await compute_once(key, lambda: ask_ratings(judge, prompt, len(questions), high=RATING_MAX))
