"""What an application states: the types of its functions, and the contexts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from langchain_core.documents import Document

from langchain_ragstone._documents import Passages
from ragstone.capture import make_draft
from ragstone.requests import PassageDraft
from ragstone.schema import field_names

AnswerExtractor = Callable[[Any], str | None]
ContextsExtractor = Callable[[Any], Iterable[Document | str | Mapping[str, Any]] | None]


def stated_contexts(contexts: Iterable[Document | str | Mapping[str, Any] | PassageDraft]) -> list[PassageDraft]:
    """Copy contexts that an application states: documents, texts, mappings with a text, or passages.

    Raise ConfigurationError if an item is none of these, or if `contexts` is a single text or mapping.
    """
    passages, items = Passages(), contexts
    if not isinstance(contexts, str | Mapping):  # which `make_draft` refuses, with an explanation
        items = [passages.of(item) if isinstance(item, Document) else item for item in contexts]
    return make_draft(contexts=items).contexts or []


def contexts_in_event(data: Any) -> Any:
    """Return the contexts in a custom event's data: the value of a known key, or the data themselves."""
    if not isinstance(data, Mapping):
        return data
    return next((data[key] for key in field_names("contexts", "output") if key in data), data)
