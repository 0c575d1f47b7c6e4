"""Tasks for the judge: questions that a response answers. The prompts are our own."""

from __future__ import annotations

from typing import Final

__all__ = ["QUESTIONS", "WRITE_QUESTION", "write_questions"]

QUESTIONS: Final = 3
"""Number of questions of RAGAS, as in the library's default."""

WRITE_QUESTION: Final = (
    "Your assignment: write the one question to which the whole response, just as it stands, is the answer. Look for what "
    "the response is about (who, what, when, where, how many), and ask for all of it, so that nothing of the response "
    "would be beside the point and nothing would be missing. Put nothing into the question that cannot be known from the "
    "response.\n"
    "A response that tells nothing (it evades, or says that it does not know) answers no question: then there is no item."
)
"""Task of VERA: the one question that the whole response answers."""


def write_questions(n: int) -> str:
    """Return the task to write `n` questions from a response."""
    return (
        f"Your assignment: write {n} questions to which the response, just as it stands, would be the answer. Each "
        "asks for what the response is mainly about, in another way than the others, and contains nothing but what can be "
        "known from the response.\n"
        "A response that commits to nothing (it evades, says that it does not know or cannot find it, or asks back) answers "
        "no question: then there is no item."
    )
