"""Judge calls of CRUX: sub-questions of a text, and ratings how well a text answers each. The prompts are our own.

One judge call rates a text for all sub-questions. The source uses one call per pair. For n passages and m
sub-questions, this takes n calls instead of n * m. All metrics of a sample share the calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ragstone.judges import Judge, Prompt
from ragstone.metrics._ask import RatingsReply, TextListReply, ask_ratings, ask_text_list
from ragstone.metrics._prompts import Task
from ragstone.metrics._shared import compute_once
from ragstone.metrics.crux._matrix import RATING_MAX

MOST_QUESTIONS: Final = 10
"""Maximum number of sub-questions. The source uses 10 for short summaries and 15 for long ones (CRUX, figure 6)."""

RATING_EXAMPLES: Final = """\
Examples of ratings:

Sub-questions: 1. When did the Tarn mill open? 2. Who built it? 3. What did it cost?
Evidence: In the spring of 1887, the Tarn mill opened. Its builder came from the village of Orm.
Reply: {"1": 5, "2": 2, "3": 0}

Sub-questions: 1. How long is the Kuro bridge, and what is it made of? 2. Is it open to cars?
Evidence: 黒橋の全長は503メートルである。今は歩行者だけが渡れる。
Reply: {"1": 3, "2": 5}"""
RATING_TASK: Final = Task(
    "Your assignment: for each numbered sub-question, rate how well the evidence answers it. Use only the evidence, "
    "not your own knowledge. It can be in another language than the sub-questions.\n"
    "5: the full and exact answer.\n"
    "4: the answer, with a small gap or error.\n"
    "3: the main part of the answer; something important is missing or vague.\n"
    "2: a part from which the answer cannot be known.\n"
    "1: only the topic of the sub-question.\n"
    "0: nothing about it.\n"
    "The same names or words are not an answer. Rate each sub-question by itself.",
    "answerability",
    ("sub_questions", "evidence"),
    (),
    RATING_EXAMPLES,
)
TASK_FROM_REFERENCE: Final = Task(
    f"Your assignment: write up to {MOST_QUESTIONS} questions that the reference answers, and that together cover "
    "everything important in it.\n"
    "Each question asks for one thing that the others do not ask for. A reader who has not seen the reference must understand "
    "it: write names instead of 'he' or 'the report'. Do not put the answer into the question. Use the language of the "
    "reference.\n"
    "Write fewer questions rather than some that overlap. For a short reference, one is enough.",
    "sub_questions",
    ("reference",),
)
TASK_FROM_QUERY: Final = Task(
    f"Your assignment: write up to {MOST_QUESTIONS} questions that a complete answer to the query has to answer.\n"
    "Each question asks for one thing that the others do not ask for, and that the user who sent the query wants to know. A "
    "reader must understand it without the query. Do not ask for more than the query does. Use the language of the query.\n"
    "Write fewer questions rather than some that overlap. For a simple query, repeat the query.",
    "sub_questions_of_query",
    ("query",),
)


async def sub_questions_of(judge: Judge, task: str, **field: str | tuple[str, ...]) -> TextListReply:
    """Ask the judge for sub-questions, once for all metrics of a sample. The list may be empty.

    Raise JudgeError if the judge does not return a usable reply.
    """
    prompt = Prompt(construct="sub_questions", task=task, fields=field)
    key = ("sub_questions", judge.identity.hash, task, *field.items())
    return await compute_once(key, lambda: ask_text_list(judge, prompt, most=MOST_QUESTIONS))


async def rate_answerability(judge: Judge, evidence: str, questions: Sequence[str]) -> RatingsReply:
    """Rate from 0 to 5 how well a text answers each sub-question, once for all metrics of a sample.

    For blank evidence all ratings are 0, without a judge call (`raw` and `method` are empty). Raise JudgeError if the
    judge does not return a usable reply.
    """
    if not evidence.strip():
        return RatingsReply(marks=(0,) * len(questions), raw="", method="")
    # Sub-questions come first, because all passages share them and servers cache the beginning of prompts.
    fields: dict[str, str | tuple[str, ...]] = {"sub_questions": tuple(questions), "evidence": evidence}
    prompt = Prompt(construct="answerability", task=RATING_TASK, fields=fields, examples=RATING_EXAMPLES)
    key = ("answerability", judge.identity.hash, evidence, *questions)
    return await compute_once(key, lambda: ask_ratings(judge, prompt, len(questions), high=RATING_MAX))
