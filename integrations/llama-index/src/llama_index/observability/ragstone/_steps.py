"""LlamaIndex's spans, read as the fields of neutral steps. What they mean for a request is decided by `ragstone.requests`.

Nothing is printed or iterated: `str()` of a streaming response would read the application's stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse
from llama_index.core.base.response.schema import AsyncStreamingResponse, PydanticResponse, Response, StreamingResponse
from llama_index.core.bridge.pydantic import BaseModel
from llama_index.core.chat_engine.types import AgentChatResponse, StreamingAgentChatResponse
from llama_index.core.instrumentation.dispatcher import active_instrument_tags  # type: ignore[attr-defined]  # re-exported
from llama_index.core.memory.types import BaseMemory
from llama_index.core.schema import BaseComponent, BaseNode, NodeWithScore, QueryBundle
from llama_index.core.tools.types import ToolOutput
from llama_index.core.workflow import Context, Event, StopEvent

from llama_index.observability.ragstone._kinds import Kind
from llama_index.observability.ragstone._messages import HANDOFF, message_from, prompt_from
from llama_index.observability.ragstone._nodes import Passages, node_texts
from ragstone.requests import Message, Step, TraceDraft, Value, harvest
from ragstone.schema import field_names

_QUERY_NAMES: Final = field_names("query", "input")
_FRAMEWORK_PREFIX: Final = "llamaindex."
_STREAMS: Final = (StreamingResponse, AsyncStreamingResponse, StreamingAgentChatResponse)
_MAX_FIELDS: Final = 32


def text_of(value: object) -> str | None:
    """Return the text of a question or an answer; None for anything but texts, queries and messages."""
    if isinstance(value, str):
        return value
    if isinstance(value, QueryBundle):
        return value.query_str
    if isinstance(value, ChatMessage):
        return value.content
    return None


def fill_arguments(step: Step, kind: Kind, arguments: Mapping[str, Any], instance: Any, passages: Passages) -> None:
    """Fill in what a step is given: the arguments of the method, by name, and the object whose method it is."""
    first = next(iter(arguments.values()), None)
    if kind == "retrieve":
        step.name, step.query = type(instance).__name__, text_of(first)
    elif kind in ("query", "chat", "synthesize"):
        text = text_of(arguments.get("query")) if kind == "synthesize" else text_of(first)
        step.inputs = () if text is None else (Value(("query",), text=text),)
        if kind == "chat":
            step.keeps_history = True
            history = arguments.get("chat_history")
            if isinstance(history, list) and history:
                step.inputs += (Value(("chat_history",), messages=prompt_from(history)),)
        if kind == "synthesize" and not passages.any_found:
            step.inputs += (Value(("nodes",), passages=passages.copied(arguments.get("nodes") or ())),)
    elif kind == "workflow":
        step.inputs = _start_values(arguments, passages)
    elif kind == "tool":
        step.name, step.query = _tool_name(instance), _tool_query(arguments)
        step.inputs = harvest(arguments.get("kwargs"), _reader(passages))
        if step.name == HANDOFF:
            step.kind = "other"
    elif kind == "postprocess":
        step.name, step.input_texts = type(instance).__name__, node_texts(first)
    elif kind == "model":
        step.name = type(instance).__name__
        step.prompt = _prompt_in(arguments)
    elif kind == "function" and step.parent is None:
        step.inputs = harvest(dict(arguments), _reader(passages))


def _prompt_in(arguments: Mapping[str, Any]) -> tuple[Message, ...] | None:
    """Return the prompt of a model's call; None if it is not among the arguments."""
    # LlamaIndex's decorators hide the names of a model's arguments.
    for value in [*arguments.values(), *(arguments.get("args") or ()), *(arguments.get("kwargs") or {}).values()]:
        if isinstance(value, str):
            return (Message("user", value),)
        if isinstance(value, list | tuple) and value and isinstance(value[0], ChatMessage):
            return prompt_from(value)
    return None


def _start_values(arguments: Mapping[str, Any], passages: Passages) -> tuple[Value, ...]:
    event = arguments.get("start_event")
    if event is not None:
        fields = _event_fields(event)
        history = fields.pop("chat_history", None)
        if not fields.get("user_msg") and history:
            fields["messages"] = history
        return harvest(fields, _reader(passages))
    named = {name: value for name, value in arguments.items() if text_of(value) is not None}
    return harvest(named or arguments.get("kwargs"), _reader(passages))


def _event_fields(event: Any) -> dict[str, Any]:
    """Return the fields of an event, declared or not, without a copy of their values."""
    fields = {name: getattr(event, name, None) for name in type(event).model_fields}
    if hasattr(event, "items"):
        fields.update(event.items())
    return {name: value for name, value in fields.items() if value is not None}


def _tool_name(tool: Any) -> str:
    name = tool.metadata.name
    return name if isinstance(name, str) and name else type(tool).__name__


def _tool_query(arguments: Mapping[str, Any]) -> str | None:
    """Return the argument named like a query, or the only text among the arguments."""
    values = {**arguments, **(arguments.get("kwargs") or {})}
    texts = {name: text for name, value in values.items() if (text := text_of(value))}
    for place, value in enumerate(arguments.get("args") or ()):
        if text := text_of(value):
            texts[f"args {place}"] = text
    named = next((texts[name] for name in _QUERY_NAMES if name in texts), None)
    return next(iter(texts.values())) if named is None and len(texts) == 1 else named


def fill_result(step: Step, kind: Kind, result: Any, passages: Passages) -> None:
    """Fill in what a step that is not the request itself returned; arguments as for `fill_arguments`."""
    if kind in ("retrieve", "postprocess"):
        step.passages = passages.found(result)
    elif kind == "tool":
        _fill_tool_result(step, result, passages)
    elif kind in ("query", "synthesize", "chat"):
        step.outputs = outputs_of(result, passages)
        passages.note_reply(step.outputs[0].text if step.outputs else None)
    elif kind in ("function", "workflow"):
        step.outputs = _node_lists(unwrapped(result), passages)


def _fill_tool_result(step: Step, result: Any, passages: Passages) -> None:
    """Fill in the texts that a tool returned, and the nodes, by themselves or as the sources of a response."""
    content = result.content if isinstance(result, ToolOutput) else None
    raw = result.raw_output if isinstance(result, ToolOutput) else result
    nodes = raw if _is_nodes(raw) else _sources_in(raw)
    step.passages = passages.found(nodes) if nodes else None
    step.outputs = outputs_of(raw, passages)
    if content and not any(value.path == () and value.text for value in step.outputs):
        step.outputs = (Value((), text=content), *step.outputs)
    if isinstance(result, ToolOutput) and result.is_error:  # which the model reads, and which is not a result
        step.error = f"{step.name}: {content}"


def outputs_of(result: Any, passages: Passages) -> tuple[Value, ...]:
    """Collect the texts, messages and passages in what a step returned."""
    result = unwrapped(result)
    if isinstance(result, str):
        return (Value((), text=result),)
    fields = _response_fields(result)
    if fields is None:
        return harvest(result, _reader(passages))
    text, nodes = fields
    values = () if text is None else (Value(("response",), text=text),)
    # Responses that name no sources have an empty list as well.
    sources = passages.sources(nodes or ())
    return (*values, Value(("source_nodes",), passages=sources)) if sources else values


def _response_fields(result: Any) -> tuple[str | None, list[Any] | None] | None:
    """Return the text and the source nodes of a response; None for anything else. The text of a stream comes later."""
    if isinstance(result, (Response, AgentChatResponse)):
        return result.response, result.source_nodes
    if isinstance(result, PydanticResponse):
        return _json(result.response), result.source_nodes
    if isinstance(result, _STREAMS):
        return None, result.source_nodes
    return None


def _json(value: object) -> str | None:
    return value.model_dump_json() if isinstance(value, BaseModel) else None


def _sources_in(result: Any) -> list[Any] | None:
    nodes = result.get("source_nodes") if isinstance(result, Mapping) else getattr(result, "source_nodes", None)
    return list(nodes) if isinstance(nodes, list | tuple) else None


def _is_nodes(value: object) -> bool:
    return isinstance(value, list | tuple) and bool(value) and isinstance(value[0], NodeWithScore)


def _reader(passages: Passages) -> Any:
    def read(item: Any) -> Any:
        if isinstance(item, NodeWithScore | BaseNode):
            return passages.of(item)
        if isinstance(item, ChatMessage):
            return message_from(item)
        if isinstance(item, QueryBundle):
            return item.query_str
        if isinstance(item, ChatResponse):
            return item.message
        if isinstance(item, CompletionResponse):
            return item.text
        if isinstance(item, ToolOutput):
            return item.content
        if (fields := _response_fields(item)) is not None:
            text, nodes = fields
            return {"response": text, "source_nodes": None if nodes is None else list(passages.sources(nodes)) or None}
        if type(item).__name__ == "AgentOutput":  # its import takes 0.1 s, also of applications without agents
            return {"response": item.response, "structured_response": item.structured_response}
        if isinstance(item, Event):
            return unwrapped(item) if isinstance(item, StopEvent) else _event_fields(item)
        # Parts of the framework: their settings are not inputs of the application.
        return None if isinstance(item, BaseComponent | BaseMemory | Context) else NotImplemented

    return read


def _node_lists(value: object, passages: Passages) -> tuple[Value, ...]:
    """Collect the lists of nodes in what a function or a step of a workflow returned."""
    if _is_nodes(value):
        return (Value((), passages=passages.copied(value)),)  # type: ignore[arg-type]
    if (fields := _response_fields(value)) is not None:
        return (Value(("source_nodes",), passages=passages.sources(fields[1] or ())),)
    if isinstance(value, Event):
        value = _event_fields(value)
    if not isinstance(value, Mapping):
        return ()
    lists = [(name, item) for name, item in list(value.items())[:_MAX_FIELDS] if _is_nodes(item)]
    return tuple(Value((str(name),), passages=passages.copied(item)) for name, item in lists)


def unwrapped(result: Any) -> Any:
    """Return what a workflow returned, which is inside its last event."""
    return result.result if type(result) is StopEvent else result


def fill_identity(draft: TraceDraft, tags: Mapping[str, Any] | None) -> None:
    """Sort `instrument_tags` into a draft: known keys into fields, other keys of the application into metadata.

    Without tags, those that `instrument_tags` sets around the caller.
    """
    if tags := active_instrument_tags.get() if tags is None else tags:
        draft.identify(tags, without=_FRAMEWORK_PREFIX)
