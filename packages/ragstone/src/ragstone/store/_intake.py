"""What comes in: entries of spool segments, counted where they arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from ragstone.schema import Captured, Dropped, SampledOut
from ragstone.store._bodies import to_body
from ragstone.store._sql import Sql

__all__ = ["counter", "ingest", "segment_offsets"]


_ASKED_AT_ONCE: Final = 500
"""Parameters of one statement; SQLite once took 999 of them."""


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
    drops = Counter[str]()
    traces: dict[str, Captured | SampledOut] = {}
    came = 0
    for entry in entries:
        if isinstance(entry, Dropped):
            drops[entry.reason] += entry.n
        else:
            came += 1
            traces.setdefault(entry.trace.trace_id if isinstance(entry, Captured) else entry.trace_id, entry)
    for known in _known(db, list(traces)):
        traces.pop(known, None)
    new = _insert(db, list(traces.values()), now=now)
    db.executemany(
        "INSERT INTO drops VALUES (?, ?) ON CONFLICT (reason) DO UPDATE SET n = drops.n + excluded.n",
        list(drops.items()),
    )
    _count(db, "captured", new + drops.total())
    _count(db, "duplicates", came - new)
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


def _known(db: Sql, trace_ids: Sequence[str]) -> Iterator[str]:
    """Those of the ids that are here already."""
    for start in range(0, len(trace_ids), _ASKED_AT_ONCE):
        asked = trace_ids[start : start + _ASKED_AT_ONCE]
        marks = ", ".join("?" * len(asked))
        for (trace_id,) in db.execute(f"SELECT trace_id FROM traces WHERE trace_id IN ({marks})", asked):  # noqa: S608
            yield trace_id


def _insert(db: Sql, entries: Sequence[Captured | SampledOut], *, now: float) -> int:
    """Insert what is not here (another host may have brought it in a moment ago); how many."""
    if not entries:
        return 0
    new = db.executemany(
        """
        INSERT INTO traces (trace_id, state, status, started_at, received_at, inclusion_probability, name, run_id,
                            otel_trace_id, otel_span_id, otel_sampled, session_id, user_id)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (trace_id) DO NOTHING
        """,
        [_row(entry, now=now) for entry in entries],
    ).rowcount
    db.executemany(
        """
        INSERT INTO trace_bodies (seq, body) SELECT seq, ? FROM traces WHERE trace_id = ? AND state <> 'sampled_out'
        ON CONFLICT (seq) DO NOTHING
        """,
        [(to_body(e.trace), e.trace.trace_id) for e in entries if isinstance(e, Captured)],
    )
    return new


def _row(entry: Captured | SampledOut, *, now: float) -> tuple[object, ...]:
    if isinstance(entry, SampledOut):
        about = (entry.trace_id, "sampled_out", None, entry.started_at, now, entry.inclusion_probability)
        return (*about, None, None, None, None, None, None, None)
    trace = entry.trace
    return (
        trace.trace_id,
        "pending",
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
    )


def _count(db: Sql, name: str, n: int) -> None:
    db.execute(
        "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET n = counters.n + excluded.n", (name, n)
    )
