"""From all spans of a trace to the requests in it, by the convention that says most about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ragstone.capture import Redactor
from ragstone.errors import DataError
from ragstone.replay._assemble import assemble
from ragstone.replay._formats import RejectedRecord
from ragstone.replay._json import parse_json
from ragstone.replay._stage import BufferedSpan, BufferedTrace
from ragstone.replay._tree import Step
from ragstone.replay.otlp._convention import Convention, node_of
from ragstone.replay.otlp._genai import GENAI
from ragstone.replay.otlp._json_messages import is_request, spans_of
from ragstone.replay.otlp._langfuse import LANGFUSE
from ragstone.replay.otlp._mlflow import MLFLOW
from ragstone.replay.otlp._openinference import OPENINFERENCE
from ragstone.replay.otlp._protobuf import spans_of_bytes
from ragstone.replay.otlp._span import OtelSpan
from ragstone.replay.otlp._traceloop import TRACELOOP
from ragstone.schema import Trace

__all__ = ["CONVENTIONS", "spans_of_request", "traces_of"]

CONVENTIONS: Final = (OPENINFERENCE, LANGFUSE, MLFLOW, TRACELOOP, GENAI)
"""The richer ones first: what says the same is read by the first."""

_ALL: Final = (3, True)
_MEANT: Final = (
    "openinference.", "input.", "output.", "llm.", "retrieval.", "reranker.", "embedding.", "tool.", "session.", "user.",
    "metadata", "tag.", "prompt.", "agent.", "graph.", "message.", "gen_ai.", "traceloop.", "langfuse.", "mlflow.",
    "http.", "net.", "url.", "server.", "client.", "network.", "otel.", "telemetry.", "thread.", "code.", "error.",
    "exception.", "user_agent.", "peer.", "rpc.", "enduser.", "db.",
)  # fmt: skip
"""Beginnings of attributes that have a meaning of their own; what else a request has is the application's."""


def spans_of_request(
    message: bytes, content_type: str, *, redact: Redactor | None = None
) -> list[BufferedSpan | RejectedRecord]:
    """The spans of a request to an OTLP/HTTP receiver, ready for a `SpanBuffer`.

    Args:
        message: The body, decompressed.
        content_type: "application/json" or "application/x-protobuf", parameters allowed.
        redact: Text to text, applied to all that an application put into a span; None keeps texts as they are.

    Raises:
        DataError: The body is no OTLP message, or its type is neither.
        MissingExtraError: Protobuf, without the package that reads it.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind in ("application/x-protobuf", "application/protobuf"):
        spans = spans_of_bytes(message)
    elif kind == "application/json":
        value = parse_json(message)
        if not is_request(value) and value != {}:
            raise DataError("it is JSON, but no OTLP message: that has `resourceSpans`")
        spans = spans_of(value)
    else:
        raise DataError(
            f"the content type must be application/x-protobuf or application/json, got {content_type[:100]!r}"
        )
    return [
        (span if redact is None else span.redacted(redact)).staged()
        if isinstance(span, OtelSpan)
        else RejectedRecord(place="the message", reason=span)
        for span in spans
    ]


def traces_of(staged: BufferedTrace) -> list[Trace | RejectedRecord]:
    """The requests in a trace: one as a rule, several where several were made within one, `RejectedRecord` where there is none.

    Where spans of several conventions are in one trace, as instrumentations of a framework and of a client beside each
    other make them, it is read by each, and the reading that knows most of question, passages, answer, ids and tokens
    counts; the first of `CONVENTIONS` wins a tie. Only if none of them knows question, passages and answer, the question
    from a step of the application, are the steps of all taken together.
    """
    spans = [OtelSpan.from_staged(body) for body in staged.spans]
    claiming = [convention for convention in CONVENTIONS if any(convention.claims(span) for span in spans)]
    if staged.is_cut:
        return [
            RejectedRecord(place=f"trace {staged.trace_id}", reason="it has more spans, or more bytes, than are kept")
        ]
    if not claiming:
        reason = f"no request: none of its {len(spans)} spans has attributes of a convention that is known"
        return [RejectedRecord(place=f"trace {staged.trace_id}", reason=reason)]
    readings = [_read(spans, [convention]) for convention in claiming]
    best = max(readings, key=_rate_completeness)
    if len(claiming) > 1 and _rate_completeness(best)[:2] < _ALL:
        best = max(best, _read(spans, claiming), key=_rate_completeness)
    return best.items


@dataclass(frozen=True, slots=True)
class _Reading:
    items: list[Trace | RejectedRecord]
    is_asked: bool
    """Whether a step of the application itself says the question: what a model or a retriever was asked may not be it."""


def _read(spans: Sequence[OtelSpan], conventions: Sequence[Convention]) -> _Reading:
    nodes = [_node(span, conventions) for span in spans]
    is_asked = any(node.query for node in nodes if node.kind in ("chain", "agent"))
    return _Reading(assemble(nodes, source=conventions[0].name), is_asked)


def _node(span: OtelSpan, conventions: Iterable[Convention]) -> Step:
    for convention in conventions:
        if convention.claims(span):
            node = convention.read(span)
            node.metadata = _of_application(span.attributes) | node.metadata
            return node
    return node_of(span)


def _of_application(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if not name.startswith(_MEANT)}


def _rate_completeness(reading: _Reading) -> tuple[int, bool, int, int, int]:
    """How much a reading knows: of question, passages and answer; then of ids, requests and tokens."""
    traces = [item for item in reading.items if isinstance(item, Trace)]
    parts = [
        (trace.query is not None)
        + any(passage.text for passage in trace.prompt_contexts or ())
        + (trace.response is not None)
        for trace in traces
    ]
    ids = sum(passage.id is not None for trace in traces for passage in trace.prompt_contexts or ())
    n_usages = sum(trace.usage is not None for trace in traces)
    return min(parts, default=-1), reading.is_asked, ids, len(traces), n_usages
