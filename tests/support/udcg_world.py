"""A world for UDCG's experiments in which every effect on the reader is planted."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence

from fake_models import FakeReader
from ragstone.testing import FakeJudge

__all__ = ["P_ABSTAIN", "chance", "judge_of", "kinds_of", "questions", "reader_of", "truth_of"]

P_ABSTAIN = {"gold": 0.1, "hard": 0.1, "weak": 0.9, "medium": 0.5}
"""Probability that the reader abstains with one passage, by kind."""


def questions(n, *, gold=2, hard=6, weak=6, medium=0, labels=True, order="hard medium gold weak"):
    """Rows with candidates in the order of their kinds. Texts say question and kind."""
    counts = {"gold": gold, "hard": hard, "weak": weak, "medium": medium}
    rows = []
    for number in range(n):
        texts = [f"q{number} {kind} {i}" for kind in order.split() for i in range(counts[kind])]
        contexts = [{"text": text} | ({"relevance": int(" gold " in text)} if labels else {}) for text in texts]
        row = {"id": f"q{number}", "query": f"Question {number}?", "reference": [f"truth {number}"]}
        rows.append(row | {"contexts": contexts})
    return rows


def truth_of(query: str) -> str:
    """The correct answer to a question."""
    return f"truth {re.sub(r'[^0-9]', '', query)}"


def kinds_of(texts: Sequence[str]) -> list[str]:
    """The kind of each passage."""
    return [text.split()[1] for text in texts]


def chance(*parts: object) -> float:
    """A number in [0, 1) that looks random and is always the same for the same parts."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") / 2**64


def reader_of(answer: Callable[[str, list[str]], str], *, kind: type[FakeReader] = FakeReader) -> FakeReader:
    """A reader that answers "correct" with the truth, "abstain" with its phrase, and "wrong" with something else.

    `answer` receives the query and the kinds of the passages.
    """

    def reply(query: str, texts: Sequence[str]) -> str:
        grade = answer(query, kinds_of(texts))
        return {"correct": truth_of(query), "abstain": "NO-RESPONSE", "wrong": "something else"}[grade]

    return kind(lambda query, texts: P_ABSTAIN[kinds_of(texts)[0]], answer=reply)


def judge_of(**options: object) -> FakeJudge:
    """A judge that knows the kinds, and grades every answer wrong that does not equal the reference."""
    return FakeJudge(
        lambda prompt: float(" gold " in str(prompt.fields["passage"])),
        json={"answer_grade": {"grade": "wrong"}},
        **options,
    )
