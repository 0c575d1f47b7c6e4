"""LangChain's documents, copied into passages: each document of a request once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from langchain_core.documents import Document
from langchain_core.load.serializable import Serializable
from pydantic import BaseModel

from ragstone.requests import PassageDraft, Value
from ragstone.schema import field_names

MAX_PASSAGES: Final = 1_000
"""Documents copied from one list. `max_passages` of `[lengths]` cuts further, and notes it in the trace."""
_MAX_DEPTH: Final = 3
_MAX_FIELDS: Final = 32

_CONTEXT_KEYS: Final = field_names("contexts", "output")
_FLAT: Final = frozenset({str, int, float, bool, type(None)})


class Passages:
    """The passages of one request: a document that appears again, by the identity of its text, is the same object."""

    __slots__ = ("_by_text",)

    def __init__(self) -> None:
        self._by_text: dict[int, PassageDraft] = {}

    def of(self, document: Document, score: float | None = None) -> PassageDraft:
        """Return the passage for a document; its metadata are those of now, flat values only."""
        text, metadata = document.page_content, document.metadata
        known = self._by_text.get(id(text))
        # The passage holds the text, so that no other text can have this identity.
        if (
            known is not None
            and known.text is text
            and document.id in (None, known.id)
            and score in (None, known.score)
            and known.has(metadata)
        ):
            return known
        passage = PassageDraft.copied(text, metadata, id=document.id, score=score, in_metadata=True)
        self._by_text[id(text)] = passage
        return passage

    def in_list(self, items: object) -> tuple[PassageDraft, ...] | None:
        """Return the passages for a list of documents, or of (document, score) pairs; None for all else.

        The documents in a message's artifact are mappings once a checkpointer has stored them. The first item decides.
        At most `MAX_PASSAGES` items are copied. An empty list is None, because it does not say what it is a list of.
        """
        if not isinstance(items, list | tuple) or not items:
            return None
        if isinstance(items[0], Document):
            return self.found(items)
        if _is_stored(items[0]):
            return self.found([_restored(item) for item in items[:MAX_PASSAGES] if _is_stored(item)])
        if not _is_pair(items[0]):
            return None
        pairs = (item for item in items[:MAX_PASSAGES] if _is_pair(item))
        return tuple([self.of(document, score) for document, score in pairs])

    def found(self, documents: Sequence[Any]) -> tuple[PassageDraft, ...]:
        """Return the passages for what a retriever found, which may be nothing."""
        of = self.of
        return tuple([of(document) for document in documents[:MAX_PASSAGES] if isinstance(document, Document)])


def _is_pair(item: object) -> bool:
    return type(item) is tuple and len(item) == 2 and isinstance(item[0], Document)


def _is_stored(item: object) -> bool:
    return isinstance(item, Mapping) and item.get("type") == "Document" and isinstance(item.get("page_content"), str)


def _restored(item: Mapping[str, Any]) -> Document:
    identity, metadata = item.get("id"), item.get("metadata")
    return Document(
        page_content=item["page_content"],
        id=None if identity is None else str(identity),
        metadata=dict(metadata) if isinstance(metadata, Mapping) else {},
    )


def documents_in(value: object, passages: Passages, *, expected: bool) -> tuple[Value, ...]:
    """Collect the document lists in the outputs of a step, by key path, at most three levels deep.

    `expected` says that the step was given documents, so that an empty list means that it left none of them.
    """
    if type(value) is str:
        return ()
    found = [Value(path, passages=found) for path, items in _lists(value, (), 0) if (found := passages.in_list(items))]
    if expected and not found:
        found = [Value(path, passages=()) for path in _empty_lists(value)]
    return tuple(found)


def _empty_lists(value: object) -> list[tuple[str, ...]]:
    if isinstance(value, list):
        return [] if value else [()]
    fields = _fields(value) or {}
    return [(key,) for key in _CONTEXT_KEYS if isinstance(fields.get(key), list) and not fields[key]]


def document_texts(value: object) -> frozenset[str] | None:
    """Return the texts of the documents in a step's inputs; None if there are none."""
    if type(value) is str:
        return None
    texts: set[str] = set()
    for _, items in _lists(value, (), 0):
        for item in items[:MAX_PASSAGES]:
            if isinstance(item, Document):
                texts.add(item.page_content)
            elif _is_pair(item):
                texts.add(item[0].page_content)
    return frozenset(texts) or None


_Lists = list[tuple[tuple[str, ...], Sequence[Any]]]


def _lists(value: object, path: tuple[str, ...], depth: int) -> _Lists:
    """Return the lists of documents in a value. The first item of a list decides what it is a list of."""
    if isinstance(value, list | tuple):
        if not value:
            return []
        if isinstance(value[0], Document) or _is_pair(value[0]):
            return [(path, value)]
        if depth == _MAX_DEPTH or not isinstance(value[0], list | tuple | Mapping):
            return []
        return [found for item in value[:_MAX_FIELDS] for found in _lists(item, path, depth + 1)]
    if isinstance(value, Document):
        return [(path, (value,))]
    fields = _fields(value) if depth < _MAX_DEPTH else None
    if not fields:
        return []
    lists: _Lists = []
    for key, item in islice(fields.items(), _MAX_FIELDS):
        if type(item) not in _FLAT:
            lists += _lists(item, (*path, str(key)), depth + 1)
    return lists


def _fields(value: object) -> Mapping[Any, Any] | None:
    """Return the fields of a mapping, of a state of the application, or of a graph's command; None for all else."""
    if type(value) is dict or isinstance(value, Mapping):
        return value
    if isinstance(value, BaseModel):
        if isinstance(value, Serializable):
            return None
        return {name: getattr(value, name, None) for name in type(value).model_fields}
    if type(value).__name__ == "Command":
        update = getattr(value, "update", None)
        return update if isinstance(update, Mapping) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    return None
