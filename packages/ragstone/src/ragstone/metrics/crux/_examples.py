"""Worked examples of the CRUX metrics, recomputed from the ratings in table 5 of the source.

There are ten sub-questions and three passages. The source prints "2/10" for the third passage, although its row has
three ratings of 5.
"""

from __future__ import annotations

from typing import Any, Final

from ragstone.metrics._card import WorkedExample

_QUESTIONS: Final = (
    "How did the hall react at first?",
    "How many pupils danced along?",
    "How did the others learn the steps?",
    "Which song was played?",
    "What was the speech about?",
    "What will the speaker study?",
    "How did the hall react in the end?",
    "Had the speaker danced before?",
    "How did the school come to agree?",
    "Which college will the speaker attend?",
)
_TEXTS: Final = {
    "p1": "A video taught the steps to one song; the school had agreed.",
    "p2": "Be yourself, the speech said; puzzled looks, then laughter and tears.",
    "p3": "Off to Princeton, for engineering; the speech lives on.",
}
_ROWS: Final = {
    "p1": (0, 0, 5, 5, 0, 0, 0, 0, 5, 0),
    "p2": (5, 0, 0, 0, 5, 0, 5, 0, 0, 0),
    "p3": (0, 0, 0, 0, 5, 5, 0, 0, 0, 5),
}
_RATINGS: Final = {
    question: {passage: row[number] for passage, row in _ROWS.items()} for number, question in enumerate(_QUESTIONS)
}
_POOL: Final = (
    "A rating of at least 3 means that a passage answers a sub-question. The three rated passages answer 8 of the 10 "
    "sub-questions (all except 2 and 8), so 8 is the denominator. "
)


def _marks(*marks: int) -> dict[str, int]:
    return {str(number): mark for number, mark in enumerate(marks, start=1)}


def _row(*retrieved: str, **more: Any) -> dict[str, Any]:
    return {
        "query": "Tell me about the graduation.",  # codespell:ignore tell
        "contexts": [{"id": passage, "text": _TEXTS[passage]} for passage in retrieved],
        "sub_questions": _QUESTIONS,
    } | {"ratings": _RATINGS, **more}


def _rated(*retrieved: str) -> dict[str, Any]:
    """Return judge replies that agree with the ratings. They are used only for samples without ratings."""
    return {"answerability": tuple(_marks(*_ROWS[passage]) for passage in retrieved)}


COVERAGE: Final = WorkedExample(
    row=_row("p1", "p3"),
    replies=_rated("p1", "p3"),
    value=0.75,
    steps=_POOL + "p1 answers three of them (3, 4, 9), and p3 three others (5, 6, 10): 6 / 8 = 0.75.",
)
_RESPONSE: Final = "The hall was puzzled. One song, a speech, and Princeton next, for engineering."
_MARKS: Final = _marks(5, 0, 0, 0, 5, 5, 0, 5)
_ANSWERABLE: Final = tuple(question for question, row in _RATINGS.items() if any(row.values()))
RESPONSE_COVERAGE: Final = WorkedExample(
    row={"response": _RESPONSE, "sub_questions": _ANSWERABLE},
    replies={"answerability": _MARKS},
    value=0.5,
    steps=(
        "The sample contains the eight answerable sub-questions of ten. The judge rates the response for them as "
        "5, 0, 0, 0, 5, 5, 0, 5: 4 / 8 = 0.5."
    ),
)
RANKED_COVERAGE: Final = WorkedExample(
    row=_row("p2", "p3"),
    value=0.7452,
    steps=(
        "p2 answers three sub-questions (gain 3). p3 answers two new ones and one that p2 answers (gain 2 + 0.5): "
        "3 / log2(2) + 2.5 / log2(3) = 4.577. All three passages are required, so three ranks count. The greedy ideal "
        "is p3, p1, p2: 3 / log2(2) + 3 / log2(3) + 2.5 / log2(4) = 6.143. The value is 4.577 / 6.143 = 0.745."
    ),
)
REDUNDANCY: Final = WorkedExample(
    row=_row("p1", "p2", "p3"),
    replies=_rated("p1", "p2", "p3"),
    value=1 / 9,
    steps=_POOL
    + "The passages give 3 + 3 + 3 = 9 answers to 8 sub-questions. p3 repeats one answer of p2: 1 / 9 = 0.111.",
)
NOVELTY: Final = WorkedExample(
    row=_row("p2", "p2", "p3"),
    replies=_rated("p2", "p3"),
    value=2 / 3,
    steps=_POOL + "The second passage is p2 again and adds no answer, but the other two passages do: 2 / 3 = 0.667.",
)
DENSITY: Final = WorkedExample(
    row=_row("p1", "p3", required=_TEXTS),
    value=1.0690,
    steps=(
        _POOL
        + "p1 and p3 answer 6 of 8 in 12 + 9 words. The required p1, p2 and p3 answer all 8 in 12 + 11 + 9 words. "
        "((6/8) / 21) / ((8/8) / 32) = 8/7 = 1.143, and its square root is 1.069."
    ),
)
RESPONSE_DENSITY: Final = WorkedExample(
    row=_row("p1", response=_RESPONSE, required=_TEXTS),
    replies={"answerability": _MARKS},
    value=1.1094,
    steps=(
        _POOL + "The response answers 4 of 8 in 13 words. The required passages answer all 8 in 32 words: "
        "((4/8) / 13) / ((8/8) / 32) = 16/13 = 1.231, and its square root is 1.109."
    ),
)

_FREE: Final = {
    "query": "When and where is the market?",
    "contexts": ["It is on Fridays.", "Each Friday, by the harbor."],
}
_WRITTEN: Final = {"items": ["When is the market held?", "Where is the market held?", "How do I get there?"]}
_FREE_REPLIES: Final = {"sub_questions": _WRITTEN, "answerability": (_marks(5, 0, 0), _marks(5, 4, 1))}
_FREE_STEPS: Final = "The judge writes three sub-questions from the query. "
FREE_COVERAGE: Final = WorkedExample(
    row=_FREE,
    replies=_FREE_REPLIES,
    value=2 / 3,
    steps=_FREE_STEPS
    + "The passages answer the first two (ratings 5 and 4), but not the third (best rating 1): 2 / 3 = 0.667.",
)
FREE_RESPONSE_COVERAGE: Final = WorkedExample(
    row=_FREE | {"response": "On Fridays."},
    replies=_FREE_REPLIES | {"answerability": _marks(5, 0, 0)},
    value=1 / 3,
    steps=_FREE_STEPS + "The response answers only the first: 1 / 3 = 0.333.",
)
FREE_REDUNDANCY: Final = WorkedExample(
    row=_FREE,
    replies=_FREE_REPLIES,
    value=1 / 3,
    steps=_FREE_STEPS
    + "The passages give 1 + 2 = 3 answers to 2 of them. The second passage repeats the day: 1 / 3 = 0.333.",
)
FREE_NOVELTY: Final = WorkedExample(
    row=_FREE,
    replies=_FREE_REPLIES,
    value=1.0,
    steps=_FREE_STEPS + "The first passage adds the day, and the second the place: 2 / 2 = 1.",
)
