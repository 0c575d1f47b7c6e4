"""LangChain's events, read as the fields of neutral steps. What they mean for a request is decided by `ragstone.requests`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.prompt_values import PromptValue

from langchain_ragstone._documents import Passages
from langchain_ragstone._messages import block_texts, message_from, prompt_from, text_of
from ragstone.requests import Step, StepKind, TraceDraft, Value, harvest
from ragstone.schema import field_names

_FRAMEWORK_PREFIXES: Final = ("ls_", "lc_", "langgraph_", "checkpoint_", "__")
_QUERY_KEYS: Final = field_names("query", "input")


def chain_kind(run_type: str | None) -> StepKind:
    """Return the kind of a step that LangChain reports as a chain."""
    return "part" if run_type in ("prompt", "parser") else "chain"


def values_in(value: object, passages: Passages) -> tuple[Value, ...]:
    """Collect the texts, message lists and document lists in inputs or outputs; see `ragstone.requests.harvest`."""
    if type(value) is str:  # most of them
        return (Value((), text=value),)

    def read(item: Any) -> Any:
        if isinstance(item, Document):
            return passages.of(item)
        if isinstance(item, BaseMessage):
            return message_from(item, passages)
        if isinstance(item, PromptValue):
            return prompt_from(item.to_messages(), passages)
        if type(item).__name__ == "Command":
            return getattr(item, "update", None)
        return NotImplemented

    return harvest(value, read)


def is_transform(step: Step, steps: Sequence[Step]) -> bool:
    """Whether a chain's step that has ended was given documents, and returned documents and nothing else.

    A step with a retrieval inside is not a transform: its documents are those that were found.
    """
    if step.kind != "chain" or step.input_texts is None or [value.path for value in step.outputs] != [()]:
        return False
    inside = {step.id}
    for other in steps:
        if other.parent in inside:
            inside.add(other.id)
            if other.kind == "retrieval":
                return False
    return True


def tool_query_from(inputs: object, input_text: str) -> str:
    """Return the query of a tool call: the argument named like a query, the only text argument, else all arguments."""
    if not isinstance(inputs, Mapping):
        return input_text
    texts = {key: text for key, value in inputs.items() if (text := text_of(value))}
    named = next((texts[key] for key in _QUERY_KEYS if key in texts), None)
    if named is None and len(inputs) == 1:
        named = next(iter(texts.values()), None)
    return named or input_text


def fill_tool_result(step: Step, output: object, passages: Passages) -> None:
    """Fill in the result of a tool: its documents, itself or as the artifact of its message, and its texts."""
    messages = _tool_messages(output)
    lists = (
        passages.in_list(found) for found in ([message.artifact for message in messages] if messages else [output])
    )
    step.passages = next((found for found in lists if found is not None), None)
    step.outputs = values_in(output, passages)
    texts = [text for message in messages for text in block_texts(message)]
    step.outputs += tuple(Value((str(place),), text=text) for place, text in enumerate(texts))


def _tool_messages(output: object) -> list[ToolMessage]:
    """Return the messages of a tool's result, also those of a command that adds them to the state of a graph."""
    if isinstance(output, ToolMessage):
        return [output]
    update = getattr(output, "update", None) if type(output).__name__ == "Command" else None
    added = update.get("messages") if isinstance(update, Mapping) else None
    return [one for one in added if isinstance(one, ToolMessage)] if isinstance(added, list | tuple) else []


def fill_identity(draft: TraceDraft, metadata: Mapping[str, Any], tags: Sequence[str]) -> None:
    """Sort a root run's tags and metadata into a draft: known keys into fields, the application's other keys into metadata."""
    draft.identify(metadata, without=_FRAMEWORK_PREFIXES)
    draft.tags = [str(tag) for tag in tags]


def describe_error(error: BaseException) -> str:
    """Describe an error as "Type: message", whatever its own `__str__` does."""
    name = type(error).__name__
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - the exception may itself be broken
        message = ""
    return f"{name}: {message}" if message else name


def is_interrupt(error: BaseException) -> bool:
    """Whether a graph pauses to ask a person."""
    return _is_called(error, "GraphInterrupt")


def is_failure(error: BaseException) -> bool:
    """Whether an "error" is a failure: a reader that closes a stream and a graph that jumps are not."""
    return not isinstance(error, GeneratorExit) and not _is_called(error, "GraphBubbleUp")


def _is_called(error: BaseException, name: str) -> bool:
    # By name, so that LangGraph (half a second) is imported only by applications that use it.
    return any(kind.__name__ == name for kind in type(error).__mro__)
