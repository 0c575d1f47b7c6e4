"""A draft from what an application says itself: for code that no callback can see."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ragstone.capture._convert import to_finite_number
from ragstone.errors import ConfigurationError
from ragstone.requests import PassageDraft, TraceDraft

__all__ = ["make_draft"]

_TEXT_KEYS: Final = ("text", "page_content", "content")
_KEYS: Final = frozenset({*_TEXT_KEYS, "id", "score", "metadata"})


def make_draft(
    *,
    query: str | None = None,
    contexts: Iterable[str | Mapping[str, Any] | PassageDraft] | None = None,
    response: str | None = None,
    reference: str | Sequence[str] = (),
    name: str | None = None,
    session_id: str | None = None,
    user_id: str | None = None,
    model: str | None = None,
    started_at: float | None = None,
    tags: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
) -> TraceDraft:
    """Describe a request that is over, for `Monitor.record`.

    Args:
        query: What the user asked.
        contexts: What was put into the prompt, in its order: texts, mappings with a `text` and if you like `id`,
            `score` and `metadata`, or passages. An empty list says that nothing was; None that it is not known.
        response: What the application answered.
        reference: A correct answer, or several.
        name: What the application calls such requests.
        session_id: What groups the requests of one conversation.
        user_id: Whose request it was.
        model: The model that answered.
        started_at: When it began, in Unix seconds; now by default, and it ends now.
        tags: Labels of yours.
        metadata: What else is to be kept.

    Raises:
        ConfigurationError: `query`, `response` or a reference is not text, or a context is none of the forms above.

    Example:
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
        contexts=None if contexts is None else _passages(contexts),
        response=_text(response, "response"),
        reference=_references(reference),
        started_at=now if started_at is None else started_at,
        ended_at=now,
        model=model,
        tags=list(tags),
        metadata=dict(metadata or {}),
    )


# Messages name types and keys, never texts: they may end up in a log, which no redactor sees.


def _text(value: object, field: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise ConfigurationError(f"{field} must be text or None, got {type(value).__name__}")


def _references(value: object) -> list[str]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ConfigurationError(f"reference must be a text or a list of texts, got {type(value).__name__}")
    return list(texts)


def _passages(contexts: object) -> list[PassageDraft]:
    if isinstance(contexts, str | bytes | Mapping) or not isinstance(contexts, Iterable):
        raise ConfigurationError(
            f"contexts must be a list of passages, got {type(contexts).__name__}; put a single one into a list"
        )
    return [_passage(item, place) for place, item in enumerate(contexts)]


def _passage(item: object, place: int) -> PassageDraft:
    if isinstance(item, PassageDraft):
        return item
    if isinstance(item, str):
        return PassageDraft(text=item)
    if not isinstance(item, Mapping):
        raise ConfigurationError(
            f"contexts[{place}] must be a text, a mapping with a text, or a PassageDraft, got {type(item).__name__}"
        )
    text = next((item[key] for key in _TEXT_KEYS if isinstance(item.get(key), str)), None)
    if text is None:
        raise ConfigurationError(
            f"contexts[{place}] has no text under {', '.join(map(repr, _TEXT_KEYS))}; it has {sorted(map(repr, item))}"
        )
    stated = item.get("metadata")
    # What a passage has beside its text, under whatever name, is the application's own and stays with it.
    others = {str(key): value for key, value in item.items() if key not in _KEYS}
    identity = item.get("id")
    return PassageDraft(
        text=text,
        id=None if identity is None else str(identity),
        score=to_finite_number(item.get("score")),
        metadata={**others, **stated} if isinstance(stated, Mapping) else others,
    )
