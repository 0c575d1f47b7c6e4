"""OTLP messages and files of any convention, and the requests in them: JSON, a collector's JSON lines, protobuf."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final

from ragstone.capture import RedactionError, Redactor
from ragstone.errors import DataError
from ragstone.reading._formats import RejectedRecord
from ragstone.reading._json import parse_json
from ragstone.reading._records import large_records, read_each, records
from ragstone.reading._requests import requests_in
from ragstone.reading._source import MAX_RECORD_BYTES, InputFile
from ragstone.reading._stage import BufferedSpan, BufferedTrace, by_trace
from ragstone.reading.otlp._conventions import CONVENTIONS, Convention, step_of
from ragstone.reading.otlp._json_messages import log_of, span_of, spans_of_message
from ragstone.reading.otlp._protobuf import (
    check_json_size,
    check_protobuf_size,
    first_spans,
    looks_like_protobuf,
    spans_in_stream,
    spans_of_bytes,
)
from ragstone.reading.otlp._span import OtelSpan, join_logs
from ragstone.requests import RetrieverTools, Step
from ragstone.schema import Trace

_MESSAGE: Final = re.compile(
    rb'\A(?:\xef\xbb\xbf)?\s*+(?:\[\s*+)?\{\s*"resource_?(?:[sS]pans|[lL]ogs|[mM]etrics|[pP]rofiles)"'
)


class OtlpFormat:
    """OpenTelemetry's spans, as a collector writes them to files and as exporters send them: JSON, JSON lines, protobuf.

    The attributes may follow OpenInference, OpenTelemetry's GenAI convention, Traceloop, Langfuse's SDK or MLflow; each
    trace is read by the convention that has most of its fields, and `source` names that convention.
    """

    name = "otlp"

    def detect(self, head: bytes) -> str | None:
        """Detect OTLP messages; see `TraceFormat`."""
        by_protobuf = looks_like_protobuf(head)
        if by_protobuf is None and not _MESSAGE.match(head):
            return None
        found = _conventions_in(head)
        return f"{by_protobuf or 'OTLP messages in JSON'}{f', with spans of {found}' if found else ''}"

    def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
        """Read the requests; spans of a trace may be anywhere in the file. See `TraceFormat`."""
        return requests_of(spans_in(source), source.retriever_tools)


def _conventions_in(head: bytes) -> str:
    """Return the titles of the conventions whose attributes are in the first bytes of a file."""
    return ", ".join(
        convention.title for convention in CONVENTIONS if any(marker.encode() in head for marker in convention.markers)
    )


def requests_of(
    spans: Iterator[OtelSpan | RejectedRecord], retriever_tools: RetrieverTools
) -> Iterator[Trace | RejectedRecord]:
    """Group spans by trace, and yield their requests (see `by_trace`)."""
    buffered = (span if isinstance(span, RejectedRecord) else span.staged() for span in spans)
    return by_trace(buffered, partial(traces_of, retriever_tools=retriever_tools))


def spans_in(source: InputFile) -> Iterator[OtelSpan | RejectedRecord]:
    """Yield the spans of a file or of a directory's files, in order.

    Raise DataError if the rest of a file is unreadable. Raise MissingExtraError if the file needs a package that is not
    installed.
    """
    for part in source.parts():
        head = part.head(MAX_RECORD_BYTES + 1)
        if looks_like_protobuf(head[:64]):
            yield from _protobuf(part)
        elif len(head) > MAX_RECORD_BYTES and not _has_line_end(head):
            yield from _large(part, head)
        else:
            yield from _json(part)


def _has_line_end(head: bytes) -> bool:
    """Return whether the first value ends within the first bytes, at the end of its line."""
    first, end, rest = head.partition(b"\n")
    return bool(end) and first.rstrip().endswith((b"}", b"]")) and rest.lstrip()[:1] in (b"{", b"[", b"")


def _json(source: InputFile) -> Iterator[OtelSpan | RejectedRecord]:
    return read_each(records(source, within=()), spans_of_message)


def _protobuf(source: InputFile) -> Iterator[OtelSpan | RejectedRecord]:
    with source.open() as stream:
        try:
            for span in spans_in_stream(stream):
                yield span if isinstance(span, OtelSpan) else RejectedRecord(place="the file", reason=span)
        except DataError as error:
            raise DataError(f"{source.name!r} cannot be read on: {error}") from error


def _large(source: InputFile, head: bytes) -> Iterator[OtelSpan | RejectedRecord]:
    """Yield the spans of one document, read incrementally."""
    outer = next((name for name in _LARGE if f'"{name}"'.encode() in head[:65536]), "resourceSpans")
    path, read = _LARGE[outer]
    prefix = "item." if re.match(rb"\s*\[", head.removeprefix(b"\xef\xbb\xbf")) else ""
    items = large_records(source, f"{prefix}{outer}.item.{path}.item", kind="span")
    return read_each(items, lambda value: filter(None, [read(value)]))


_LARGE: Final[dict[str, tuple[str, Callable[[Any], OtelSpan | str | None]]]] = {
    "resourceSpans": ("scopeSpans.item.spans", span_of),
    "resource_spans": ("scope_spans.item.spans", span_of),
    "resourceLogs": ("scopeLogs.item.logRecords", log_of),
    "resource_logs": ("scope_logs.item.log_records", log_of),
}
"""By name of the list of resources in a document, where the items are, and the function that reads one."""


_ALL: Final = 3
_UNKNOWN: Final = "not a request: no span follows a convention that is known"
_MEANT: Final = (
    "openinference.", "input.", "output.", "llm.", "retrieval.", "reranker.", "embedding.", "tool.", "session.", "user.",
    "metadata", "tag.", "prompt.", "agent.", "graph.", "message.", "gen_ai.", "traceloop.", "langfuse.", "mlflow.", "ai.",
    "spring.ai.", "pydantic_ai.", "logfire.", "smolagents.", "http.", "net.", "url.", "server.", "client.", "network.",
    "otel.", "telemetry.", "thread.", "code.", "error.", "exception.", "user_agent.", "peer.", "rpc.", "enduser.", "db.",
)  # fmt: skip
"""Beginnings of attributes with a meaning of their own. All other attributes of a request are the application's."""
_MEANT_NAMES: Final = frozenset(
    {
        "model_name", "agent_name", "all_messages_events", "final_result", "model_request_parameters", "resource.name",
        "operation.name", "crew_key", "crew_id", "crew_inputs", "crew_agents", "crew_tasks", "task_key", "task_id",
    }
)  # fmt: skip
"""The same for names that frameworks write without a prefix."""


def spans_of_request(
    message: bytes, content_type: str, *, is_logs: bool = False, redact: Redactor | None = None
) -> list[BufferedSpan | RejectedRecord]:
    """Read the spans, or with `is_logs` the log records, of a request to an OTLP receiver, for a `SpanBuffer`.

    `message` is the decompressed body, and `content_type` "application/json" or "application/x-protobuf", parameters
    allowed. `redact` is applied to every text of the application. None stores texts unchanged. Raise DataError if the
    body is not an OTLP message, or has another type. Raise OversizedMessageError if the message has too many objects or
    spans. Raise MissingExtraError if the package that reads protobuf is not installed.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("application/x-protobuf", "application/protobuf"):
        check_protobuf_size(message, is_logs=is_logs)
        spans = spans_of_bytes(message, is_logs=is_logs)
    elif kind == "application/json":
        check_json_size(message)
        # An exporter without spans may send an empty object.
        spans = spans_of_message(parse_json(message) or {"resourceSpans": []})
    else:
        raise DataError(
            f"the content type must be application/x-protobuf or application/json, got {content_type[:100]!r}"
        )
    return [
        _staged(span, redact) if isinstance(span, OtelSpan) else RejectedRecord(place="the message", reason=span)
        for span in first_spans(spans)
    ]


def _staged(span: OtelSpan, redact: Redactor | None) -> BufferedSpan | RejectedRecord:
    try:
        return (span if redact is None else span.redacted(redact)).staged()
    except RedactionError as error:
        return RejectedRecord(place="the message", reason=f"span {span.span_id} cannot be redacted: {error}")


def traces_of(staged: BufferedTrace, retriever_tools: RetrieverTools | None = None) -> list[Trace | RejectedRecord]:
    """Return the requests in a trace: usually one, or a `RejectedRecord` if there is none.

    One trace can have spans of several conventions, for example of a framework and of a client. Then each convention
    reads it. The reading with most of query, passages, response, ids and tokens counts. Of equal readings the first in
    `CONVENTIONS` counts. Only if none knows query, passages and response, with the query from a step of the
    application, all conventions read it together. `retriever_tools` are names of tools whose text results are passages,
    with the separator between passages.
    """
    place = f"trace {staged.trace_id}"
    if staged.is_cut:
        return [RejectedRecord(place=place, reason="it has more spans, or more bytes, than are kept")]
    spans = join_logs(OtelSpan.from_staged(body) for body in staged.spans)
    claiming = [convention for convention in CONVENTIONS if any(convention.claims(span) for span in spans)]
    if not claiming:
        return [RejectedRecord(place=place, reason=_UNKNOWN, is_ignored=True)]
    tools = retriever_tools or {}
    readings = [_read_by(spans, [convention], staged.trace_id, tools) for convention in claiming]
    known, requests = max(readings, key=itemgetter(0))
    if len(claiming) > 1 and known[:2] < (_ALL, True):
        readings = [(known, requests), _read_by(spans, claiming, staged.trace_id, tools)]
        known, requests = max(readings, key=itemgetter(0))
    return requests


def _read_by(
    spans: Sequence[OtelSpan], conventions: Sequence[Convention], trace_id: str, retriever_tools: RetrieverTools
) -> tuple[tuple[int, bool, int, int, int], list[Trace | RejectedRecord]]:
    """Return the requests that conventions read in a trace, and how much they know."""
    steps = [_step_of(span, conventions) for span in spans]
    # Queries of models and retrievers may be the application's.
    is_asked = any(step.query or step.inputs for step in steps if step.kind in ("chain", "agent"))
    items = requests_in(steps, source=conventions[0].name, trace_id=trace_id, retriever_tools=retriever_tools)
    return _rate_completeness(items, is_asked=is_asked), items


def _step_of(span: OtelSpan, conventions: Iterable[Convention]) -> Step:
    for convention in conventions:
        if convention.reads(span):
            step = convention.read(span)
            step.metadata = {**_of_application(span.attributes), **step.metadata}
            return step
    step = step_of(span)
    # A server's span may state the id of the request in it.
    step.metadata = _of_application(span.attributes)
    return step


def _of_application(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value for name, value in attributes.items() if not name.startswith(_MEANT) and name not in _MEANT_NAMES
    }


def _rate_completeness(items: Sequence[Trace | RejectedRecord], *, is_asked: bool) -> tuple[int, bool, int, int, int]:
    """Return how much a reading knows: of query, passages and response, then of ids, requests and tokens."""
    traces = [item for item in items if isinstance(item, Trace)]
    parts = [
        (trace.query is not None)
        + any(passage.text for passage in trace.prompt_contexts or ())
        + (trace.response is not None)
        for trace in traces
    ]
    ids = sum(passage.id is not None for trace in traces for passage in trace.prompt_contexts or ())
    n_usages = sum(trace.usage is not None for trace in traces)
    return min(parts, default=-1), is_asked, ids, len(traces), n_usages
