"""Langfuse: observations, as its exports and its API write them, and the traces they belong to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.reading._fields import StepNames, has_fields, mapping, parse_names, snake_case, step_kind
from ragstone.reading._formats import RejectedRecord
from ragstone.reading._json import inner_json
from ragstone.reading._records import records
from ragstone.reading._source import InputFile
from ragstone.reading._stage import BufferedSpan, staged, traces_of
from ragstone.reading._values import request_metadata, text_or_none
from ragstone.requests import Step
from ragstone.schema import Trace

_TRACE_ONLY: Final = ({"bookmarked"}, {"html_path"}, {"public", "release"}, {"total_cost", "observations"})
_ADDED: Final = ("is_langchain_root", "resourceAttributes", "scope", "attributes", "tags")
"""Metadata that Langfuse's SDK and its server add."""
_TRACE: Final = "trace"
"""The id, in a trace, of the record of the trace itself."""
_STATED: Final = ("inputs", "outputs", "name", "started_at", "session_id", "user_id", "release", "environment", "tags")
"""Fields that the record of a trace may state."""
_HEX_TRACE: Final = re.compile("[0-9a-f]{32}")
_HEX_SPAN: Final = re.compile("[0-9a-f]{16}")


_NAMES: Final = StepNames(
    labels={
        "name": ("name", "trace_name"), "session_id": ("session_id",), "user_id": ("user_id",),
        # `version` is that of the observation. Applications set one of the two.
        "release": ("release", "version"), "environment": ("environment",), "model": ("provided_model_name", "model"),
    },
    times={
        "started_at": ("start_time", "timestamp"), "ended_at": ("end_time",), "first_token_at": ("completion_start_time",),
    },
    usage=("usage_details", "usage"), sides=("input", "output"), tags="tags",
)  # fmt: skip


class LangfuseFormat:
    """Exports and API answers of Langfuse: observations of either generation, with or without traces."""

    name = "langfuse"

    def detect(self, head: bytes) -> str | None:
        """Observations name their parent observation. Traces have fields that only Langfuse writes."""
        for field in ("parent_observation_id", "parentObservationId"):
            if has_fields(head, field):
                return f"observations with `{field}`"
        found = set(snake_case(dict.fromkeys(parse_names(head))))
        if {"timestamp", "input", "output"} <= found and any(fields <= found for fields in _TRACE_ONLY):
            return "traces with `timestamp`, `input`, `output` and Langfuse's own fields"
        return None

    def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
        """Read traces. `latency` is not looked at: it is in seconds in some exports and in milliseconds in others."""
        tools = source.retriever_tools
        yield from traces_of(records(source), spans=_spans, steps=_steps, source=self.name, retriever_tools=tools)


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


def _steps(trace_id: str, rows: list[Any]) -> list[Step]:
    is_otel = _HEX_TRACE.fullmatch(trace_id) is not None
    about = next((row for row in rows if row["type"] == _TRACE), None)
    steps = [_step(trace_id, row, is_otel=is_otel) for row in rows if row is not about]
    if about is None:
        return steps
    root = _filled(Step(id=_TRACE, kind="chain"), about)
    tops = [step for step in steps if step.parent is None]
    if len(tops) == 1 and tops[0].kind in ("chain", "agent"):
        # What the record of the trace states counts for its only outermost observation.
        for name in _STATED:
            setattr(tops[0], name, getattr(root, name) or getattr(tops[0], name))
        tops[0].metadata = {**tops[0].metadata, **root.metadata}
        return steps
    for step in tops:
        step.parent = root.id
    return [root, *steps]


def _step(trace_id: str, row: Mapping[str, Any], *, is_otel: bool) -> Step:
    own_id = str(row["id"])
    is_otel = is_otel and _HEX_SPAN.fullmatch(own_id) is not None
    step = Step(
        id=own_id,
        parent=text_or_none(row.get("parent_observation_id")),
        kind=step_kind(row["type"]),
        otel_trace_id=trace_id if is_otel else None,
        otel_span_id=own_id if is_otel else None,
        error=(text_or_none(row.get("status_message")) or "error") if row.get("level") == "ERROR" else None,
    )
    return _filled(step, row)


def _filled(step: Step, row: Mapping[str, Any]) -> Step:
    _NAMES.fill(step, row)
    step.environment = None if step.environment == "default" else step.environment
    said = mapping(inner_json(row.get("metadata")))
    step.metadata = request_metadata({name: inner_json(value) for name, value in said.items() if name not in _ADDED})
    return step
