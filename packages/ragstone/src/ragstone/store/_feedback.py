"""Feedback of users: stored when it arrives, and matched to its request, which may arrive later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ragstone.schema import Captured, Feedback, FeedbackCounts, SampledOut
from ragstone.store._checksums import check_row, checksum_of
from ragstone.store._counters import add_to_counters
from ragstone.store._open_sessions import queue_outcomes
from ragstone.store._sql import Sql, marks, pages
from ragstone.store._types import StoredFeedback
from ragstone.store._watch_types import FEEDBACK_STREAM

_WAITS_S: Final = 86_400.0
"""Feedback without a request after this time counts as feedback to an unknown request."""
_FORGOTTEN_S: Final = 7 * 86_400.0
"""Feedback to an unknown request is removed after this time, so that wrong ids do not fill the disk."""
_UNKNOWN: Final = "feedback:unknown"
"""Counter of removed feedback."""


def add_feedback(db: Sql, entries: Sequence[Feedback], *, now: float) -> None:
    """Insert feedback, not matched so far."""
    db.executemany(
        "INSERT INTO feedback (request_id, value, comment, given_at, checksum, received_at) VALUES (?, ?, ?, ?, ?, ?)",
        [(*row, checksum_of(row), now) for row in ((e.request_id, e.value, e.comment, e.given_at) for e in entries)],
    )
    add_to_counters(db, {"feedback": len(entries)})


def match_feedback(db: Sql, arrived: Iterable[Captured | SampledOut], feedback: Sequence[Feedback]) -> None:
    """Match feedback to requests: new requests with all feedback that waits, and new feedback with all requests."""
    if db.execute("SELECT 1 FROM feedback WHERE trace_id IS NULL LIMIT 1").fetchone() is None:
        return
    ids = sorted({id_ for entry in arrived for id_ in _ids(entry)} | {entry.request_id for entry in feedback})
    waiting: list[tuple[int, str, str, float]] = []
    for page in pages(ids):
        for request_id, trace_id, state in _requests_with_feedback(db, page):
            rows = db.execute(
                "SELECT seq, value FROM feedback WHERE trace_id IS NULL AND request_id = ?", (request_id,)
            ).fetchall()
            waiting += [(seq, trace_id, state, value) for seq, value in rows]
    for seq, trace_id, state, value in sorted(waiting):
        is_first = db.execute("SELECT 1 FROM feedback WHERE trace_id = ? LIMIT 1", (trace_id,)).fetchone() is None
        db.execute("UPDATE feedback SET trace_id = ? WHERE seq = ?", (trace_id, seq))
        # What is known of a request that was sampled out is not enough for a stream. The others have weights.
        if is_first and state != "sampled_out":
            queue_outcomes(db, [(trace_id, *FEEDBACK_STREAM, value)])


def _requests_with_feedback(db: Sql, ids: Sequence[str]) -> list[tuple[str, str, str]]:
    """Return those of the ids that have a request and feedback that waits, with the trace id and state of the request.

    The statements read one row of feedback for each id, so a wrong id that an application sends a million times costs nothing.
    """
    found: dict[str, tuple[str, str]] = {}
    # Last the id of a request, which wins over that of OpenTelemetry. Of several requests in one trace, the first counts.
    for column, order in (("otel_trace_id", "t.started_at DESC, t.seq DESC"), ("trace_id", "t.seq")):
        rows = db.execute(
            f"""
            SELECT t.{column}, t.trace_id, t.state FROM traces AS t
            WHERE t.{column} IN ({marks(ids)})
                  AND EXISTS (SELECT 1 FROM feedback AS f WHERE f.request_id = t.{column} AND f.trace_id IS NULL)
            ORDER BY {order}
            """,  # noqa: S608 - constant columns and placeholders
            ids,
        )
        found |= {request_id: (trace_id, state) for request_id, trace_id, state in rows}
    return [(request_id, *request) for request_id, request in found.items()]


def _ids(entry: Captured | SampledOut) -> list[str]:
    if isinstance(entry, SampledOut):
        return [entry.trace_id]
    return [id_ for id_ in (entry.trace.trace_id, entry.trace.otel_trace_id) if id_]


def forget_feedback(db: Sql, *, now: float, limit: int) -> int:
    """Remove and count feedback whose request did not arrive for seven days, at most `limit` of it. Returns its number."""
    rows = db.execute(
        "SELECT seq FROM feedback WHERE trace_id IS NULL AND received_at < ? LIMIT ?",
        (now - _FORGOTTEN_S, max(limit, 0)),
    ).fetchall()
    n = sum(db.execute("DELETE FROM feedback WHERE seq = ? AND trace_id IS NULL", row).rowcount for row in rows)
    add_to_counters(db, {_UNKNOWN: n})
    return n


def feedback_of(db: Sql, trace_id: str) -> list[StoredFeedback]:
    """Return the feedback about one request, oldest first."""
    rows = db.execute(
        """
        SELECT f.checksum, f.request_id, f.value, f.comment, f.given_at FROM feedback AS f
        JOIN traces AS t ON t.trace_id = f.trace_id AND f.request_id IN (t.trace_id, t.otel_trace_id)
        WHERE f.trace_id = ? ORDER BY f.seq
        """,
        (trace_id,),
    )
    found = []
    for checksum, *columns in rows:
        check_row("feedback", checksum, columns)
        found.append(StoredFeedback(*columns[1:]))
    return found


def remove_comments(db: Sql, condition: str, parameters: Sequence[object]) -> None:
    """Remove the comments of the feedback that meets a condition."""
    rows = db.execute(
        f"SELECT seq, request_id, value, given_at FROM feedback WHERE comment IS NOT NULL AND {condition}",  # noqa: S608 - constant conditions
        parameters,
    ).fetchall()
    db.executemany(
        "UPDATE feedback SET comment = NULL, checksum = ? WHERE seq = ?",
        [(checksum_of((request_id, value, None, given_at)), seq) for seq, request_id, value, given_at in rows],
    )


def count_feedback(db: Sql, *, now: float) -> FeedbackCounts:
    """Count feedback, and feedback without a request. Reads only the latter."""
    counters: dict[str, int] = dict(
        db.execute("SELECT name, n FROM counters WHERE name IN ('feedback', ?)", (_UNKNOWN,)).fetchall()
    )
    waiting, unknown = db.execute(
        """
        SELECT COALESCE(SUM(CASE WHEN received_at >= ?1 THEN 1 ELSE 0 END), 0),
               COALESCE(SUM(CASE WHEN received_at < ?1 THEN 1 ELSE 0 END), 0)
        FROM feedback WHERE trace_id IS NULL
        """,
        (now - _WAITS_S,),
    ).fetchone()
    return FeedbackCounts(
        received=int(counters.get("feedback", 0)),
        waiting=int(waiting),
        unknown=int(unknown) + int(counters.get(_UNKNOWN, 0)),
    )
