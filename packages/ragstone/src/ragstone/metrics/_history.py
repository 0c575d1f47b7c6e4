"""The question of a sample in prompts: the query, with the conversation before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ragstone.schema import Sample, Turn

_MAX_TURNS: Final = 6
_MAX_CHARS: Final = 1_000
"""Maximum characters of one earlier message. Longer messages are cut in the middle."""
_SPEAKERS: Final = {"user": "User", "assistant": "Assistant"}


def question_fields(sample: Sample) -> dict[str, str | tuple[str, ...]]:
    """Return the fields of a prompt that state the question: `earlier_turns`, if the sample has a history, and `query`.

    The judge needs the last messages before the query to understand "And how wide is it?". Without a history, prompts
    do not change. For a blank query the result is empty.
    """
    if sample.query is None or not sample.query.strip():
        return {}
    if not sample.history:
        return {"query": sample.query}
    return {"earlier_turns": tuple(map(_line, _shown(sample.history))), "query": sample.query}


def question_text(sample: Sample) -> str:
    """Return the question as one text, for a reader: the query, after the last messages of the conversation."""
    query = sample.query or ""
    if not sample.history:
        return query
    return "\n\n".join([*map(_line, _shown(sample.history)), _line(Turn(role="user", text=query))])


def _shown(history: Sequence[Turn]) -> Sequence[Turn]:
    return history[-_MAX_TURNS:]


def _line(turn: Turn) -> str:
    text = turn.text.strip()
    if len(text) > _MAX_CHARS:
        half = _MAX_CHARS // 2
        text = f"{text[:half]} … {text[-half:]}"
    return f"{_SPEAKERS[turn.role]}: {text}"
