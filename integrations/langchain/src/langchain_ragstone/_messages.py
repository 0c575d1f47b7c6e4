"""LangChain's messages and model replies, read as neutral messages and texts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from langchain_ragstone._documents import Passages
from ragstone.requests import Message, Step


def text_of(content: object) -> str | None:
    """Return the text of a string, a message or a list of content blocks; None if there is none.

    Only text blocks count: reasoning, tool calls and images are not part of an answer.
    """
    content = content.content if isinstance(content, BaseMessage) else content
    if isinstance(content, list):  # of an argument of a tool as well, such as the items of a plan
        content = [
            one for one in content if isinstance(one, str) or (isinstance(one, dict) and one.get("type") == "text")
        ]
    return Message.reply_in(content)


def message_from(message: BaseMessage, passages: Passages, *, tool: str | None = None) -> Message:
    """Read a message. `tool` is the name of the tool, for a tool's message that does not name it."""
    role = Message.role_of(message.type)
    if role == "other":
        role = Message.role_of(getattr(message, "role", None))
    content = message.content
    if role == "assistant":
        return Message(
            role, text_of(content) or "", calls_tool=isinstance(message, AIMessage) and bool(message.tool_calls)
        )
    text = content if type(content) is str else Message.text_in(content)
    found = None if type(content) is str else Message.documents_in(content)
    if role == "tool":
        if isinstance(message, ToolMessage) and message.status == "error":
            return Message("other", text)
        artifact = message.artifact if isinstance(message, ToolMessage) else None
        return Message(role, text, tool=message.name or tool, passages=passages.in_list(artifact) or found)
    return Message(role, text, passages=found)


def prompt_from(messages: Sequence[BaseMessage], passages: Passages) -> tuple[Message, ...]:
    """Read the messages that a chat model was sent."""
    tools: dict[str | None, str] = {}
    read = []
    for message in messages:
        tool = None
        # By class: a look at an attribute that a Pydantic model does not have is slow.
        if isinstance(message, AIMessage):
            for call in message.tool_calls:
                tools[call.get("id")] = call["name"]
        elif isinstance(message, ToolMessage):
            tool = tools.get(message.tool_call_id)
        read.append(message_from(message, passages, tool=tool))
    return tuple(read)


def block_texts(message: BaseMessage) -> list[str]:
    """Return the texts of the blocks of a tool's message."""
    return [Message.text_in(block) for block in (message.content if isinstance(message.content, list) else [])]


def text_in_stream_event(event: Mapping[str, Any]) -> str | None:
    """Return the text that an event of a version 3 stream adds; None if it adds none."""
    delta = event.get("delta")
    return delta.get("text") if isinstance(delta, Mapping) else None


def model_class_from(serialized: Any) -> str | None:
    """Return the name of the class of a model, as LangChain serializes it."""
    if not isinstance(serialized, Mapping):
        return None
    path = serialized.get("id")
    return _first_text(serialized.get("name"), path[-1] if isinstance(path, list) and path else None)


def requested_model_from(metadata: Mapping[str, Any] | None) -> str | None:
    """Return the name of the model that a call requested."""
    return None if metadata is None else _first_text(metadata.get("ls_model_name"))


def fill_reply(step: Step, result: LLMResult, _: object = None) -> None:
    """Fill in the reply (the first generation), model name and token counts of a model's step.

    A reply without text that calls tools is kept as the arguments of the calls, in JSON: with structured output, they
    are the answer.
    """
    generation = result.generations[0][0] if result.generations and result.generations[0] else None
    output = result.llm_output or {}
    about: Mapping[str, Any] = {}
    usage: Mapping[str, Any] | None = None
    if isinstance(generation, ChatGeneration):
        message: Any = generation.message
        is_ai = isinstance(message, AIMessage)
        calls = message.tool_calls if is_ai else ()
        about, usage = message.response_metadata, message.usage_metadata if is_ai else None
        step.reply = text_of(message)
        step.calls_tool = bool(calls)
        if type(message.content) is list or message.additional_kwargs:
            step.add_search(message, message.additional_kwargs)
        if calls and not step.reply:
            arguments = [call["args"] for call in calls]
            step.reply = json.dumps(arguments[0] if len(calls) == 1 else arguments, ensure_ascii=False, default=str)
    elif generation is not None:
        step.reply = generation.text
    step.model = _first_text(about.get("model_name"), about.get("model"), output.get("model_name")) or step.model
    step.response_id = _first_text(about.get("id"), output.get("id"))
    usage = usage or output.get("token_usage") or {}
    step.set_tokens(usage)
    if usage.get("total_cost") == 0:
        # LangChain's mark of a message from its cache, which repeats the tokens of the call that was sent.
        step.input_tokens = step.output_tokens = 0


def _first_text(*values: object) -> str | None:
    return next((value for value in values if isinstance(value, str) and value), None)
