"""Tasks for the judge: questions that a response answers. The prompts are our own."""

from __future__ import annotations

from typing import Final

from ragstone.metrics._prompts import Task

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
