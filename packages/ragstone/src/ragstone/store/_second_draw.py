"""Sampling by feedback: a request gets a higher probability when feedback arrives, and is kept if its hash is below it.

The hash of a request is drawn once, and a request is kept if the hash is below its probability so far. So at any time the
probability of every request that is kept is known, and weights of 1 / probability leave means unbiased. This needs that the
probability of a request that was kept from the start changes as well.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from ragstone.errors import StoreCorruptError
from ragstone.schema import Captured, SampledOut, Trace
from ragstone.store._body import reseal_traces, to_body, to_trace
from ragstone.store._counts import state_counter
from ragstone.store._outcomes import evidence_counters
from ragstone.store._slices import slices_of
from ragstone.store._sql import Sql

_logger = logging.getLogger("ragstone")

LABEL_COLUMNS: Final = (
    "status",
    "name",
    "run_id",
    "otel_trace_id",
    "otel_span_id",
    "otel_sampled",
    "session_id",
    "user_id",
    "app",
    "release",
    "environment",
    "slices",
)
"""Columns of a request that are not known if only its id is stored."""

_NEGATIVE: Final = 0.5
"""Feedback below this value is negative."""


def label_values(trace: Trace) -> tuple[object, ...]:
    """Return the values of `LABEL_COLUMNS`."""
    slices = slices_of(trace)
    values = [getattr(trace, name) for name in LABEL_COLUMNS[:-1]]
    return (*values, json.dumps(slices, sort_keys=True) if slices else None)


def store_rates(db: Sql, entries: Iterable[Captured | SampledOut], *, now: float) -> None:
    """Store the probabilities that feedback may give to new requests, and the texts of those that were not kept.

    Args:
        db: The transaction that has stored the requests.
        entries: New requests. Of one that another process has stored, nothing changes.
        now: Unix seconds.
    """
    rows = []
    for entry in entries:
        if entry.after_feedback is None or entry.trace is None:
            continue
        rates = entry.after_feedback
        state, body = ("sampled_out", to_body(entry.trace)) if isinstance(entry, SampledOut) else ("pending", None)
        until = now + rates.wait_s
        rows.append((rates.negative, rates.positive, until, body, entry.trace.trace_id, state))
    db.executemany(
        """
        INSERT INTO feedback_rates (seq, negative, positive, until, body)
        SELECT seq, ?, ?, ?, ? FROM traces WHERE trace_id = ? AND state = ?
        ON CONFLICT (seq) DO NOTHING
        """,
        rows,
    )


def draw_again(db: Sql, feedback: Sequence[tuple[str, float]], *, now: float) -> Counter[str]:
    """Give requests the probability that follows from feedback, and keep those whose hash is below it.

    Streams of `ragstone.watch` continue with what the first decision selected, and its probability. Feedback arrives after
    a session was added to a stream, and users decide when to give it.

    Args:
        db: The transaction.
        feedback: Trace ids and values.
        now: Unix seconds.

    Returns:
        The counters that change.
    """
    changes = Counter[str]()
    # In the order in which workers lock traces.
    for trace_id, value in sorted(set(feedback)):
        row = db.execute(
            """
            SELECT t.seq, t.state, t.inclusion_probability, r.negative, r.positive, r.body, b.body
            FROM traces AS t JOIN feedback_rates AS r USING (seq) LEFT JOIN trace_bodies AS b USING (seq)
            WHERE t.trace_id = ? AND r.until >= ?
            """,
            (trace_id, now),
        ).fetchone()
        if row is None:
            continue
        seq, state, before, negative, positive, waiting, kept = row
        rate = negative if value < _NEGATIVE else positive
        if rate is None or rate <= before:
            continue
        is_new = state == "sampled_out"
        body = waiting if is_new else kept
        try:
            trace = (
                None if body is None else to_trace(body, trace_id).model_copy(update={"inclusion_probability": rate})
            )
        except StoreCorruptError as error:
            _logger.warning("trace %s: feedback cannot select it: %s", trace_id, error, extra={"trace_id": trace_id})
            continue
        first = 0.0 if is_new else before
        changed = db.execute(
            """
            UPDATE traces SET inclusion_probability = ?, stream_probability = COALESCE(stream_probability, ?)
            WHERE seq = ? AND inclusion_probability < ?
            """,
            (rate, first, seq, rate),
        ).rowcount
        if not changed:
            continue
        if trace is not None and is_new:
            columns = ", ".join(f"{name} = ?" for name in LABEL_COLUMNS)
            changed = db.execute(
                f"UPDATE traces SET state = 'pending', received_at = ?, {columns} WHERE seq = ? AND state = 'sampled_out'",  # noqa: S608
                (now, *label_values(trace), seq),
            ).rowcount
            changes.update({state_counter("sampled_out"): -changed, state_counter("pending"): changed})
            changes.update(evidence_counters(trace.evidence) if changed else ())
            db.execute("UPDATE feedback_rates SET body = NULL WHERE seq = ?", (seq,))
        if trace is not None:
            db.execute(
                "INSERT INTO trace_bodies (seq, body) VALUES (?, ?) ON CONFLICT (seq) DO UPDATE SET body = excluded.body",
                (seq, to_body(trace)),
            )
        reseal_traces(db, [seq])
    return changes


def forget_unselected(db: Sql, *, until: float, started_before: float | None, limit: int) -> int:
    """Remove the probabilities, and with them texts, of requests that feedback cannot select anymore.

    Args:
        db: The transaction.
        until: Requests that have waited until this time, Unix seconds,
        started_before: and those that started before this one, if it is given.
        limit: Maximum number of requests.

    Returns:
        How many were removed.
    """
    rows = db.execute(
        """
        SELECT r.seq FROM feedback_rates AS r JOIN traces AS t USING (seq)
        WHERE r.until < ? OR t.started_at < ? LIMIT ?
        """,
        (until, started_before, max(limit, 0)),
    ).fetchall()
    db.executemany("UPDATE traces SET otel_trace_id = NULL WHERE seq = ? AND state = 'sampled_out'", rows)
    reseal_traces(db, [seq for (seq,) in rows])
    db.executemany("DELETE FROM feedback_rates WHERE seq = ?", rows)
    return len(rows)
