"""Values in recorded steps: numbers, metadata, and the JSON that frameworks write for messages and documents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from ragstone._util.quantities import label_of
from ragstone.errors import DataError
from ragstone.reading._json import parse_json
from ragstone.reading._row_values import finite
from ragstone.requests import (
    Message,
    PassageDraft,
    Step,
    Value,
    content_text,
    finite_number,
    harvest,
    message_body,
    messages_of,
)
from ragstone.schema import SETTING_NAMES, field_names, message_role

_REPR: Final = re.compile(r"<[A-Za-z_][\w.]*+[( ].*>|[A-Z]\w*\([a-z_]\w*=.*\.\.\.", re.DOTALL)
"""What Python shows of an object: in angle brackets, or its constructor, cut in the middle."""
_FRAMEWORK: Final = ("ls_", "lc_", "langgraph_", "checkpoint_", "__", "LANGSMITH_", "LANGCHAIN_")
_SESSION_KEYS: Final = ("session_id", "thread_id", "conversation_id", "sessionId")
_USER_KEYS: Final = ("user_id", "userId")
_TEXTS, _IDS, _SCORES = field_names("text", "hit"), field_names("id", "hit"), field_names("score", "hit")
_MAX_DEPTH: Final = 4
_MAX_INT: Final = 2**53
"""Readers of JSON disagree about larger integers."""


def json_in(text: object) -> Any:
    """Return the JSON value of a text, None if it is not JSON. A value that is not a text is returned as it is."""
    if not isinstance(text, str | bytes):
        return text
    try:
        return parse_json(text)
    except DataError:
        return None


def number_in(value: object) -> float | None:
    """Return a finite number, also from a text; None for anything else."""
    return finite(value) if isinstance(value, str) and len(value) < 64 else finite_number(value)


def count_in(value: object) -> int | None:
    """Return a number of tokens; None if the value cannot be one."""
    number = number_in(value)
    return int(number) if number is not None and 0 <= number < _MAX_INT else None


def fill_identity(step: Step, metadata: object) -> None:
    """Set session, user and reference of a step from the metadata of a request, and keep the rest of the metadata."""
    rest = request_metadata(metadata)
    session_ids, user_ids = ([rest.pop(key, None) for key in keys] for keys in (_SESSION_KEYS, _USER_KEYS))
    step.session_id, step.user_id = text_or_none(step.session_id, *session_ids), text_or_none(step.user_id, *user_ids)
    reference = rest.pop("reference", None)
    if isinstance(reference, str | list) and not step.reference:
        texts = [reference] if isinstance(reference, str) else reference
        step.reference = tuple(text for text in texts if isinstance(text, str))
    step.metadata = {**step.metadata, **rest}


def tags_in(value: object) -> tuple[str, ...]:
    """Return tags from a list, or from one written as JSON."""
    tags = json_in(value)
    return tuple(str(tag) for tag in tags if isinstance(tag, str | int)) if isinstance(tags, list) else ()


def text_or_none(*values: object) -> str | None:
    """Return the first value that is a label."""
    return next(filter(None, map(label_of, values)), None)


def request_metadata(metadata: object) -> dict[str, Any]:
    """Return the metadata that the application stated, without what its framework and its tracer added."""
    value = json_in(metadata)
    if not isinstance(value, Mapping):
        return {}
    return {str(key): item for key, item in value.items() if not str(key).startswith(_FRAMEWORK)}


def values_in(value: Any) -> tuple[Value, ...]:
    """Return the texts, message lists and document lists in the inputs or outputs of a step, as recorded JSON."""
    return harvest(_readable(value), _read)


def _readable(value: Any, depth: int = 0) -> Any:
    """Return a value with nodes that were written as JSON texts parsed, and texts that show an object left out."""
    if isinstance(value, str):
        if _REPR.fullmatch(value):
            return None
        inner = json_in(value) if value.startswith('{"') and '"node"' in value else None
        return inner if isinstance(inner, Mapping) else value
    if depth < _MAX_DEPTH and isinstance(value, list):
        return [_readable(item, depth + 1) for item in value]
    if depth < _MAX_DEPTH and isinstance(value, Mapping):
        # The content of LlamaIndex's messages and of results of its tools.
        blocks = content_text(value.get("blocks"))
        return {
            key: blocks if key == "blocks" and blocks is not None else _readable(item, depth + 1)
            for key, item in value.items()
        }
    return value


def query_in(value: Any) -> str | None:
    """Return the text that a retriever, a reranker or a tool was asked.

    That is the value itself, a text under a name of a query, or the only text in it that is not a setting of the run.
    """
    said = (found for found in values_in(value) if SETTING_NAMES.isdisjoint(found.path))
    texts = [(found.path, found.text) for found in said if found.text]
    for name in field_names("query", "input"):
        for path, text in texts:
            if path and name in (path[0], path[-1]):
                return text
    return texts[0][1] if len(texts) == 1 or (texts and not texts[0][0]) else None


def messages_in(value: Any, *, depth: int = 0) -> tuple[Message, ...]:
    """Return the messages of a prompt, or of a reply."""
    if isinstance(value, str):
        return (Message("user", value),)
    if depth > _MAX_DEPTH:
        return ()
    if isinstance(value, list):
        if value and isinstance(value[0], list) and not _is_pair(value[0]):
            return messages_in(value[0], depth=depth + 1)
        return tuple(message for item in value for message in _messages_of(item))
    if not isinstance(value, Mapping):
        return ()
    if found := _messages_of(value):
        return found
    for name in ("messages", "message", *field_names("query", "input"), "prompts", "contents"):
        if name in value and (found := messages_in(value[name], depth=depth + 1)):
            return found
    return ()


def _is_pair(item: object) -> bool:
    return isinstance(item, list) and len(item) == 2 and isinstance(item[1], str) and message_role(item[0]) is not None


def _messages_of(item: Any) -> tuple[Message, ...]:
    """Return the messages that one object is, with the documents that a message of a tool carries."""
    found = messages_of(item) if isinstance(item, str | Mapping) or _is_pair(item) else ()
    artifact = message_body(item)[1].get("artifact") if found and isinstance(item, Mapping) else None
    return (found[0]._replace(passages=passages_in(artifact)), *found[1:]) if isinstance(artifact, list) else found


def reply_message(outputs: Any, *, depth: int = 0) -> Message | None:
    """Return the message with which a model replied; None if the outputs hold none."""
    if isinstance(outputs, str):
        return Message("assistant", outputs)
    if depth > _MAX_DEPTH or not outputs:
        return None
    if isinstance(outputs, list):
        said = [message for message in messages_in(outputs) if message.role in ("assistant", "other")]
        return said[-1] if said else reply_message(outputs[0], depth=depth + 1)
    if not isinstance(outputs, Mapping):
        return None
    if messages := _messages_of(outputs):
        return messages[-1]._replace(role="assistant")
    for name in ("generations", "choices", "message", *field_names("response", "output")):
        if name in outputs and (found := reply_message(outputs[name], depth=depth + 1)) is not None:
            return found
    return None


def passages_in(value: Any, *, depth: int = 0) -> tuple[PassageDraft, ...] | None:
    """Return the passages in the output of a retriever: documents, nodes or texts, in order.

    None if nothing in the value is a list of passages. An empty tuple is a retrieval that found nothing.
    """
    if depth >= _MAX_DEPTH:
        return None
    if isinstance(value, Mapping):
        lists = (item for name, item in value.items() if name not in SETTING_NAMES and isinstance(item, list | Mapping))
        return next((found for item in lists if (found := passages_in(item, depth=depth + 1)) is not None), None)
    if not isinstance(value, list):
        return None
    passages = [passage for item in value if (passage := _passage(item)) is not None]
    return tuple(passages) if len(passages) == len(value) else None


def _passage(item: Any) -> PassageDraft | None:
    if isinstance(item, str):
        inner = json_in(item) if item.startswith("{") else None
        if isinstance(inner, Mapping):
            return _passage(inner)
        return None if _REPR.fullmatch(item) else PassageDraft(text=item)
    if isinstance(item, list) and len(item) == 2 and isinstance(item[0], Mapping):
        # A pair of document and score, as vector stores return them.
        passage, score = _passage(item[0]), number_in(item[1])
        return passage if passage is None or score is None else replace(passage, score=score)
    if not isinstance(item, Mapping):
        return None
    item = item["kwargs"] if item.get("lc") == 1 and isinstance(item.get("kwargs"), Mapping) else item
    node = json_in(item.get("node"))
    body = node if isinstance(node, Mapping) else item
    resource = body.get("text_resource")
    texts = (source.get(key) for source in (body, resource) if isinstance(source, Mapping) for key in _TEXTS)
    text = next((text for text in texts if isinstance(text, str)), None)
    stated = json_in(body.get("metadata"))
    metadata = dict(stated) if isinstance(stated, Mapping) else {}
    id_ = text_or_none(*(source.get(key) for source in (body, metadata) for key in _IDS))
    scores = [number_in(source.get(key)) for source in (item, body, metadata) for key in _SCORES]
    if text is None and id_ is None:
        return None
    return PassageDraft(
        text=text or "", id=id_, score=next((score for score in scores if score is not None), None), metadata=metadata
    )


def _read(value: Any) -> Any:
    """Read the JSON of frameworks for `harvest`: constructors, messages with parts, nodes and blocks."""
    if not isinstance(value, Mapping):
        return NotImplemented
    messages = _messages_of(value)
    if messages:
        return messages[0] if len(messages) == 1 else list(messages)
    if value.get("lc") == 1 and isinstance(value.get("kwargs"), Mapping):
        return _passage(value) if "page_content" in value["kwargs"] else dict(value["kwargs"])
    if "node" in value or "text_resource" in value or "page_content" in value:
        return _passage(value) or value
    return NotImplemented
