"""The texts, message lists and document lists in the inputs or outputs of a step, and the one that a path names."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from ragstone._util.quantities import label_of
from ragstone.requests._draft import PassageDraft
from ragstone.requests._messages import messages_of
from ragstone.requests._shape import TEXT_PARTS, content_text, finite_number
from ragstone.requests._step import Message, Value
from ragstone.schema import ROW_SYNONYMS, field_names, message_role

AS_JSON: Final = "<json>"
"""Last key of the path of a text that is a whole object as JSON, because none of its fields has a known name."""

_MAX_DEPTH: Final = 3
_MAX_PASSAGES: Final = 1_000
"""Documents copied from one list."""
_MAX_VALUES: Final = 32
_MAX_UNWRAPPED: Final = 8
"""Readers of framework objects that return another object, one after the other."""

_TEXT_KEYS: Final = field_names("text", "output")
_ID_KEYS: Final = field_names("id", "output")
_SCORE_KEYS: Final = field_names("score", "output")
_DOCUMENT_KEYS: Final = frozenset({"page_content", "metadata", *_ID_KEYS, *_SCORE_KEYS})
"""Fields of which a lone object has at least one if it is a document: `{"text": …}` alone can be an answer."""
_TEXT_LISTS: Final = frozenset((*field_names("contexts", "row"), *field_names("contexts", "output"))) - {"docs"}
"""Names under which a list of plain texts is a list of passages."""
_FOUND: Final = _TEXT_LISTS | {"docs", "hits", "chunks", "snippets", "search_results", *ROW_SYNONYMS["contexts"]}
"""Names that say that a list was found."""
_SHAPED: Final = frozenset({"page_content", *_SCORE_KEYS})
"""Fields that only documents and hits have."""
_SOURCE_KEYS: Final = ("source", "url", "link", "file_name", "filename")
_TASK: Final = frozenset({"status", "priority", "done", "completed", "assignee", "due"})
"""Fields of an item of a plan, which has a text and often an id, and is not a document."""
_ANSWERS: Final = frozenset(field_names("response", "output"))

Reader = Callable[[Any], Any]


def harvest(value: Any, read: Reader | None = None) -> tuple[Value, ...]:
    """Collect the texts, message lists and document lists in a value, and choose none of them.

    Mappings, lists, dataclasses and Pydantic models are searched down to three levels, for at most 32 entries. Texts
    are references, documents are copied into drafts. A list of documents or messages is recognized by its first item.
    An object without a field of a known name is in addition one text as JSON, at a path that ends in `AS_JSON`.

    Args:
        value: Inputs or outputs of a step: Python objects or parsed JSON.
        read: Reader of a framework's objects. Returns a `str`, a `Message`, a `PassageDraft`, a tuple or list of these,
            another value to search instead, or `NotImplemented` for an object that it does not know. Without it, or for
            unknown objects, messages (`{role, content}`) and documents (`{page_content | text, metadata}`) in plain
            JSON are read.

    Returns:
        The values in the order in which they were found. What cannot be read is left out.

    Examples:
        >>> harvest({"question": "Why?", "documents": [{"text": "Because."}]})[0]
        Value(path=('question',), text='Why?', messages=None, passages=None, is_evident=True)
    """
    return tuple(islice(_Harvest(read).values(value, (), 0), _MAX_VALUES))


class _Harvest:
    def __init__(self, read: Reader | None) -> None:
        self._reader = read

    def values(self, value: Any, path: tuple[str, ...], depth: int) -> Iterator[Value]:
        given, value = value, self._read(value)
        if isinstance(value, str):
            yield Value(path, text=value)
        elif isinstance(value, Message):
            yield Value(path, messages=(value,))
        elif isinstance(value, PassageDraft):
            yield Value(path, passages=(value,), is_evident=not _FOUND.isdisjoint(path) or not _is_plain(given))
        elif isinstance(value, Mapping):
            yield from self._fields(value, path, depth)
        elif isinstance(value, list | tuple):
            yield from self._items(value, path, depth)
        elif (fields := _fields_of(value)) is not None:
            yield from self._fields(fields, path, depth)
            if _ANSWERS.isdisjoint(fields) and (text := _as_json(value)) is not None:
                yield Value((*path, AS_JSON), text=text)

    def _fields(self, fields: Mapping[Any, Any], path: tuple[str, ...], depth: int) -> Iterator[Value]:
        if depth < _MAX_DEPTH:
            for key, item in list(islice(fields.items(), 256)):
                yield from self.values(item, (*path, str(key)), depth + 1)

    def _items(self, items: Sequence[Any], path: tuple[str, ...], depth: int) -> Iterator[Value]:
        if not items:
            yield Value(path, passages=())
            return
        first = self._item(items[0])
        if isinstance(first, Message):
            messages = (self._item(item) for item in list(items))
            yield Value(path, messages=tuple(item for item in messages if isinstance(item, Message)))
        elif isinstance(first, PassageDraft) or (isinstance(first, str) and path and path[-1] in _TEXT_LISTS):
            passages = (self._passage(item) for item in items[:_MAX_PASSAGES])
            # Mappings with a text are passages in some lists, and items of a plan or memories of the user in others.
            is_evident = not _FOUND.isdisjoint(path) or not _is_plain(items[0])
            yield Value(path, passages=tuple(one for one in passages if one is not None), is_evident=is_evident)
        elif depth < _MAX_DEPTH:
            for place, item in enumerate(items[:_MAX_VALUES]):
                yield from self.values(item, (*path, str(place)), depth + 1)

    def _item(self, item: Any) -> Any:
        """Read an item of a list, where an object with nothing but a text is a document too."""
        item = self._read(item)
        if isinstance(item, list | tuple) and len(item) == 2:
            first, second = self._read(item[0]), item[1]
            if isinstance(first, PassageDraft):
                return dataclasses.replace(first, score=finite_number(second)) if first.score is None else first
            role = message_role(first)
            if role is not None and isinstance(second, str | list):
                return Message(role, content_text(second) or "")
        if isinstance(item, Mapping):
            return _document(item) or item
        return item

    def _passage(self, item: Any) -> PassageDraft | None:
        item = self._item(item)
        if isinstance(item, str):
            return PassageDraft(text=item)
        return item if isinstance(item, PassageDraft) else None

    def _read(self, value: Any) -> Any:
        """Read an object of a framework, or a plain message or document, and any other value as it is."""
        for _ in range(_MAX_UNWRAPPED):
            if value is None or isinstance(value, str | int | float | Message | PassageDraft) or self._reader is None:
                break
            read = self._reader(value)
            if read is NotImplemented or read is value:
                break
            value = read
        if isinstance(value, Mapping):
            if messages := messages_of(value):
                return messages[0]
            if not _DOCUMENT_KEYS.isdisjoint(value) and _TASK.isdisjoint(value):
                return _document(value) or value
        return value


def _is_plain(value: Any) -> bool:
    """Whether a value is a mapping with a text, and maybe an id or metadata, which memories of the user have too."""
    return isinstance(value, Mapping) and _SHAPED.isdisjoint(value) and any(key in value for key in _TEXT_KEYS)


def _document(value: Mapping[Any, Any]) -> PassageDraft | None:
    node = value.get("node")
    body: Mapping[Any, Any] = node if isinstance(node, Mapping) else value
    if body.get("type") in TEXT_PARTS:
        return None  # a block of a message's content
    text = next((body[key] for key in _TEXT_KEYS if isinstance(body.get(key), str)), None)
    if text is None:
        return None
    stated = body.get("metadata")
    metadata = {key: item for key in _SOURCE_KEYS if isinstance(item := body.get(key), str)}
    metadata |= {str(key): item for key, item in stated.items()} if isinstance(stated, Mapping) else {}
    ids = (source.get(key) for source in (body, metadata) for key in _ID_KEYS)
    scores = (finite_number(source.get(key)) for source in (value, body, metadata) for key in _SCORE_KEYS)
    identity = next(filter(None, map(label_of, ids)), None)
    if not _TASK.isdisjoint(value):
        identity = None
    return PassageDraft(
        text=text, id=identity, score=next((score for score in scores if score is not None), None), metadata=metadata
    )


def _fields_of(value: Any) -> Mapping[str, Any] | None:
    """Return the fields of a Pydantic model or a dataclass, or None for any other object."""
    if isinstance(value, type):
        return None
    names = getattr(type(value), "model_fields", None)
    if isinstance(names, Mapping):
        return {name: getattr(value, name, None) for name in names}
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name, None) for field in dataclasses.fields(value)}
    return None


def _as_json(value: Any) -> str | None:
    try:
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return json.dumps(dataclasses.asdict(value), ensure_ascii=False)
        text = value.model_dump_json()
    except Exception:  # noqa: BLE001 - the application's own serializer; the fields are there without it
        return None
    return text if isinstance(text, str) else None


_OBJECT: Final = re.compile(r"[A-Z]\w*\((?:\w+=.*)?\)|<[\w.]+ (?:object )?at 0x\w+>|content='.*' \w+=.*", re.DOTALL)

FromMessages = Callable[[Sequence[Message]], str | None]


def look_up(values: Sequence[Value], names: Sequence[str], from_messages: FromMessages) -> str | None:
    """Return the text of a bare value, or of the first name that has one. The text is empty only if no other is found."""
    texts = [_text_of(value, from_messages) for value in values if value.path == ()]
    for name in names:
        below = [value._replace(path=value.path[1:]) for value in values if value.path[:1] == (name,)]
        if below:
            texts.append(look_up(_only_item(below), names, from_messages))
    texts += [_text_of(value, from_messages) for value in values if value.path == (AS_JSON,)]
    return next(filter(None, texts), "" if "" in texts else None)


def _only_item(values: Sequence[Value]) -> Sequence[Value]:
    """Return the values of a list with one item as the values of that item."""
    if all(value.path[:1] == ("0",) for value in values):
        return [value._replace(path=value.path[1:]) for value in values]
    return values


def _text_of(value: Value, from_messages: FromMessages) -> str | None:
    if value.text is not None:
        return None if is_shown_object(value.text) else value.text
    return None if value.messages is None else from_messages(value.messages)


def is_shown_object(text: str) -> bool:
    """Whether a text is what Python prints of an object: `Name(field=...)` or `<... at 0x...>`."""
    return _OBJECT.fullmatch(text) is not None


def last_question(messages: Sequence[Message]) -> str | None:
    """Return the text of the last message of a user."""
    return next((message.text for message in reversed(messages) if message.role == "user"), None)


def last_answer(messages: Sequence[Message]) -> str | None:
    """Return the text of the last message, if a model wrote it and it does not call a tool."""
    for message in reversed(messages):
        if message.role == "assistant":
            return None if message.calls_tool else message.text
        if message.role in ("user", "tool"):
            return None
    return None
