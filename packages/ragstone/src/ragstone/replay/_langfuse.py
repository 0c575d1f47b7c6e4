"""Langfuse: observations, as its exports and its API write them, and the traces they belong to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.replay._fields import (
    has_fields,
    mapping,
    parse_names,
    reply_in,
    snake_case,
    text_or_none,
    tokens_in,
    unix_time,
)
from ragstone.replay._formats import RejectedRecord
from ragstone.replay._json import inner_json
from ragstone.replay._payloads import answer_in, contexts_in, passages_in, question_in, request_metadata
from ragstone.replay._records import records
from ragstone.replay._source import InputFile
from ragstone.replay._stage import BufferedSpan, staged, traces_of
from ragstone.replay._tree import NodeKind, Step
from ragstone.schema import Trace

__all__ = ["LangfuseFormat"]

_KINDS: Final[Mapping[str, NodeKind]] = {
    "CHAIN": "chain",
    "SPAN": "chain",
    "AGENT": "agent",
    "TOOL": "tool",
    "RETRIEVER": "retriever",
    "GENERATION": "llm",
    "EMBEDDING": "embedding",
}
_TRACE_ONLY: Final = ({"bookmarked"}, {"html_path"}, {"public", "release"}, {"total_cost", "observations"})
_ADDED: Final = ("is_langchain_root", "resourceAttributes", "scope", "attributes", "tags")
"""Metadata that Langfuse's SDK and its server add."""
_TRACE: Final = "trace"
"""The id, in a trace, of the record of the trace itself."""
_HEX_TRACE: Final = re.compile("[0-9a-f]{32}")
_HEX_SPAN: Final = re.compile("[0-9a-f]{16}")


class LangfuseFormat:
    """Exports and API answers of Langfuse: observations of either generation, beside traces or without them.

    A folder with `traces` and `observations` in it is one export.
    """

    name = "langfuse"

    def detect(self, head: bytes) -> str | None:
        """Observations name their parent observation; traces have fields that nobody else's have."""
        for field in ("parent_observation_id", "parentObservationId"):
            if has_fields(head, field):
                return f"observations with `{field}`"
        found = set(snake_case(dict.fromkeys(parse_names(head))))
        if {"timestamp", "input", "output"} <= found and any(fields <= found for fields in _TRACE_ONLY):
            return "traces with `timestamp`, `input`, `output` and Langfuse's own fields"
        return None

    def detect_folder(self, folder: Path) -> str | None:
        """A legacy export keeps traces apart from observations."""
        names = {path.name.partition(".")[0] for path in folder.iterdir()}
        return "`traces` beside `observations`" if {"traces", "observations"} <= names else None

    def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
        """Read traces. `latency` is not looked at: it is in seconds in some exports and in milliseconds in others."""
        yield from traces_of(records(source), spans=_spans, nodes=_nodes, source=self.name)


def _spans(value: Any) -> Iterator[BufferedSpan]:
    if not isinstance(value, Mapping):
        raise DataError("an observation must be an object")
    row = snake_case(value)
    own_id, trace_id = text_or_none(row.get("id")), text_or_none(row.get("trace_id"))
    if own_id is None:
        raise DataError("an observation, or a trace, must have an `id`")
    if trace_id is not None and "type" in row:
        yield staged(trace_id=trace_id, span_id=own_id, is_root=not row.get("parent_observation_id"), value=row)
        return
    if trace_id is not None and "type" not in row and "value" in row:
        return  # a score
    if trace_id is not None or "type" in row or not row.keys() & {"input", "output", "timestamp", "observations"}:
        raise DataError("an observation must have a `trace_id` and a `type`, a trace neither")
    inner = row.pop("observations", None)
    yield staged(trace_id=own_id, span_id=_TRACE, is_root=True, value=row | {"type": _TRACE})
    # The API's answer about one trace has its observations inside; in lists there are only their ids.
    for observation in inner if isinstance(inner, list) else ():
        if isinstance(observation, Mapping):
            yield from _spans({"trace_id": own_id} | snake_case(observation))


def _nodes(trace_id: str, rows: list[Any]) -> list[Step]:
    is_otel = _HEX_TRACE.fullmatch(trace_id) is not None
    about = next((row for row in rows if row["type"] == _TRACE), None)
    nodes = [_node(trace_id, row, is_otel=is_otel) for row in rows if row is not about]
    if about is None:
        return nodes
    root = _trace_node(trace_id, about)
    tops = [node for node in nodes if node.parent_id is None]
    if len(tops) == 1 and tops[0].kind in ("chain", "agent"):
        _merge_trace_fields(tops[0], root)
        return nodes
    for node in tops:
        node.parent_id = root.id
    return [root, *nodes]


def _merge_trace_fields(top: Step, root: Step) -> None:
    """Let what the trace's record says count, where it says something, for its only outermost observation."""
    top.query = root.query or top.query
    top.answer = top.answer if root.answer is None else root.answer
    top.passages = top.passages if root.passages is None else root.passages
    top.name, top.started_at = root.name or top.name, root.started_at or top.started_at
    top.session_id, top.user_id = root.session_id or top.session_id, root.user_id or top.user_id
    top.tags, top.metadata = root.tags or top.tags, top.metadata | root.metadata


def _trace_node(trace_id: str, row: Mapping[str, Any]) -> Step:
    inputs, outputs = inner_json(row.get("input")), inner_json(row.get("output"))
    return Step(
        id=_TRACE,
        trace_id=trace_id,
        kind="chain",
        query=question_in(inputs),
        answer=answer_in(outputs),
        passages=contexts_in(outputs),
        started_at=unix_time(row.get("timestamp")),
        **_identity(row),
    )


def _node(trace_id: str, row: Mapping[str, Any], *, is_otel: bool) -> Step:
    inputs, outputs = inner_json(row.get("input")), inner_json(row.get("output"))
    kind = _KINDS.get(str(row["type"]).upper(), "other")
    node = Step(
        id=str(row["id"]),
        parent_id=text_or_none(row.get("parent_observation_id")),
        trace_id=trace_id,
        kind=kind,
        is_otel=is_otel and _HEX_SPAN.fullmatch(str(row["id"])) is not None,
        started_at=unix_time(row.get("start_time")),
        ended_at=unix_time(row.get("end_time")),
        first_token_at=unix_time(row.get("completion_start_time")),
        error=(text_or_none(row.get("status_message")) or "error") if row.get("level") == "ERROR" else None,
        query=question_in(inputs),
        **_identity(row),
    )
    if kind == "llm":
        reply = reply_in(outputs)
        usage = inner_json(row.get("usage_details")) or inner_json(row.get("usage"))
        node.answer = reply.text
        node.model = next(
            (name for f in ("provided_model_name", "model") if (name := text_or_none(row.get(f)))), reply.model
        )
        node.input_tokens, node.output_tokens = tokens_in(snake_case(mapping(usage)))
        if node.input_tokens is None and node.output_tokens is None:
            node.input_tokens, node.output_tokens = reply.input_tokens, reply.output_tokens
    elif kind == "retriever":
        node.passages = passages_in(outputs)
    elif kind in ("chain", "agent", "tool"):
        node.answer, node.passages = answer_in(outputs), contexts_in(outputs) if kind == "chain" else None
    return node


def _identity(row: Mapping[str, Any]) -> dict[str, Any]:
    tags = inner_json(row.get("tags"))
    said = mapping(inner_json(row.get("metadata")))
    kept = request_metadata({name: inner_json(value) for name, value in said.items() if name not in _ADDED})
    for name in ("environment", "release", "version"):
        if (value := text_or_none(row.get(name))) not in (None, "default"):
            kept.setdefault(name, value)
    return {
        "name": text_or_none(row.get("name")) or text_or_none(row.get("trace_name")),
        "session_id": text_or_none(row.get("session_id")),
        "user_id": text_or_none(row.get("user_id")),
        "tags": tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
        "metadata": kept,
    }
