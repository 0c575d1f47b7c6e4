"""Fields of recorded steps that each tool writes in its own way, and the names under which it has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from json import JSONDecoder
from typing import Any, Final

from ragstone.reading._files import PARQUET
from ragstone.reading._json import inner_json
from ragstone.reading._values import (
    count_in,
    fill_identity,
    json_in,
    messages_in,
    passages_in,
    query_in,
    reply_message,
    tags_in,
    text_or_none,
    values_in,
)
from ragstone.requests import Message, Step, StepKind, Value, content_text, message_body
from ragstone.schema import TOKEN_NAMES, message_role

_STEP_KINDS: Final[Mapping[str, StepKind]] = {
    "chain": "chain", "span": "chain", "workflow": "chain", "task": "chain", "invoke_workflow": "chain",
    "execute_task": "chain", "framework": "chain", "chat_client": "chain", "advisor": "chain",
    "agent": "agent", "invoke_agent": "agent", "tool": "tool", "execute_tool": "tool", "tool_call": "tool", "ai.toolcall": "tool",
    "retriever": "retrieval", "retrieval": "retrieval", "search_memory": "retrieval", "vector_db_retrieve": "retrieval", "vector_store": "retrieval",
    "reranker": "transform", "rerank": "transform", "ai.rerank": "transform",
    "llm": "model", "chat_model": "model", "generation": "model", "chat": "model", "completion": "model",
    "text_completion": "model", "generate_content": "model",
    "embedding": "embedding", "embeddings": "embedding", "ai.embed": "embedding", "ai.embedmany": "embedding",
    "prompt": "part", "parser": "part",
}  # fmt: skip
"""Kind of a step by the type or operation that a tool or a convention states, in lower case."""
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME: Final = re.compile(rb'"([A-Za-z0-9_.]{1,80})"\s*:')
_WORD: Final = re.compile(rb"[a-z_]{2,80}")


def has_fields(head: bytes, *names: str) -> bool:
    """Return whether the start of a JSON file has all these field names, or the end of a Parquet file these columns."""
    if head.startswith(PARQUET):
        return all(name.encode() in head for name in names)
    return parse_names(head).issuperset(names)


def parse_names(head: bytes) -> set[str]:
    """Return the field names in the start of a JSON file, at any depth, without names in texts, which are escaped."""
    return {found.decode() for found in _NAME.findall(head)}


def first_names(head: bytes) -> set[str]:
    """Return the field names of the first record in the start of a file: of a JSON object, or columns of Parquet.

    If the record is longer than the start, the names are those at any depth.
    """
    if head.startswith(PARQUET):
        return {name.decode() for name in _WORD.findall(head)}
    text = head.decode("utf-8", "replace").lstrip("\ufeff[ \t\r\n")
    try:
        value, _ = JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return parse_names(head)
    return set(value) if isinstance(value, dict) else set()


def step_kind(name: object, default: StepKind = "other") -> StepKind:
    """Return the kind of a step from the type that a tool recorded, or the default for an unknown type."""
    return _STEP_KINDS.get(str(name).lower(), default)


def snake_case(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with keys in snake case (`parentObservationId` becomes `parent_observation_id`).

    APIs and exports of tools differ in this.
    """
    return {_HUMP.sub("_", name).lower(): value for name, value in record.items()}


def mapping(value: Any) -> Mapping[str, Any]:
    """Return the value if it is an object, otherwise an empty object."""
    return value if isinstance(value, Mapping) else {}


def unix_time(value: Any) -> float | None:
    """Return a time in Unix seconds, from ISO 8601 (UTC without a zone) or a number of seconds or smaller units."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Since 2001, seconds have ten digits and milliseconds thirteen. Durations and dates (20261105) have others.
    return next((value / unit for unit in (1.0, 1e3, 1e6, 1e9) if 1e9 * unit <= value < 1e10 * unit), None)


def tokens_in(usage: Any) -> tuple[int | None, int | None]:
    """Tokens read and written, under any tool's names for them."""
    named = snake_case(mapping(usage))
    counts = [[count_in(named.get(key)) for key in keys] for keys in TOKEN_NAMES]
    read, written = (next((count for count in found if count is not None), None) for found in counts)
    return read, written


def fill_inputs_and_outputs(step: Step, inputs: Any, outputs: Any) -> None:
    """Set what a step was given and what it returned, from the JSON that a tool recorded, by the kind of the step.

    A model gets its prompt, reply, name and tokens. A retriever gets its query and passages, and a tool its query and
    passages or text. Any other step gets the values in its inputs and outputs.
    """
    if step.kind == "model":
        _fill_model(step, inputs, outputs)
    elif step.kind in ("retrieval", "transform"):
        step.query, step.passages = query_in(inputs), passages_in(outputs)
        given = passages_in(inputs) if step.kind == "transform" else None
        step.input_texts = None if given is None else [passage.text for passage in given]
    elif step.kind == "tool":
        fill_tool(step, inputs, mapping(outputs).get("output", outputs))
    elif step.kind != "embedding":
        step.inputs, step.outputs = values_in(inputs), values_in(outputs)


def fill_tool(step: Step, arguments: Any, result: Any) -> None:
    """Set what a tool was asked and what it returned.

    Documents that a tool message carries are its passages. Objects and texts are its outputs: `assemble` decides
    whether they are passages.
    """
    result = mapping(result).get("kwargs", result) if mapping(result).get("lc") else result
    kept: tuple[Value, ...] = ()
    if isinstance(update := mapping(result).get("update"), Mapping) and "goto" in mapping(result):
        hands_over = bool(mapping(result)["goto"])
        # What a command adds to the state of a graph is not the tool's result, except its message and documents.
        added = update.get("messages")
        bodies = [message_body(message) for message in (added if isinstance(added, list) else [added])]
        result = next((body for label, body in reversed(bodies) if message_role(label) == "tool"), None)
        rest = values_in({name: item for name, item in update.items() if name != "messages"})
        kept = tuple(value for value in rest if value.passages is not None and value.is_evident)
        if hands_over:
            step.kind, arguments = "other", None
    artifact = mapping(result).get("artifact")
    value = mapping(result).get("raw_output", inner_json(result))  # of LlamaIndex's tools
    step.query = query_in(inner_json(arguments))
    step.inputs, step.outputs = values_in(inner_json(arguments)), (*kept, *values_in(value))
    step.passages = passages_in(artifact) if isinstance(artifact, list) else None
    if isinstance(result, str):
        step.reply = value if isinstance(value, str) else result
    elif (message := mapping(result)) and isinstance(message.get("content", message.get("blocks")), str | list):
        step.reply = content_text(message.get("content", message.get("blocks")))
        if message.get("status") == "error" and message.get("type") == "tool":  # which is not a result
            step.error = step.error or f"{step.name or 'tool'}: {step.reply}"


def _fill_model(step: Step, inputs: Any, outputs: Any) -> None:
    """Set prompt, reply, model and tokens: of a text, a message, LangChain's result, or a completion of OpenAI's API."""
    whole = mapping(outputs)
    generation = mapping(_first(_first(whole.get("generations"))))
    message = mapping(generation.get("message") or mapping(_first(whole.get("choices"))).get("message"))
    message = mapping(message.get("kwargs")) if message.get("lc") else message
    about, output = mapping(message.get("response_metadata")), mapping(whole.get("llm_output"))
    usages = (message.get("usage_metadata"), about.get("token_usage"), output.get("token_usage"), whole.get("usage"))
    models = (about.get("model_name"), about.get("model"), output.get("model_name"), whole.get("model"))
    usage = next((usage for usage in usages if isinstance(usage, Mapping) and usage), None)
    step.input_tokens, step.output_tokens = tokens_in(usage)
    step.model = next((model for model in map(text_or_none, models) if model), None)
    step.prompt = messages_in(inputs) or None
    set_reply(step, reply_message(outputs))


def set_reply(step: Step, reply: Message | None) -> None:
    """Set the reply of a model, if there is one. A reply that only calls a tool does not have a text."""
    if reply is not None:
        step.calls_tool = reply.calls_tool
        step.reply = None if reply.calls_tool and not reply.text else reply.text


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) and value else value


_SPENDERS: Final = ("model", "agent")
"""Kinds of steps whose model and tokens are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNames:
    """Names of fields in one kind of record: attributes of a span, or a row of an export.

    Of several names the first with a value counts.
    """

    kind: str = ""
    default_kind: StepKind = "other"
    """Kind of a step of an unknown type."""
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By field of `Step`: names of texts, such as ids, the environment, and the model."""
    times: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By field of `Step`: names of times."""
    usage: tuple[str, ...] = ()
    """Counts of tokens: objects, JSON, or beginnings of the names of counts."""
    sides: tuple[str, str] | None = None
    """Inputs and outputs of any step, as JSON."""
    search: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """Names of the query and of the passages of a retrieval or a reranker."""
    tool: tuple[str, str, str] | None = None
    """Name, arguments and result of a tool."""
    tags: str = ""
    metadata: str = ""
    """An object, JSON, or the beginning of the names of its fields."""

    def set_kind(self, step: Step, record: Mapping[str, Any]) -> None:
        """Set the kind of a step, if the record or the convention states one."""
        if self.kind:
            step.kind = step_kind(inner_json(record.get(self.kind)), self.default_kind)

    def fill(self, step: Step, record: Mapping[str, Any]) -> None:
        """Set the fields that a record has on a step whose kind is known."""
        get = record.get
        if self.sides is not None:
            fill_inputs_and_outputs(step, *(inner_json(get(side)) for side in self.sides))
        if self.search is not None and step.kind in ("retrieval", "transform"):
            queries, passages = self.search
            step.query = text_or_none(*map(get, queries))
            step.passages = passages_in(json_in(next((record[name] for name in passages if name in record), None)))
        elif self.tool is not None and step.kind == "tool":
            name, arguments, result = map(get, self.tool)
            step.name = text_or_none(name) or step.name
            fill_tool(step, arguments, result)
        for field_name, names in self.labels.items():
            label = text_or_none(*map(inner_json, map(get, names)))
            if label is not None and (field_name != "model" or step.kind in _SPENDERS):
                setattr(step, field_name, label)
        for field_name, names in self.times.items():
            setattr(
                step, field_name, unix_time(next((inner_json(record[name]) for name in names if name in record), None))
            )
        if step.kind in _SPENDERS:
            counts = (tokens_in(mapping(json_in(get(name))) or exploded(record, name)) for name in self.usage)
            stated = next((both for both in counts if both != (None, None)), None)
            step.input_tokens, step.output_tokens = stated or (step.input_tokens, step.output_tokens)
        if self.tags:
            step.tags = tags_in(get(self.tags))
        if self.metadata:
            fill_identity(step, get(self.metadata) or exploded(record, self.metadata))


MLFLOW_NAMES: Final = StepNames(
    kind="mlflow.spanType", default_kind="chain",
    labels={
        "session_id": ("mlflow.trace.session", "session.id"), "user_id": ("mlflow.trace.user", "user.id"),
        "model": ("mlflow.llm.model", "mlflow.chat.model"),
    },
    usage=("mlflow.chat.tokenUsage",), sides=("mlflow.spanInputs", "mlflow.spanOutputs"),
)  # fmt: skip
"""Attributes of MLflow's spans, in its own exports too."""


def indexed(attributes: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    """Return attributes `prefix.0.name`, `prefix.1.name` as one mapping an index, in the order of the indices."""
    found: dict[int, dict[str, Any]] = {}
    start = f"{prefix}."
    for key, value in attributes.items():
        if key.startswith(start):
            index, _, name = key[len(start) :].partition(".")
            if len(index) < 7 and index.isascii() and index.isdigit():
                found.setdefault(int(index), {})[name] = value
    return [found[index] for index in sorted(found)]


def exploded(attributes: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """Return the object that was written as attributes `prefix.key`."""
    start = f"{prefix}."
    return {key[len(start) :]: value for key, value in attributes.items() if key.startswith(start)}
