"""Files of Ragstone with requests: traces, captured calls, and exports with texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from ragstone._util.id_table import IdTable
from ragstone.errors import DataError, StoreVersionError
from ragstone.reading._fields import first_names, has_fields
from ragstone.reading._formats import EXPORT_WITH_TEXTS, OUTCOME, RejectedRecord
from ragstone.reading._records import records
from ragstone.reading._source import InputFile
from ragstone.schema import Sample, Trace, check_record

_TRACE: Final = ("trace_id", "started_at", "schema_version")
_EXPORTED: Final = (
    "trace_id", "run_id", "otel_trace_id", "otel_span_id", "response_id", "app", "release", "environment", "session_id",
    "user_id", "query", "standalone_query", "history", "response", "reference", "sub_questions", "evidence", "status",
    "error", "inner_errors", "ended_at", "first_token_s", "model", "tags", "metadata", "truncated_fields",
    "inclusion_probability",
)  # fmt: skip
"""Fields of a trace that an exported outcome has under the same name."""


CASE: Final = "case"
"""Field of a case with its cause, its scores and its weight (`labels cases`), also in the metadata of its sample."""
CHOSEN_BY_SCORES: Final = "cases chosen by what was judged, as a failures-only set is: their mean estimates nothing"
_CASE: Final = frozenset({CASE, "trace_id", "schema_version"})
_HEAD_BYTES: Final = 256 * 2**10


def case_of(sample: Sample) -> Mapping[str, Any] | None:
    """Return what a row of `labels cases` says about its request, or None if the sample is not one."""
    case = sample.metadata.get(CASE)
    names = case.keys() if isinstance(case, Mapping) else ()
    return case if {"estimates", "fingerprint", "is_wrong", "outcomes"} <= {*names} else None


def is_cases(path: Path) -> bool:
    """Return whether a file begins with a row of `labels cases`."""
    with path.open("rb") as file:
        return first_names(file.read(_HEAD_BYTES)) >= _CASE


class RagstoneFormat:
    """Traces of Ragstone, which keep the source they came from first, and requests of its other files.

    JSON lines, JSON or Parquet: `Trace.model_dump_json()`, captured calls (`evaluate --traces`), `traces STORE ID --json`, and
    `store export --texts`, whose rows are outcomes, so that each request is read once.
    """

    name = "ragstone"

    def detect(self, head: bytes) -> str | None:
        """Detect traces, and outcomes with the texts of their request."""
        names = first_names(head)
        if names >= _CASE:
            return "cases, as `labels cases` writes them"
        if names >= EXPORT_WITH_TEXTS:
            return "outcomes with the texts of their requests, as `store export --texts` writes them"
        return "traces with `trace_id`, `started_at` and `schema_version`" if has_fields(head, *_TRACE) else None

    def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
        """Read traces, in their order. Of the outcomes of a request, the first is read."""
        exported = IdTable()
        for record in records(source, within=("traces",)):
            if isinstance(record, RejectedRecord):
                yield record
                continue
            value = record.value
            try:
                if not isinstance(value, Mapping) or not value.keys() >= OUTCOME:
                    yield _trace(value)
                    continue
                trace = _exported(value)
                if exported.add(trace.trace_id) is not None:
                    continue
                is_removed = trace.query is None and trace.response is None and trace.contexts is None
                reason = "the texts of the request were removed from the store"
                yield RejectedRecord(place=record.place, reason=reason, is_ignored=True) if is_removed else trace
            except (DataError, StoreVersionError) as error:
                yield RejectedRecord(place=record.place, reason=str(error))


def _trace(value: object) -> Trace:
    if not isinstance(value, Mapping):
        raise DataError("a trace must be an object")
    if "left_out" in value:
        raise DataError("its texts are cut. Print the trace with --full")
    if "state" in value and value.get("trace") is None:
        raise DataError(f"the texts of the request {str(value.get('trace_id'))[:80]!r} are not in the store")
    inner = value.get("trace")  # the other fields are its outcomes
    fields = inner if isinstance(inner, Mapping) else value
    check_record("the trace", fields)
    return _valid(fields)


def _exported(row: Mapping[str, Any]) -> Trace:
    """Return the request of an exported outcome."""
    texts = row.get("contexts")
    return _valid(
        {name: row[name] for name in _EXPORTED if row.get(name) is not None}
        | {
            "source": "ragstone",
            "name": row.get("operation"),
            "started_at": row.get("requested_at"),
            "contexts": [{"text": text, "rank": rank} for rank, text in enumerate(texts)]
            if isinstance(texts, list)
            else None,
        }
    )


def _valid(value: Mapping[str, Any]) -> Trace:
    try:
        return Trace.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise DataError(f"field {'.'.join(map(str, first['loc']))[:200]}: {first['msg'][:200]}") from error
