"""LangChain's events, read as the fields of neutral steps. What they mean for a request is decided by `ragstone.requests`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.prompt_values import PromptValue

from langchain_ragstone._documents import Passages
from langchain_ragstone._messages import block_texts, message_from, prompt_from, text_of
from ragstone.requests import Message, Step, TraceDraft, Value, harvest
from ragstone.schema import field_names

_FRAMEWORK_PREFIXES: Final = ("ls_", "lc_", "langgraph_", "checkpoint_", "__")
_QUERY_KEYS: Final = field_names("query", "input")


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
    update = getattr(output, "update", None) if type(output).__name__ == "Command" else None
    if update is None:
        message = output if isinstance(output, ToolMessage) else None
        step.outputs = values_in(output, passages)
    else:
        # What a command adds to the state of a graph is not the tool's result, except its message and documents: a tool
        # that hands over adds the messages before its own as well.
        fields = update if isinstance(update, Mapping) else {}
        added = fields.get("messages")
        added = added if isinstance(added, list | tuple) else [added]
        message = next((one for one in reversed(added) if isinstance(one, ToolMessage)), None)
        kept = values_in({name: item for name, item in fields.items() if name != "messages"}, passages)
        step.outputs = tuple(value for value in kept if value.passages is not None and value.is_evident)
        step.outputs += () if message is None else values_in(message, passages)
        if getattr(output, "goto", None):  # a hand-over to another agent: its message is a note
            step.kind, step.query = "other", None
    if message is None:
        step.passages = passages.in_list(output)
        return
    step.passages = passages.in_list(message.artifact) or Message.documents_in(message.content)
    step.outputs += tuple(Value((str(place),), text=text) for place, text in enumerate(block_texts(message)))
    if message.status == "error":  # which the model reads, and which is not a result
        step.error = f"{step.name}: {text_of(message)}"


def fill_documents(step: Step, documents: Sequence[Document], passages: Passages) -> None:
    """Fill in the documents that a retriever found."""
    step.passages = passages.found(documents)


def fill_identity(draft: TraceDraft, metadata: Mapping[str, Any], tags: Sequence[str]) -> None:
    """Sort a root run's tags and metadata into a draft: known keys into fields, the application's other keys into metadata."""
    draft.identify(metadata, without=_FRAMEWORK_PREFIXES)
    draft.tags = [str(tag) for tag in tags]


def is_interrupt(error: BaseException) -> bool:
    """Whether a graph pauses to ask a person."""
    return _is_called(error, "GraphInterrupt")


def is_failure(error: BaseException) -> bool:
    """Whether an "error" is a failure: a reader that closes a stream and a graph that jumps are not."""
    return not isinstance(error, GeneratorExit) and not _is_called(error, "GraphBubbleUp")


def _is_called(error: BaseException, name: str) -> bool:
    # By name, so that LangGraph (half a second) is imported only by applications that use it.
    return any(kind.__name__ == name for kind in type(error).__mro__)
