"""Drafts of requests that an application reports itself."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragstone.errors import ConfigurationError
from ragstone.requests import PassageDraft, TraceDraft, read_hits


def make_draft(
    *,
    query: str | None = None,
    contexts: Any = None,
    response: str | None = None,
    reference: str | Sequence[str] = (),
    name: str | None = None,
    session_id: str | None = None,
    user_id: str | None = None,
    model: str | None = None,
    started_at: float | None = None,
    tags: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
    text: str | None = None,
    columns: Sequence[str] | None = None,
) -> TraceDraft:
    """Describe a finished request, for `Monitor.record`.

    Args:
        query: The user's question.
        contexts: The passages in the prompt, in their order: texts, mappings with a `text`, documents of a framework,
            or the hits of a vector database as its client returns them. An empty list means that there were none. None
            means that they are not known.
        response: The application's answer.
        reference: A correct answer, or several.
        name: The application's name for such requests.
        session_id: Id of the conversation.
        user_id: Id of the user.
        model: Name of the model that answered.
        started_at: Start of the request in Unix seconds (default: now). The request ends now.
        tags: Labels of the application.
        metadata: Any other data to keep.
        text: Field of a context that holds its text, if it does not have a usual name.
        columns: Names of the columns, if contexts are tuples.

    Raises:
        ConfigurationError: If `query`, `response` or a reference is not a text, or the contexts cannot be read.

    Examples:
        >>> draft = make_draft(query="Why?", contexts=["Because."], response="Because.")
        >>> draft.contexts
        [PassageDraft(text='Because.', id=None, score=None, metadata={})]
    """
    now = time.time()
    return TraceDraft(
        name=name,
        session_id=session_id,
        user_id=user_id,
        query=_text(query, "query"),
        contexts=None if contexts is None else _passages(contexts, text, columns),
        response=_text(response, "response"),
        reference=_references(reference),
        started_at=now if started_at is None else started_at,
        ended_at=now,
        model=model,
        tags=list(tags),
        metadata=dict(metadata or {}),
    )


# Messages name types and fields, but never contain texts, because they may be logged unredacted.


def _text(value: object, field: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ConfigurationError(f"{field} must be text or None, got {type(value).__name__}")


def _references(value: object) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ConfigurationError(f"reference must be a text or a list of texts, got {type(value).__name__}")
    return list(texts)


def _passages(contexts: object, text: str | None, columns: Sequence[str] | None) -> list[PassageDraft]:
    if isinstance(contexts, Iterator):
        contexts = list(contexts)
    read = read_hits(contexts, text=text, columns=columns)
    if read.without_text is not None:
        raise ConfigurationError(f"contexts: {read.without_text}")
    return [passage for passages in read.lists for passage in passages]
