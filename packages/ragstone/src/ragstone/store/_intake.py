"""What comes in: entries of spool segments, counted where they arrive."""

from __future__ import annotations

from collections.abc import Sequence

from ragstone.schema import Captured, Dropped, SampledOut
from ragstone.store._bodies import to_body
from ragstone.store._sql import Sql

__all__ = ["counter", "ingest", "segment_offsets"]


def ingest(
    db: Sql,
    segment: str,
    next_offset: int,
    entries: Sequence[Captured | SampledOut | Dropped],
    *,
    now: float,
) -> int:
    """Store `entries` and how far the segment has been read; a batch that was stored before changes nothing."""
    if next_offset <= segment_offsets(db).get(segment, -1):
        return 0
    new = duplicates = dropped = 0
    for entry in entries:
        if isinstance(entry, Dropped):
            dropped += entry.n
            db.execute(
                "INSERT INTO drops VALUES (?, ?) ON CONFLICT (reason) DO UPDATE SET n = drops.n + excluded.n",
                (entry.reason, entry.n),
            )
        elif _insert(db, entry, now=now):
            new += 1
        else:
            duplicates += 1
    _count(db, "captured", new + dropped)
    _count(db, "duplicates", duplicates)
    db.execute(
        "INSERT INTO segments VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET next_offset = excluded.next_offset",
        (segment, next_offset),
    )
    return new


def segment_offsets(db: Sql) -> dict[str, int]:
    """How far each segment has been read."""
    return dict(db.execute("SELECT name, next_offset FROM segments"))


def counter(db: Sql, name: str) -> int:
    """The value of a counter; 0 when it never moved."""
    row = db.execute("SELECT n FROM counters WHERE name = ?", (name,)).fetchone()
    return int(row[0]) if row else 0


def _insert(db: Sql, entry: Captured | SampledOut, *, now: float) -> bool:
    if isinstance(entry, SampledOut):
        cursor = db.execute(
            """
            INSERT INTO traces (trace_id, state, started_at, received_at, inclusion_probability)
            VALUES (?, 'sampled_out', ?, ?, ?) ON CONFLICT (trace_id) DO NOTHING
            """,
            (entry.trace_id, entry.started_at, now, entry.inclusion_probability),
        )
        return cursor.rowcount == 1
    trace = entry.trace
    cursor = db.execute(
        """
        INSERT INTO traces (trace_id, state, status, started_at, received_at, inclusion_probability, name, run_id,
                            otel_trace_id, otel_span_id, otel_sampled, session_id, user_id)
        VALUES (?, 'pending', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (trace_id) DO NOTHING
        """,
        (
            trace.trace_id,
            trace.status,
            trace.started_at,
            now,
            trace.inclusion_probability,
            trace.name,
            trace.run_id,
            trace.otel_trace_id,
            trace.otel_span_id,
            trace.otel_sampled,
            trace.session_id,
            trace.user_id,
        ),
    )
    if cursor.rowcount == 0:
        return False
    db.execute(
        "INSERT INTO trace_bodies (seq, body) SELECT seq, ? FROM traces WHERE trace_id = ?",
        (to_body(trace), trace.trace_id),
    )
    return True


def _count(db: Sql, name: str, n: int) -> None:
    db.execute(
        "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET n = counters.n + excluded.n", (name, n)
    )
