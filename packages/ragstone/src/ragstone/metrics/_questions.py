"""Questions that a response answers, and their equivalence with the query. The prompts are our own."""

from __future__ import annotations

from typing import Final

from ragstone.judges import Prompt
from ragstone.metrics._claim_metric import ClaimShare
from ragstone.metrics._claims import ClaimCheck
from ragstone.metrics._history import question_fields
from ragstone.metrics._prompts import Task
from ragstone.metrics._shares import ShareBounds
from ragstone.schema import Interval
from ragstone.stats import mean_interval

QUESTIONS: Final = 3
"""Number of questions of RAGAS, as in the library's default."""

WRITE_QUESTION: Final = Task(
    "Your assignment: write the one question that the whole response answers. Look at what the response is about (who, what, "
    "when, where, how many), and ask for all of it, so that the response contains nothing unnecessary and lacks "
    "nothing. Use only what can be known from the response. Write in the language of the response.\n"
    "If the response does not answer anything (it evades, or says that it does not know), return an empty list.",
    "question",
    ("response",),
)
"""Task of VERA: the one question that the whole response answers."""
EQUIVALENCE: Final = Task(
    "Your assignment: for each numbered question, rate how far it asks for the same as the query.\n"
    "100: an answer to one of them answers the other.\n"
    "50: they ask for parts of the same thing, or one asks for much more than the other.\n"
    "0: an answer to one does not help with the other, even if they share words.\n"
    "Wording, language and politeness do not matter. Rate each question by itself.",
    "equivalence",
    ("query", "questions"),
)


def write_questions(n: int) -> Task:
    """Return the task to write `n` questions from a response."""
    return Task(
        f"Your assignment: write {n} questions that the response answers. Each asks for the main content of the response, in "
        "another way than the others. Use only what can be known from the response. Write in the language of the response.\n"
        "If the response does not answer anything (it evades, says that it does not know or cannot find it, or asks "
        "back), return an empty list.",
        "questions",
        ("response",),
    )


async def rate_equivalence(check: ClaimCheck, task: str, *, most: int) -> ClaimShare:
    """Ask for at most `most` questions that the response answers, and their mean equivalence with the query (0 to 1).

    Several questions are some of those that the response answers, so their mean has an interval. Raise JudgeError if
    the judge does not return a usable reply.
    """
    response = check.sample.response or ""
    if not response.strip():
        return ClaimShare(share=ShareBounds(0.0, 0.0), method="empty_response")
    written = Prompt(construct="answer_questions", task=task, fields={"response": response})
    questions = (await check.ask_texts_once(written, most=most)).texts
    if not questions:
        return ClaimShare(share=ShareBounds(0.0, 0.0), details={"questions": [], "noncommittal": True})
    fields = {**question_fields(check.sample), "questions": tuple(questions)}
    prompt = Prompt(construct="question_equivalence", task=EQUIVALENCE, fields=fields)
    reply = await check.ask_marks_once(prompt, len(questions), high=100)
    mean = mean_interval([mark / 100 for mark in reply.marks])
    several = Interval(low=mean.low, high=mean.high, confidence_level=mean.confidence_level, method=mean.method)
    listed = [
        {"question": question, "equivalence": mark / 100} for question, mark in zip(questions, reply.marks, strict=True)
    ]
    interval = several if len(questions) > 1 else None
    return ClaimShare(share=ShareBounds(mean.value, mean.value), interval=interval, details={"questions": listed})
