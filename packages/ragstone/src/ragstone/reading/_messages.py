"""Conversations in rows: the last question, what came before it, the answer, and the passages that tools found for it.

Read are the messages of OpenAI (chat and Responses API), Anthropic, Gemini, LangChain and ragas, as objects or as JSON.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.reading._row_values import json_value, read_passage, shorten
from ragstone.requests import CALL_PARTS, RESULT_PARTS, TEXT_PARTS, calls_tool, get, message_body, part_text
from ragstone.schema import MESSAGE_ROLES, MessageRole, Passage, Turn, field_names, message_role

_IGNORED: Final = "reasoning"
_LISTS: Final = (*field_names("contexts", "output"), "results", "hits")
"""Names under which the result of a tool has its list of passages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The parts of a sample that a list of messages contains."""

    query: str | None
    """The last message of the user."""
    history: tuple[Turn, ...]
    """Messages of the user and the assistant before the query."""
    response: str | None
    """The last message, if the assistant wrote it after the query and it does not only call a tool."""
    contexts: tuple[Passage, ...] | None
    """Passages that tools found after the query, or None without any result that consists of passages."""
    citations: tuple[Mapping[str, Any], ...] = ()
    """Citations of the response, with `start` and `end` in its text."""


@dataclass(slots=True)
class _Message:
    role: MessageRole
    text: str
    calls_tool: bool = False
    citations: tuple[Mapping[str, Any], ...] = ()
    found: list[Passage] | None = field(default=None)
    """Passages in the result of a tool."""


def are_messages(value: object) -> bool:
    """Return whether a value is a list whose first item has the form of a message.

    A content block such as `{"type": "text"}` is not a message.
    """
    if not isinstance(value, list | tuple) or not value:
        return False
    kind, first = message_body(value[0])
    if isinstance(get(first, "role"), str):
        return True
    has_content = get(first, "content") is not None and kind not in TEXT_PARTS
    return isinstance(kind, str) and (message_role(kind) is not None or has_content)


def read_conversation(
    messages: Sequence[object], *, name: str, position: int, query: str | None = None
) -> Conversation:
    """Read a list of messages, oldest first. If `query` is given and no user wrote it, all messages are history.

    Raise DataError if a message does not have a known role, or no message is the user's.
    """
    read = [each for n, one in enumerate(messages, start=1) if (each := _message(one, n, name, position)) is not None]
    asked = max((n for n, message in enumerate(read) if message.role == "user"), default=None)
    if query is not None and (asked is None or read[asked].text.strip() != query.strip()):
        return Conversation(query=query, history=_turns(read), response=None, contexts=None)
    if asked is None:
        roles = ", ".join(sorted({message.role for message in read})) or "none"
        raise DataError(
            f"row {position}: {name} does not contain a message of the user (roles: {roles}). Add the question as a "
            "message with the role 'user', or as a field 'query'"
        )
    after = read[asked + 1 :]
    answer = after[-1] if after and after[-1].role == "assistant" and after[-1].text.strip() else None
    results = [message.found for message in after if message.role == "tool" and message.found is not None]
    return Conversation(
        query=read[asked].text,
        history=_turns(read[:asked]),
        response=None if answer is None or answer.calls_tool else answer.text,
        contexts=_distinct([passage for found in results for passage in found]) if results else None,
        citations=() if answer is None else answer.citations,
    )


def read_content(content: object) -> tuple[str | None, tuple[Mapping[str, Any], ...]]:
    """Return the text of a message's content, or None, and its citations with `start` and `end` in this text."""
    if isinstance(content, str):
        return content, ()
    if not isinstance(content, list | tuple):
        return None, ()
    text = ""
    citations: list[Mapping[str, Any]] = []
    for part in content:
        piece = part_text(part) or ""
        start, end = len(text), len(text) + len(piece)
        listed = [get(part, name) for name in ("citations", "annotations")]
        entries = itertools.chain.from_iterable(each for each in listed if isinstance(each, list | tuple))
        citations += [_placed(entry, start, end) for entry in entries if isinstance(entry, Mapping)]
        text += piece
    return text, tuple(citations)


def _placed(entry: Mapping[str, Any], start: int, end: int) -> dict[str, Any]:
    """Return a citation with its place in the whole text. Without a place, it covers its part."""
    place = (entry.get("start_index"), entry.get("end_index"))
    if all(isinstance(index, int) for index in place):
        return {**entry, "start_index": start + int(place[0] or 0), "end_index": start + int(place[1] or 0)}
    if isinstance(entry.get("index"), int):
        return {**entry, "index": start + entry["index"]}
    return {**entry, "start": start, "end": end}


def _message(one: object, number: int, name: str, position: int) -> _Message | None:
    label, one = message_body(one)
    if label == _IGNORED:
        return None
    role = message_role(label)
    if role is None:
        problem = f"has the role {label!r}" if isinstance(label, str) else f"does not have a role: {shorten(one)}"
        raise DataError(
            f"row {position}: message {number} of {name} {problem}. Roles are {', '.join(sorted(MESSAGE_ROLES))}"
        )
    content = next((value for key in ("content", "parts", "output") if (value := get(one, key)) is not None), "")
    parts = content if isinstance(content, list | tuple) else ()
    if role == "user" and (results := [part for part in parts if get(part, "type") in RESULT_PARTS]):
        # Anthropic sends results of tools as messages of the user.
        found = [passages for part in results if (passages := _found(get(part, "content"))) is not None]
        return _Message("tool", "", found=[*itertools.chain.from_iterable(found)] if found else None)
    text, citations = read_content(content)
    calls = bool(get(one, "tool_calls") or get(one, "function_call")) or label in CALL_PARTS or calls_tool(parts)
    passages = _found(get(one, "artifact"), content) if role == "tool" else None
    return _Message(role, text or "", calls_tool=calls, citations=citations, found=passages)


def _found(*results: object) -> list[Passage] | None:
    """Return the passages in the first result of a tool that consists of passages, or whose text is JSON of some."""
    values = (value for result in results for value in (result, json_value(read_content(result)[0])))
    return next((found for value in values if (found := _passages(value)) is not None), None)


def _passages(value: object) -> list[Passage] | None:
    """Return the passages in the result of a tool, or None if it does not consist of passages. Text is never a passage."""
    if isinstance(value, Mapping):
        value = next((inner for name in _LISTS if isinstance(inner := value.get(name), list | tuple)), None)
    if not isinstance(value, list | tuple) or any(get(item, "type") in TEXT_PARTS for item in value):
        return None
    documents = [_document(item) for item in value]
    try:
        return [Passage(**read_passage(document, rank, 0)) for rank, document in enumerate(documents)]
    except DataError:
        return None


def _document(item: object) -> object:
    """Return a document as an object with known fields, or None for anything else."""
    if isinstance(item, Mapping) and item.get("type") == "search_result":  # Anthropic
        text = read_content(item.get("content"))[0]
        return {
            "text": text,
            "id": item.get("source"),
            "metadata": {"source": item.get("source"), "title": item.get("title")},
        }
    if isinstance(item, Mapping):
        return item.get("kwargs") if item.get("lc") and isinstance(item.get("kwargs"), Mapping) else item
    if isinstance(text := get(item, "page_content"), str):  # LangChain's Document
        return {"text": text, "id": get(item, "id"), "metadata": get(item, "metadata")}
    return None


def _turns(messages: Sequence[_Message]) -> tuple[Turn, ...]:
    return tuple(
        Turn(role=message.role, text=message.text)
        for message in messages
        if message.role in ("user", "assistant") and message.text.strip()
    )


def _distinct(passages: Sequence[Passage]) -> tuple[Passage, ...]:
    found = {(passage.id, passage.text): passage for passage in reversed(passages)}
    kept = [passage for passage in passages if found.get((passage.id, passage.text)) is passage]
    return tuple(passage.model_copy(update={"rank": rank}) for rank, passage in enumerate(kept))
