"""LlamaIndex's messages, and what the reply of a model says: its text, the model's name and the token counts.

LlamaIndex returns the provider's own response as `raw`, an object or a mapping, and does not name its token counts
itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, TextBlock

from ragstone.requests import Message, Step

HANDOFF: Final = "handoff"
"""Name of the tool by which agents pass a request on. Its result is a text of the framework, and never a passage."""

_USAGE: Final = (("usage",), ("usage_metadata",), ("usageMetadata",), ("usage", "tokens"), ("meta", "billed_units"), ())
"""Places of the token counts in `raw`, the last one being `raw` itself."""


def prompt_from(messages: Iterable[object]) -> tuple[Message, ...]:
    """Read the messages that a chat model was sent."""
    tools: dict[Any, str] = {}
    read = []
    for message in messages:
        if isinstance(message, ChatMessage):
            for call in _tool_calls(message):
                key = _look_up(call, "tool_call_id") or _look_up(call, "tool_id") or _look_up(call, "id")
                tools[key] = _tool_name(call)
            read.append(message_from(message, tool=tools.get(message.additional_kwargs.get("tool_call_id"))))
    return tuple(read)


def message_from(message: ChatMessage, *, tool: str | None = None) -> Message:
    """Read a message. `tool` is the name of the tool whose result it holds, if it does."""
    role = Message.role_of(str(getattr(message.role, "value", message.role)))
    blocks = message.blocks
    text = blocks[0].text if len(blocks) == 1 and type(blocks[0]) is TextBlock else Message.text_in(blocks)
    if role == "assistant":
        return Message(role, text, calls_tool=bool(_tool_calls(message)))
    if tool == HANDOFF:
        return Message("other", text)
    return Message(role, text, tool=tool if role == "tool" else None, passages=Message.documents_in(blocks))


def _tool_calls(message: ChatMessage) -> Sequence[Any]:
    # By name: the blocks of the oldest versions have no such type.
    blocks = [block for block in message.blocks if block.block_type == "tool_call"]
    return blocks or message.additional_kwargs.get("tool_calls") or ()


def _tool_name(call: Any) -> str:
    function = _look_up(call, "function")
    return str(_look_up(call, "tool_name") or _look_up(function, "name") or _look_up(call, "name") or "")


def model_from(payload: Mapping[str, Any]) -> str | None:
    """Return the model that a call requests, as its description names it."""
    names = (payload.get("model"), payload.get("model_name"))
    return next((name for name in names if isinstance(name, str) and name and name != "unknown"), None)


def fill_reply(step: Step, response: object) -> None:
    """Fill in the reply, the model and the token counts of a model's step, from a reply.

    A reply without text that calls tools is kept as the arguments of the calls, in JSON: with structured output, they
    are the answer.
    """
    if isinstance(response, ChatResponse):
        message = response.message
        calls = _tool_calls(message)
        step.reply, step.calls_tool = message.content, bool(calls)
        if calls and not step.reply:
            step.reply = _arguments(calls)
        about = [response.additional_kwargs, message.additional_kwargs]
    elif isinstance(response, CompletionResponse):
        step.reply, about = response.text, [response.additional_kwargs]
    else:
        return
    raw = response.raw
    step.add_search(raw)
    names = (_look_up(raw, "model"), _look_up(raw, "model_version"), _look_up(raw, "modelVersion"))
    places = about if raw is None else [*(_at(raw, path) for path in _USAGE), *about]
    step.model = next((name for name in names if isinstance(name, str) and name), step.model)
    step.response_id = next(
        (id_ for id_ in (_look_up(raw, "id"), _look_up(raw, "responseId")) if type(id_) is str), None
    )
    step.set_tokens(*places)


def _arguments(calls: Sequence[Any]) -> str | None:
    found = [_look_up(call, "tool_kwargs") for call in calls]
    found = [arguments for arguments in found if arguments is not None]
    if not found:
        return None
    value = found[0] if len(found) == 1 else found
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _look_up(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = _look_up(value, name)
    return value
