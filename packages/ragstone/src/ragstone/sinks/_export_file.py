"""Outcomes of a store as one file: JSON lines or Parquet, complete or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from ragstone._util.files import open_draft
from ragstone._util.lazy import needs_extra
from ragstone.errors import ConfigurationError
from ragstone.schema import Delivery, Trace
from ragstone.sinks._row import COLUMNS, TEXT_COLUMNS, outcome_row
from ragstone.sinks.jsonl import json_line

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS: Final = 2_000
"""Rows in memory: one row group of Parquet."""


def check_export_path(path: Path) -> None:
    """Check the suffix and the directory of an output.

    Raise ConfigurationError if the suffix is not .jsonl or .parquet, or the directory does not exist. Raise
    MissingExtraError if the file is Parquet and the extra `parquet` is not installed.
    """
    if path.suffix not in (".jsonl", ".parquet"):
        raise ConfigurationError(f"the output must end in .jsonl or .parquet, got {path.name!r}.")
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(f"the directory of the output {str(path)!r} does not exist. Create it.")
    if path.suffix == ".parquet":
        with needs_extra("parquet", "pyarrow", "Parquet output"):
            import pyarrow.parquet  # noqa: F401


def export_row(
    delivery: Delivery, slices: Mapping[str, str], trace: Trace | None, *, include_text: bool
) -> dict[str, Any]:
    """Return an outcome with its request as plain values. Without text, nothing quotes what was captured.

    `slices` are the values of tags, retriever and language. `trace` is None if its texts are not wanted or were
    removed.
    """
    row = outcome_row(delivery, include_text=include_text)
    row |= {
        "session_id": delivery.session_id,
        "user_id": delivery.user_id,
        "operation": delivery.name,
        "weight": 1 / delivery.inclusion_probability,
        "slices": dict(slices),
    }
    if not include_text:
        # The reason may quote captured text. `kind` and `missing` contain the cause without it.
        return row | {"reason": None if row["reason"] is None else "not exported"}
    contexts = None if trace is None else trace.prompt_contexts
    return row | {
        "query": None if trace is None else trace.query,
        "response": None if trace is None else trace.response,
        "contexts": None if contexts is None else [passage.text for passage in contexts],
    }


def write_export(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows of `export_row` to a new file that only its owner can read, and return how many.

    The file appears under its name when it is complete, and replaces one of before. Memory does not grow with the rows.
    Raise ConfigurationError if the suffix or the directory is invalid. Raise OSError if the disk is full or the
    directory cannot be written.
    """
    check_export_path(path)
    with open_draft(path) as file:
        write = _parquet_writer(file) if path.suffix == ".parquet" else _jsonl_writer(file)
        return write(rows)


def _jsonl_writer(file: IO[bytes]) -> Callable[[Iterable[dict[str, Any]]], int]:
    def write(rows: Iterable[dict[str, Any]]) -> int:
        n = 0
        for n, row in enumerate(rows, start=1):  # noqa: B007 - the number of rows
            file.write(json_line(row))
        return n

    return write


def _parquet_writer(file: IO[bytes]) -> Callable[[Iterable[dict[str, Any]]], int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = _outcome_schema()
    for name, kind in _COLUMNS.items():
        schema = schema.append(pa.field(name, pa.list_(pa.string()) if kind == "list" else getattr(pa, kind)()))

    def plain(row: dict[str, Any]) -> dict[str, Any]:
        return _plain_row(row | {"slices": json.dumps(row["slices"], sort_keys=True)})

    def write(rows: Iterable[dict[str, Any]]) -> int:
        n, page = 0, []
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for row in rows:
                page.append(plain(row))
                if len(page) == _ROWS:
                    writer.write_table(pa.Table.from_pylist(page, schema=schema))
                    n, page = n + len(page), []
            writer.write_table(pa.Table.from_pylist(page, schema=schema))
        return n + len(page)

    return write


def _outcome_schema() -> pa.Schema:
    """Return the columns of an outcome."""
    import pyarrow as pa

    text, real, whole = pa.string(), pa.float64(), pa.int64()
    interval = pa.struct({"low": real, "high": real, "confidence_level": real, "method": text})
    usage = pa.struct(
        {
            "input_tokens": whole,
            "output_tokens": whole,
            "calls": whole,
            "cached": whole,
            "cost_usd": real,
            "priced_calls": whole,
            "counted_calls": whole,
        }
    )
    others = {
        "schema_version": whole,
        "value": real,
        "interval": interval,
        "n": whole,
        "missing": pa.list_(text),
        "usage": usage,
        "inclusion_probability": real,
        "requested_at": real,
        "scored_at": real,
    }
    return pa.schema({name: others.get(name, text) for name in (*COLUMNS, *TEXT_COLUMNS)})


def _plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row to the types of the columns."""
    details = row.get("details")
    row |= {name: row.get(name) for name in TEXT_COLUMNS}
    row["details"] = json.dumps(details, ensure_ascii=False, allow_nan=False) if details is not None else None
    # A lone surrogate is not UTF-8.
    return {
        name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for name, value in row.items()
    }


_COLUMNS: Final = {
    "session_id": "string",
    "user_id": "string",
    "operation": "string",
    "weight": "float64",
    "slices": "string",
    "query": "string",
    "response": "string",
    "contexts": "list",
}
"""Columns in addition to those of an outcome."""
