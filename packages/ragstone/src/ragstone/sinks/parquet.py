"""Outcomes as Parquet files in a local directory, for analysis."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ragstone._util.files import open_draft, sync_directory
from ragstone._util.lazy import needs_extra
from ragstone.errors import ConfigurationError, SinkRejectedError, SinkUnavailableError
from ragstone.schema import Delivery
from ragstone.sinks._row import COLUMNS, TEXT_COLUMNS, outcome_row, remember

if TYPE_CHECKING:
    import pyarrow as pa

# Each batch rewrites the current part until it is full. This keeps the number of files small at the cost of rewriting.
_PART_MAX_ROWS: Final = 2_000
_PART_MAX_BYTES: Final = 1024 * 1024
# Number of ids that are searched for repeated deliveries. Only the last batch that was not acknowledged can repeat.
_SEEN_MAX_IDS: Final = 10_000
_STALE_S: Final = 24 * 3600.0


class ParquetSink:
    """Writes one row per outcome to Parquet files in a local directory, with the columns of the JSONL sink.

    Files (parts) are named `<time>-<random>.parquet`. The sink adds a batch to its newest part: it writes a temporary file,
    syncs it to disk and renames it to the part. A part with 2,000 rows or 1 MiB is full, and a new one begins. Readers of
    `*.parquet` see each batch either completely or not at all, and only once, even after a crash. Several processes can
    write to one directory, because each has its own parts. New files are readable by their owner only.

    A repeated delivery is not written twice if it is among the last 10,000 rows of the directory.

    `details` is JSON text. Missing and omitted values are null, so that all parts have the same columns.

    Args:
        path: The directory. It is created if missing. Its parent must exist.
        include_text: Also write explanations, details and the judge's raw replies, which may contain captured text.

    Raises:
        ConfigurationError: If the parent does not exist or `path` is a file.
        MissingExtraError: If the extra `parquet` is not installed.
    """

    def __init__(self, path: str | os.PathLike[str], *, include_text: bool = True) -> None:
        require_pyarrow()
        self._path = Path(path).absolute()
        if not self._path.parent.is_dir():
            raise ConfigurationError(
                f"cannot write to {os.fspath(path)!r}: the directory {str(self._path.parent)!r} does not exist. Create it."
            )
        if self._path.exists() and not self._path.is_dir():
            raise ConfigurationError(
                f"cannot write to {os.fspath(path)!r}: it is a file. Give the path of a directory."
            )
        self._include_text = include_text
        self._seen: dict[str, None] | None = None
        """Ids in the directory, oldest first. None if the directory must be read."""
        self._part: _Part | None = None
        self._closed = False

    @classmethod
    def from_spec(cls, argument: str, *, include_text: bool = True) -> ParquetSink:
        """Create the sink from the argument of `"parquet:DIR/"`.

        Raises:
            ConfigurationError: If the path is missing or invalid.
            MissingExtraError: If the extra `parquet` is not installed.
        """
        if not argument:
            raise ConfigurationError("the sink 'parquet' needs a directory. Write 'parquet:DIR/'.")
        return cls(argument, include_text=include_text)

    @property
    def name(self) -> str:
        """Name of the sink: `parquet:` and the absolute path."""
        return f"parquet:{self._path}"

    async def write(self, batch: Sequence[Delivery]) -> None:
        """Write the new rows of `batch` and sync them to disk.

        Raises:
            SinkUnavailableError: If the directory cannot be written to (disk full, removed, permissions) or the sink is
                closed.
            SinkRejectedError: If a row contains a number out of its column's range.
        """
        if self._closed:
            raise SinkUnavailableError(f"the sink {self.name!r} is closed")
        if batch:
            await asyncio.to_thread(self._write, batch)

    async def aclose(self) -> None:
        """Reject further batches. The sink does not keep open files."""
        self._closed = True

    def _write(self, batch: Sequence[Delivery]) -> None:
        try:
            if self._seen is None:
                self._seen = _ids_in(self._path)
            fresh = {d.outcome.id: d for d in batch if d.outcome.id not in self._seen}
            if fresh:
                rows = _table([plain_row(outcome_row(d, include_text=self._include_text)) for d in fresh.values()])
                if self._part is None or not self._part.takes(rows.num_rows):
                    self._path.mkdir(mode=0o700, exist_ok=True)
                    self._part = _Part(self._path)
                self._part.extend(rows)
        except OSError as error:
            # The batch may be in the directory, so the ids are read from it again, as after a crash.
            self._seen = self._part = None
            raise SinkUnavailableError(f"cannot write to {str(self._path)!r}: {error.strerror or error}") from error
        remember(self._seen, fresh, _SEEN_MAX_IDS)


class _Part:
    """A file that this sink is filling."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.parquet"
        self._pid = os.getpid()
        self._table: pa.Table | None = None
        self._state: tuple[int, int] | None = None
        """Size and modification time after the last write, to detect changes by other programs."""

    def takes(self, n_rows: int) -> bool:
        """Return whether `n_rows` more rows fit, and the file is unchanged and was created by this process."""
        if self._table is None or self._state is None or self._pid != os.getpid():
            return False
        full = self._table.num_rows + n_rows > _PART_MAX_ROWS or self._state[0] >= _PART_MAX_BYTES
        return not full and _state(self._path) == self._state

    def extend(self, rows: pa.Table) -> None:
        """Rewrite the file with `rows` appended."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = rows if self._table is None else pa.concat_tables([self._table, rows])
        with open_draft(self._path) as file:
            pq.write_table(table, file, compression="zstd")
        sync_directory(self._path.parent)
        self._table, self._state = table, _state(self._path)


def _state(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_size, stat.st_mtime_ns


def require_pyarrow() -> None:
    """Raise MissingExtraError if pyarrow is not installed."""
    with needs_extra("parquet", "pyarrow", "the sink 'parquet'"):
        import pyarrow.parquet  # noqa: F401


def outcome_schema() -> pa.Schema:
    """Return the columns of an outcome."""
    import pyarrow as pa

    text, real, whole = pa.string(), pa.float64(), pa.int64()
    interval = pa.struct({"low": real, "high": real, "confidence_level": real, "method": text})
    usage = pa.struct(
        {"input_tokens": whole, "output_tokens": whole, "calls": whole, "cached": whole, "cost_usd": real}
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


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    try:
        return pa.Table.from_pylist(rows, schema=outcome_schema())
    except (pa.ArrowException, OverflowError) as error:
        raise SinkRejectedError(f"the outcome does not fit the columns: {error}") from error


def plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """Convert a row to the types of the columns."""
    details = row.get("details")
    row |= {name: row.get(name) for name in TEXT_COLUMNS}
    row["details"] = json.dumps(details, ensure_ascii=False, allow_nan=False) if details is not None else None
    # A lone surrogate is not UTF-8.
    return {
        name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for name, value in row.items()
    }


def _ids_in(directory: Path) -> dict[str, None]:
    """Return the ids of the newest parts, oldest first, and delete temporary files older than a day."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    now = time.time()
    parts: list[tuple[int, Path]] = []
    with contextlib.suppress(FileNotFoundError):
        for path in directory.iterdir():
            with contextlib.suppress(FileNotFoundError):
                written_ns = path.stat().st_mtime_ns
                if path.suffix == ".parquet":
                    parts.append((written_ns, path))
                elif path.suffix == ".tmp" and now - written_ns / 1e9 > _STALE_S:
                    path.unlink()
    newest: list[list[Any]] = []
    for _, path in sorted(parts, reverse=True):
        if sum(map(len, newest)) >= _SEEN_MAX_IDS:
            break
        try:
            newest.append(pq.read_table(path, columns=["id"], partitioning=None)["id"].to_pylist())
        except (pa.ArrowException, KeyError, FileNotFoundError):
            continue  # not written by this sink
    return dict.fromkeys(id_ for ids in reversed(newest) for id_ in ids if isinstance(id_, str))
