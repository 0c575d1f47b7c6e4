"""What CRUX asks a judge: sub-questions of a text, and how well a text answers each of them. The wording is ours.

One question to the judge rates a text for all sub-questions at once; the source asks about each pair alone. A text of n
passages and m sub-questions so costs n calls in place of n * m. All metrics of a sample share them.
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
"""The source asks for 10 of a shorter summary, and 15 of a longer one (CRUX, figure 6)."""

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


async def sub_questions_of(judge: Judge, task: str, **field: str) -> TextListReply:
    """Have sub-questions written, once for all metrics of a sample. There may be none.

    Raises:
        JudgeError: The judge gave no usable answer.
    """
    prompt = Prompt(construct="sub_questions", task=task, fields=field)
    key = ("sub_questions", judge.identity.hash, task, *field.items())
    return await compute_once(key, lambda: ask_text_list(judge, prompt, most=MOST_QUESTIONS))


async def rate_answerability(judge: Judge, evidence: str, questions: Sequence[str]) -> RatingsReply:
    """Rate from 0 to 5 how well a text answers each sub-question, once for all metrics of a sample.

    Blank evidence answers nothing, and nobody is asked (`raw` and `method` are empty).

    Raises:
        JudgeError: The judge gave no usable answer.
    """
    if not evidence.strip():
        return RatingsReply(marks=(0,) * len(questions), raw="", method="")
    # The sub-questions first: they are the same for all passages, and a server computes what prompts begin with once.
    fields: dict[str, str | tuple[str, ...]] = {"sub_questions": tuple(questions), "evidence": evidence}
    prompt = Prompt(construct="answerability", task=RATING_TASK, fields=fields)
    key = ("answerability", judge.identity.hash, evidence, *questions)
    return await compute_once(key, lambda: ask_ratings(judge, prompt, len(questions), high=RATING_MAX))
