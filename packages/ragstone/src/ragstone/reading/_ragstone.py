"""Traces in our own JSON: one a line, as `Trace.model_dump_json()` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from ragstone.errors import DataError, StoreVersionError
from ragstone.reading._fields import has_fields
from ragstone.reading._formats import RejectedRecord
from ragstone.reading._records import records
from ragstone.reading._source import InputFile
from ragstone.schema import Trace, check_record


class RagstoneFormat:
    """Traces of Ragstone: JSON lines or JSON. They keep the source they came from first."""

    name = "ragstone"

    def detect(self, head: bytes) -> str | None:
        """Detect traces by an id, a start time and a schema version."""
        fields = ("trace_id", "started_at", "schema_version")
        return "traces with `trace_id`, `started_at` and `schema_version`" if has_fields(head, *fields) else None

    def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
        """Read traces, in their order."""
        for record in records(source, within=("traces",)):
            if isinstance(record, RejectedRecord):
                yield record
                continue
            try:
                yield _trace(record.value)
            except (DataError, StoreVersionError) as error:
                yield RejectedRecord(place=record.place, reason=str(error))


def _trace(value: Any) -> Trace:
    if isinstance(value, Mapping) and isinstance(value.get("trace"), Mapping):
        value = value["trace"]  # the other fields are its outcomes
    if not isinstance(value, Mapping):
        raise DataError("a trace must be an object")
    try:
        check_record("the trace", value)
        return Trace.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise DataError(f"field {'.'.join(map(str, first['loc']))[:200]}: {first['msg'][:200]}") from error
