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

from ragstone.errors import ConfigurationError, MissingExtraError, SinkRejectedError, SinkUnavailableError
from ragstone.schema import Delivery
from ragstone.sinks._row import outcome_row

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ParquetSink"]

# A part is written anew with each batch until it is full: that is what keeps the files few, and what a batch costs.
_PART_MAX_ROWS: Final = 2_000
_PART_MAX_BYTES: Final = 1024 * 1024
# What is looked at to find repeats: a repeat is always of the last batch that was not acknowledged.
_SEEN_MAX_IDS: Final = 10_000
_STALE_S: Final = 24 * 3600.0
_TEXT: Final = ("explanation", "details", "raw")


class ParquetSink:
    """Writes one row per outcome to Parquet files in a local directory, with the columns of the JSONL sink.

    Parts are called `<time>-<random>.parquet`. A batch goes into the newest part of this sink, which is written anew
    beside itself, synced to the disk and renamed over itself, until it has 2,000 rows or 1 MiB; then a new part begins.
    Whoever reads `*.parquet` sees a batch whole or not at all, once, whenever a crash comes. Several processes may write
    to one directory: each has parts of its own. New files are readable by their owner only.

    A delivery that comes again is not written again, as long as it is among the last 10,000 rows of the directory.

    `details` is JSON text; what is left out or does not exist is null, so that all parts have the same columns.

    Args:
        path: The directory; created when missing. Its parent must exist.
        include_text: Also write what may hold captured text: explanations, details, and the judge's raw replies.

    Raises:
        ConfigurationError: The parent does not exist, or `path` is a file.
        MissingExtraError: The extra `parquet` is not installed.
    """

    def __init__(self, path: str | os.PathLike[str], *, include_text: bool = True) -> None:
        _require_pyarrow()
        self._path = Path(path).absolute()
        if not self._path.parent.is_dir():
            raise ConfigurationError(
                f"cannot write to {os.fspath(path)!r}: the directory {str(self._path.parent)!r} does not exist; create it"
            )
        if self._path.exists() and not self._path.is_dir():
            raise ConfigurationError(f"cannot write to {os.fspath(path)!r}: it is a file; name a directory")
        self._include_text = include_text
        self._seen: dict[str, None] | None = None
        """Ids in the directory, oldest first; None when it has to be read (again)."""
        self._part: _Part | None = None
        self._closed = False

    @classmethod
    def from_spec(cls, argument: str, *, include_text: bool = True) -> ParquetSink:
        """Make the sink of `"parquet:DIR/"` from its part after the colon.

        Raises:
            ConfigurationError: There is no path, or it cannot be written to.
            MissingExtraError: The extra `parquet` is not installed.
        """
        if not argument:
            raise ConfigurationError("the sink 'parquet' needs a directory: write 'parquet:DIR/'")
        return cls(argument, include_text=include_text)

    @property
    def name(self) -> str:
        """`parquet:` and the absolute path."""
        return f"parquet:{self._path}"

    async def write(self, batch: Sequence[Delivery]) -> None:
        """Write what is new in `batch` and sync it to the disk.

        Raises:
            SinkUnavailableError: The directory cannot be written to now (disk full, gone, permissions), or the sink is
                closed.
            SinkRejectedError: A row has a number that no column holds.
        """
        if self._closed:
            raise SinkUnavailableError(f"the sink {self.name!r} is closed")
        if batch:
            await asyncio.to_thread(self._write, batch)

    async def aclose(self) -> None:
        """Refuse further batches; nothing is held open."""
        self._closed = True

    def _write(self, batch: Sequence[Delivery]) -> None:
        try:
            if self._seen is None:
                self._seen = _ids_in(self._path)
            fresh = {d.outcome.id: d for d in batch if d.outcome.id not in self._seen}
            if fresh:
                rows = _table([_plain(outcome_row(d, include_text=self._include_text)) for d in fresh.values()])
                if self._part is None or not self._part.takes(rows.num_rows):
                    self._path.mkdir(mode=0o700, exist_ok=True)
                    self._part = _Part(self._path)
                self._part.extend(rows)
        except OSError as error:
            # The batch may be in the directory all the same: what is there is found out from it, as after a crash.
            self._seen = self._part = None
            raise SinkUnavailableError(f"cannot write to {str(self._path)!r}: {error.strerror or error}") from error
        self._seen.update(dict.fromkeys(fresh))
        while len(self._seen) > _SEEN_MAX_IDS:
            del self._seen[next(iter(self._seen))]


class _Part:
    """One file, as long as it is this sink that fills it."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.parquet"
        self._pid = os.getpid()
        self._table: pa.Table | None = None
        self._state: tuple[int, int] | None = None
        """Size and time of the file as it was written, by which it is known again."""

    def takes(self, n_rows: int) -> bool:
        """Whether `n_rows` more belong here: it is not full, not a parent process's, and nobody has moved it away."""
        if self._table is None or self._state is None or self._pid != os.getpid():
            return False
        full = self._table.num_rows + n_rows > _PART_MAX_ROWS or self._state[0] >= _PART_MAX_BYTES
        return not full and _state(self._path) == self._state

    def extend(self, rows: pa.Table) -> None:
        """Write the file anew, with `rows` behind those it has."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = rows if self._table is None else pa.concat_tables([self._table, rows])
        # Those who read a whole directory pass over names that begin with a dot.
        draft = self._path.with_name(f".{self._path.stem}.tmp")
        try:
            fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "wb") as file:
                pq.write_table(table, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self._path)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
        directory = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        self._table, self._state = table, _state(self._path)


def _state(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_size, stat.st_mtime_ns


def _require_pyarrow() -> None:
    try:
        import pyarrow.parquet  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(feature="the sink 'parquet'", package="pyarrow", extra="ragstone[parquet]") from error


def _schema() -> pa.Schema:
    import pyarrow as pa

    text, real, whole = pa.string(), pa.float64(), pa.int64()
    interval = pa.struct({"low": real, "high": real, "confidence_level": real, "method": text})
    usage = pa.struct(
        {"input_tokens": whole, "output_tokens": whole, "calls": whole, "cached": whole, "cost_usd": real}
    )
    return pa.schema(
        {
            "schema_version": whole,
            "id": text,
            "trace_id": text,
            "run_id": text,
            "otel_trace_id": text,
            "otel_span_id": text,
            "metric": text,
            "metric_version": text,
            "outcome": text,
            "value": real,
            "interval": interval,
            "method": text,
            "n": whole,
            "kind": text,
            "reason": text,
            "missing": pa.list_(text),
            "judge": text,
            "judge_hash": text,
            "prompt_hash": text,
            "usage": usage,
            "inclusion_probability": real,
            "requested_at": real,
            "scored_at": real,
            "explanation": text,
            "details": text,
            "raw": text,
        }
    )


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    try:
        return pa.Table.from_pylist(rows, schema=_schema())
    except (pa.ArrowException, OverflowError) as error:
        raise SinkRejectedError(f"the outcome does not fit the columns: {error}") from error


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as its columns take it."""
    details = row.get("details")
    row |= dict.fromkeys(_TEXT) | {name: row.get(name) for name in _TEXT}
    row["details"] = json.dumps(details, ensure_ascii=False, allow_nan=False) if details is not None else None
    # A lone surrogate is not UTF-8.
    return {
        name: value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
        for name, value in row.items()
    }


def _ids_in(directory: Path) -> dict[str, None]:
    """Return the ids of the newest parts, oldest first; sweep up what a crash left of a part long ago."""
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
            continue  # somebody else's file
    return dict.fromkeys(id_ for ids in reversed(newest) for id_ in ids if isinstance(id_, str))
