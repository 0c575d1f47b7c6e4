"""MLflow: traces, as `Trace.to_json()` writes them, and as tables of `search_traces` hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from ragstone.errors import DataError
from ragstone.reading._fields import MLFLOW_NAMES, has_fields, mapping, parse_names, tokens_in, unix_time
from ragstone.reading._formats import RejectedRecord
from ragstone.reading._json import inner_json, parse_json
from ragstone.reading._records import read_each, records
from ragstone.reading._requests import requests_in
from ragstone.reading._source import InputFile
from ragstone.reading._values import fill_identity, request_metadata, text_or_none
from ragstone.reading.otlp import hex_id
from ragstone.requests import RetrieverTools, Step
from ragstone.schema import Trace

_EXPECTED: Final = ("expected_response", "expected_output", "expected_answer", "ground_truth", "reference")
"""Expectations that are a whole correct answer; `expected_facts` are parts of one."""
_TABLE: Final = ("trace_metadata", "request_metadata")
_MAX_SPANS: Final = 10_000


class MlflowFormat:
    """Traces of MLflow 2 and 3: JSON lines, JSON, or the Parquet or JSON of a table of `search_traces`."""

    name = "mlflow"

    def detect(self, head: bytes) -> str | None:
        """Detect traces by `info` and `data`, and by span attributes that begin with "mlflow."."""
        if head.startswith(b"PAR1"):
            is_table = any(has_fields(head, name, "spans", "trace") for name in _TABLE)
            return "columns of `search_traces`" if is_table else None
        found = parse_names(head)
        if "resourceSpans" in found:
            return None
        if {"info", "data"} <= found and (found & {"trace_metadata", "request_metadata", "mlflow.traceRequestId"}):
            return "traces with `info` and `data`, whose metadata are MLflow's"
        if found & set(_TABLE) and found & {"spans", "trace"} and b"mlflow." in head:
            return "rows of `search_traces`"
        return None

    def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
        """Read traces. Previews are not read because they are truncated. Feedback is ignored, expectations are kept."""
        return read_each(
            records(source, within=("traces", "data")), partial(_requests, retriever_tools=source.retriever_tools)
        )


def _requests(value: Any, retriever_tools: RetrieverTools) -> list[Trace | RejectedRecord]:
    """Return the requests in a trace."""
    if isinstance(value, str):
        value = parse_json(value)
    row = mapping(value)
    whole = mapping(inner_json(row.get("trace"))) or row
    # A row of a table has the fields of a trace's `info` and `data` on one level.
    info = mapping(whole.get("info")) or row
    spans = inner_json(mapping(whole.get("data")).get("spans", row.get("spans")))
    if not isinstance(spans, list) or not all(isinstance(span, Mapping) for span in spans):
        raise DataError(
            "a trace must have `spans`, in `data` or on the top level; an export without spans has only previews"
        )
    if not spans:
        raise DataError("the trace does not have any spans: they may have been archived, or it is still open")
    if len(spans) > _MAX_SPANS:
        raise DataError(f"the trace has {len(spans)} spans, more than {_MAX_SPANS}")
    run_id = text_or_none(info.get("trace_id")) or text_or_none(info.get("request_id"))
    steps = [_step(span, run_id) for span in spans]
    about = mapping(inner_json(info.get("trace_metadata"))) or mapping(inner_json(info.get("request_metadata")))
    _fill_roots([step for step in steps if step.parent is None], steps, info, about)
    trace_id = next((step.otel_trace_id for step in steps if step.otel_trace_id), run_id or "")
    return requests_in(steps, source="mlflow", trace_id=trace_id, retriever_tools=retriever_tools)


def _fill_roots(roots: list[Step], steps: list[Step], info: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Set the fields of a trace on its outermost spans."""
    tags = mapping(inner_json(info.get("tags")))
    said = {k: v for k, v in (dict(about) | dict(tags)).items() if not str(k).startswith("mlflow.")}
    read, written = tokens_in(inner_json(about.get("mlflow.trace.tokenUsage")))
    has_counts = any(step.input_tokens is not None or step.output_tokens is not None for step in steps)
    for root in roots:
        root.session_id = text_or_none(about.get("mlflow.trace.session")) or root.session_id
        root.user_id = text_or_none(about.get("mlflow.trace.user")) or root.user_id
        root.metadata = {**root.metadata, **request_metadata(said)}
        root.reference = tuple(_references(inner_json(info.get("assessments"))))
        if len(roots) == 1 and not has_counts:
            root.input_tokens, root.output_tokens = read, written


def _references(assessments: Any) -> Iterator[str]:
    for assessment in assessments if isinstance(assessments, list) else ():
        value = mapping(mapping(assessment).get("expectation")).get("value")
        if mapping(assessment).get("assessment_name") in _EXPECTED and isinstance(value, str) and value.strip():
            yield value


def _step(span: Mapping[str, Any], run_id: str | None) -> Step:
    context = mapping(span.get("context")) or span  # MLflow 2 keeps ids in a context
    trace_hex, span_hex = _hex(context.get("trace_id"), 16), _hex(context.get("span_id"), 8)
    span_id, trace_id = text_or_none(context.get("span_id")), text_or_none(context.get("trace_id")) or run_id
    if span_id is None or trace_id is None:
        raise DataError("a span must have a `span_id`, and a `trace_id` or a trace that has one")
    is_otel = trace_hex is not None and span_hex is not None
    parent = span.get("parent_span_id", span.get("parent_id"))
    attributes = {name: inner_json(value) for name, value in mapping(inner_json(span.get("attributes"))).items()}
    step = Step(
        id=span_hex or span_id,
        parent=_hex(parent, 8) or text_or_none(parent),
        run_id=run_id,
        otel_trace_id=trace_hex if is_otel else None,
        otel_span_id=span_hex if is_otel else None,
        name=text_or_none(span.get("name")),
        started_at=unix_time(span.get("start_time_unix_nano", span.get("start_time"))),
        ended_at=unix_time(span.get("end_time_unix_nano", span.get("end_time"))),
        error=_error(span),
    )
    MLFLOW_NAMES.set_kind(step, attributes)
    MLFLOW_NAMES.fill(step, attributes)
    fill_identity(step, mapping(attributes.get("metadata")))  # what the application gave LangChain
    return step


def _error(span: Mapping[str, Any]) -> str | None:
    status = mapping(span.get("status"))
    if not str(status.get("code", status.get("status_code", span.get("status_code")))).endswith("ERROR"):
        return None
    return text_or_none(status.get("message", status.get("description", span.get("status_message")))) or "error"


def _hex(value: Any, n_bytes: int) -> str | None:
    """Return an id as `hex_id` does. MLflow 2 writes it as a number: `0x1a`."""
    is_number = isinstance(value, str) and value.startswith("0x")
    return hex_id(value[2:].zfill(2 * n_bytes) if is_number else value, n_bytes=n_bytes)
