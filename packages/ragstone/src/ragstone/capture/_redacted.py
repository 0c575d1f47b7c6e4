"""Redaction of traces that were captured by others: what the live path does to drafts."""

from __future__ import annotations

from typing import Any

from ragstone.capture._redaction import Redactor
from ragstone.schema import Passage, Search, Trace

__all__ = ["redacted", "redacted_value"]


def redacted(trace: Trace, redact: Redactor) -> Trace:
    """The trace with every text redacted; ids and names stay, because requests are found by them.

    Args:
        trace: As it was read.
        redact: Text to text. What it raises goes through: a trace that cannot be redacted must not be stored.
    """

    def passages(found: tuple[Passage, ...]) -> tuple[Passage, ...]:
        return tuple(
            p.model_copy(update={"text": redact(p.text), "metadata": redacted_value(p.metadata, redact)}) for p in found
        )

    def text(value: str | None) -> str | None:
        return None if value is None else redact(value)

    def search(found: Search) -> Search:
        return found.model_copy(update={"query": text(found.query), "passages": passages(found.passages)})

    def texts(found: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(redact, found))

    return trace.model_copy(
        update={
            "query": text(trace.query),
            "searches": tuple(map(search, trace.searches)),
            "contexts": None if trace.contexts is None else passages(trace.contexts),
            "response": text(trace.response),
            "reference": texts(trace.reference),
            "sub_questions": texts(trace.sub_questions),
            "ratings": None if trace.ratings is None else {redact(q): grades for q, grades in trace.ratings.items()},
            "error": text(trace.error),
            "inner_errors": texts(trace.inner_errors),
            "tags": texts(trace.tags),
            "metadata": redacted_value(trace.metadata, redact),
        }
    )


def redacted_value(value: Any, redact: Redactor) -> Any:
    """A JSON value with every text in it redacted, keys as well."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(key) if isinstance(key, str) else key: redacted_value(v, redact) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [redacted_value(item, redact) for item in value]
    return value
