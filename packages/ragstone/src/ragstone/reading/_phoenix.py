"""Arize Phoenix's exports: pages of `GET /v1/projects/…/spans`, and the data frame of spans as Parquet."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ragstone.reading._fields import exploded, mapping, unix_time
from ragstone.reading._files import PARQUET
from ragstone.reading._formats import RejectedRecord
from ragstone.reading._records import read_each, records
from ragstone.reading._source import InputFile
from ragstone.reading.otlp import OtelSpan, SpanEvent, read_span, requests_of
from ragstone.schema import Trace

_KIND: Final = "openinference.span.kind"
_MAX_DEPTH: Final = 8
_COLUMNS: Final = (b"context.span_id", b"context.trace_id", b"span_kind")
_JSON_MARKS: Final = (rb'"span_kind"\s*:', rb'"context"\s*:\s*\{', rb'"(?:trace|span)_id"\s*:', rb'"status_code"\s*:')


class PhoenixFormat:
    """Spans exported from Arize Phoenix: JSON pages of its REST interface (alone, in a list, or one a line), or Parquet.

    The attributes are OpenInference's, with what were objects taken apart into dotted names.
    """

    name = "phoenix"

    def detect(self, head: bytes) -> str | None:
        """Detect exports of Phoenix; see `TraceFormat`."""
        if head.startswith(PARQUET):
            # The names of the columns are at the end of such a file; what is read of a small one has them.
            return "a Parquet file with Phoenix's columns" if all(name in head for name in _COLUMNS) else None
        if all(re.search(mark, head) for mark in _JSON_MARKS):
            return "spans with `span_kind` and `context`, as Phoenix's REST interface gives them"
        return None

    def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
        """Read the requests; spans of a trace may be anywhere in the file. See `TraceFormat`."""
        return requests_of(read_each(records(source), _spans), source.retriever_tools)


def _spans(value: Any) -> Iterator[OtelSpan | str]:
    # Pages that were put into a list.
    page = mapping(value).get("data")
    yield from map(_span, page if isinstance(page, list) else [value])


def _span(value: Any) -> OtelSpan | str:
    if not isinstance(value, Mapping):
        return f"a span must be an object, got {type(value).__name__}"
    ids = mapping(value.get("context")) or exploded(value, "context")
    attributes: dict[str, Any] = {}
    given = value.get("attributes")
    # Of an object, or of the columns of a table.
    _flatten(given if isinstance(given, Mapping) else exploded(value, "attributes"), "", attributes, 0)
    attributes.setdefault(_KIND, str(value.get("span_kind") or "UNKNOWN"))
    events = value.get("events")
    return read_span(
        ids.get("trace_id"),
        ids.get("span_id"),
        value.get("parent_id"),
        name=str(value.get("name") or ""),
        started_at=unix_time(value.get("start_time")),
        ended_at=unix_time(value.get("end_time")),
        is_error=value.get("status_code") == "ERROR",
        status_message=str(value.get("status_message") or ""),
        attributes=attributes,
        events=tuple(map(_event, filter(None, map(mapping, events if isinstance(events, list) else ())))),
    )


def _flatten(value: Any, name: str, found: dict[str, Any], depth: int) -> None:
    """Add attributes under dotted names. Cells without a value are left out."""
    if depth < _MAX_DEPTH and isinstance(value, Mapping) and value:
        for key, item in value.items():
            _flatten(item, f"{name}.{key}" if name else str(key), found, depth + 1)
    elif depth < _MAX_DEPTH and isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for index, item in enumerate(value):
            _flatten(item, f"{name}.{index}", found, depth + 1)
    elif value is not None:
        found[name] = value


def _event(event: Mapping[str, Any]) -> SpanEvent:
    attributes = dict(mapping(event.get("attributes")))
    return SpanEvent(str(event.get("name") or ""), unix_time(event.get("timestamp")), attributes)
