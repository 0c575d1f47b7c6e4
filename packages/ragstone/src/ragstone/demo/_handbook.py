"""The data of the demo: an invented ferry handbook and questions about it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

__all__ = ["DemoPassage", "DemoQuestion", "load_corpus", "load_questions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPassage:
    """One section of the handbook."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoQuestion:
    """A question about the handbook with its correct answer."""

    id: str
    query: str
    reference: str
    gold: tuple[str, ...]
    """Ids of the passages that hold the answer; empty when none does."""
    kind: Literal["answerable", "unanswerable", "distractor"]
    """A distractor is answerable, and another passage looks as if it held the answer."""


def load_corpus() -> tuple[DemoPassage, ...]:
    """Return the sections of the handbook."""
    return tuple(DemoPassage(**row) for row in _rows("corpus.jsonl"))


def load_questions() -> tuple[DemoQuestion, ...]:
    """Return the questions, in the order in which the demo asks them."""
    return tuple(DemoQuestion(**row | {"gold": tuple(row["gold"])}) for row in _rows("questions.jsonl"))


def _rows(name: str) -> list[dict[str, Any]]:
    text = files("ragstone.demo").joinpath("data", name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]
