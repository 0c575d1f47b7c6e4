"""Spans on their way to whole traces: they come in any order, in many files or requests, and more of them than fit in memory."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from ragstone.errors import DataError, StoreError
from ragstone.reading._formats import RejectedRecord
from ragstone.reading._records import Record, read_each
from ragstone.reading._requests import requests_in
from ragstone.requests import RetrieverTools, Step
from ragstone.schema import SCHEMA_VERSION, Trace, check_version

_BATCH: Final = 500
"""Spans that are kept in one transaction."""

_TABLES: Final = f"""
    PRAGMA user_version = {SCHEMA_VERSION};
    CREATE TABLE IF NOT EXISTS traces (
        seq INTEGER PRIMARY KEY,
        trace_id TEXT NOT NULL UNIQUE,
        n_spans INTEGER NOT NULL,
        n_bytes INTEGER NOT NULL,
        has_root INTEGER NOT NULL,
        touched_at REAL NOT NULL
    );
    CREATE TABLE IF NOT EXISTS spans (
        trace_seq INTEGER NOT NULL,
        span_id TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (trace_seq, span_id)
    ) WITHOUT ROWID;
    CREATE INDEX IF NOT EXISTS traces_by_age ON traces (touched_at);
"""
_PAGE: Final = """
    SELECT seq, trace_id, n_spans FROM traces
    WHERE seq > ?1 AND (?2 IS NULL OR touched_at <= ?2 OR (has_root AND touched_at <= ?3)) ORDER BY seq LIMIT 200
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedSpan:
    """One span as it came, in whatever bytes its reader understands."""

    trace_id: str
    span_id: str
    is_root: bool
    """Whether it does not have a parent."""
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferedTrace:
    """All spans of one trace that have arrived so far."""

    seq: int
    """Its place in the order of first arrival."""
    trace_id: str
    spans: tuple[bytes, ...]
    """In the order of their span ids: the same whatever order they came in."""
    is_cut: bool
    """Whether spans beyond the limits were left out."""


class SpanBuffer:
    """Groups spans by trace on disk. What `add` has returned from survives `kill -9` when the stage has a file.

    A repeated span is ignored: the first one counts. Not safe for several threads.

    Args:
        path: The file. None takes a temporary one without a name, which is gone when this process ends, even if it is killed.
        max_spans: Spans kept of one trace.
        max_bytes: Bytes kept of one trace.
        clock: Unix seconds.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        max_spans: int = 10_000,
        max_bytes: int = 64 * 2**20,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._max_spans = max_spans
        self._max_bytes = max_bytes
        self._clock = clock
        self._place = "a temporary file" if path is None else repr(os.fspath(path))
        try:
            if path is not None and not Path(path).exists():
                os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
            with ExitStack() as on_error:
                self._db = sqlite3.connect(path or "", isolation_level=None, check_same_thread=False)
                on_error.callback(self._db.close)
                if self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
                    (version,) = self._db.execute("PRAGMA user_version").fetchone()
                    check_version(f"the span buffer {self._place}", version)
                # A stage that is thrown away has nothing to survive.
                self._db.execute(f"PRAGMA journal_mode = {'WAL' if path else 'MEMORY'}")
                self._db.execute(f"PRAGMA synchronous = {'FULL' if path else 'OFF'}")
                self._db.executescript(_TABLES)
                on_error.pop_all()
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"spans cannot be kept in {self._place}: {error}") from error

    def add(self, spans: Iterable[BufferedSpan]) -> int:
        """Store spans, all or none, and return how many are new and within the limits."""
        now, kept = self._clock(), 0
        with self._transaction() as db:
            for span in spans:
                if not span.trace_id or not span.span_id:
                    raise DataError("a span without trace id or span id belongs nowhere")
                kept += self._keep(db, span, now)
        return kept

    def _keep(self, db: sqlite3.Connection, span: BufferedSpan, now: float) -> int:
        seq, n_spans, n_bytes = db.execute(
            """
            INSERT INTO traces (trace_id, n_spans, n_bytes, has_root, touched_at) VALUES (?, 0, 0, 0, ?)
            ON CONFLICT (trace_id) DO UPDATE SET touched_at = excluded.touched_at RETURNING seq, n_spans, n_bytes
            """,
            (span.trace_id, now),
        ).fetchone()
        fits = n_spans < self._max_spans and n_bytes + len(span.body) <= self._max_bytes
        new = (
            db.execute(
                "INSERT INTO spans VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (seq, span.span_id, span.body)
            ).rowcount
            if fits
            else 0
        )
        # A trace that was cut counts one span too many, and so says that it was.
        db.execute(
            "UPDATE traces SET n_spans = n_spans + ?, n_bytes = n_bytes + ?, has_root = max(has_root, ?) WHERE seq = ?",
            (new if fits else self._max_spans + 1 - n_spans, len(span.body) * new, span.is_root, seq),
        )
        return new

    def traces(
        self, *, untouched_since: float | None = None, rooted_since: float | None = None
    ) -> Iterator[BufferedTrace]:
        """Yield the traces in the order of their first spans, read in pages.

        Args:
            untouched_since: Only traces without new spans since then (Unix seconds). None takes all.
            rooted_since: Also traces that have their root and no new spans since then.
        """
        after = -1
        if untouched_since is not None:
            # If the clock was put back since then, these traces would wait until it has caught up.
            now = self._clock()
            with self._transaction() as db:
                db.execute("UPDATE traces SET touched_at = ? WHERE touched_at > ?", (now, now))
        while page := self._db.execute(_PAGE, (after, untouched_since, rooted_since)).fetchall():
            for after, trace_id, n_spans in page:
                spans = self._db.execute("SELECT body FROM spans WHERE trace_seq = ? ORDER BY span_id", (after,))
                yield BufferedTrace(
                    seq=after,
                    trace_id=trace_id,
                    spans=tuple(body for (body,) in spans.fetchall()),
                    is_cut=n_spans > self._max_spans,
                )

    def forget(self, seqs: Sequence[int]) -> None:
        """Delete traces that have been passed on."""
        with self._transaction() as db:
            db.executemany("DELETE FROM spans WHERE trace_seq = ?", [(seq,) for seq in seqs])
            db.executemany("DELETE FROM traces WHERE seq = ?", [(seq,) for seq in seqs])

    def __len__(self) -> int:
        """Return the number of staged traces."""
        return int(self._db.execute("SELECT count(*) FROM traces").fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreError(f"spans cannot be kept in {self._place}: {error}") from error
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file, and delete it if it is temporary. Safe to call twice."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def staged(*, trace_id: str, span_id: str, is_root: bool, value: Mapping[str, Any]) -> BufferedSpan:
    """Return a step's record as a staged span."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return BufferedSpan(trace_id=trace_id, span_id=span_id, is_root=is_root, body=body)


def traces_of(
    records: Iterable[Record | RejectedRecord],
    *,
    spans: Callable[[Any], Iterable[BufferedSpan]],
    steps: Callable[[str, list[Any]], list[Step]],
    source: str,
    retriever_tools: RetrieverTools,
) -> Iterator[Trace | RejectedRecord]:
    """Group the steps in `records` by trace: first the unreadable records, then the traces by their start.

    Records are in any order. `spans` makes steps of a record, or raises `DataError` if it is not a step. `steps` makes
    steps of a trace's id and its records. `source` is the name of the format. `retriever_tools` are names of tools
    whose text results are passages, with the separator between passages. Raise DataError if the rest of the file is
    unreadable, after the traces read before.
    """

    def read(trace: BufferedTrace) -> Iterable[Trace | RejectedRecord]:
        if trace.is_cut:
            place, reason = f"trace {trace.trace_id}", "more steps, or larger ones, than a trace may have"
            return [RejectedRecord(place=place, reason=reason)]
        found = steps(trace.trace_id, [json.loads(body) for body in trace.spans])
        return requests_in(found, source=source, trace_id=trace.trace_id, retriever_tools=retriever_tools)

    return by_trace(read_each(records, spans), read)


def by_trace(
    spans: Iterable[BufferedSpan | RejectedRecord], read: Callable[[BufferedTrace], Iterable[Trace | RejectedRecord]]
) -> Iterator[Trace | RejectedRecord]:
    """Group spans by trace, on disk, and yield the requests that `read` finds, by the start of the traces.

    Spans are in any order. Unreadable records come first. If reading the spans fails, the requests read before are
    yielded first.
    """
    with SpanBuffer() as stage:
        damage: DataError | None = None
        batch: list[BufferedSpan] = []
        try:
            for span in spans:
                if isinstance(span, RejectedRecord):
                    yield span
                    continue
                batch.append(span)
                if len(batch) >= _BATCH:
                    stage.add(batch)
                    batch.clear()
        except DataError as error:
            damage = error
        stage.add(batch)
        for trace in stage.traces():
            yield from read(trace)
        if damage is not None:
            raise damage
