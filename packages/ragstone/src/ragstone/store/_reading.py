"""Reading back: pages of traces and outcomes, and the worst answers.

Long reads are made of pages, each a short transaction of its own: the writer goes on between them, and no snapshot
keeps the write-ahead log from shrinking while a report is drawn.
"""

from __future__ import annotations

from typing import Literal

from ragstone.schema import Score
from ragstone.store._bodies import to_outcome, to_trace
from ragstone.store._records import ScoredTrace, TraceState
from ragstone.store._sql import Sql

__all__ = ["inclusion", "outcome_page", "trace_body", "trace_page", "worst"]

_PAGE = 200


def trace_body(db: Sql, trace_id: str) -> str | None:
    """The text of one trace."""
    row = db.execute(
        "SELECT b.body FROM traces AS t JOIN trace_bodies AS b USING (seq) WHERE t.trace_id = ?", (trace_id,)
    ).fetchone()
    return row[0] if row else None


def trace_page(db: Sql, *, after: int, state: TraceState | None, since: float | None) -> list[tuple[int, str]]:
    """The next traces after the place `after`: `(place, body)` each; empty at the end."""
    return db.execute(
        """
        SELECT t.seq, b.body FROM traces AS t JOIN trace_bodies AS b USING (seq)
        WHERE t.seq > ?1 AND (t.state = ?2 OR ?2 IS NULL) AND (t.started_at >= ?3 OR ?3 IS NULL)
        ORDER BY t.seq LIMIT ?4
        """,
        (after, state, since, _PAGE),
    ).fetchall()


def outcome_page(
    db: Sql, *, after: int, metric: str | None, since: float | None, until: float | None
) -> list[tuple[int, str]]:
    """The next outcomes after the place `after`: `(place, body)` each; empty at the end."""
    return db.execute(
        """
        SELECT o.seq, b.body FROM outcomes AS o JOIN outcome_bodies AS b USING (seq)
        JOIN traces AS t ON t.trace_id = o.sample_id
        WHERE o.seq > ?1 AND (o.metric = ?2 OR ?2 IS NULL)
              AND (t.started_at >= ?3 OR ?3 IS NULL) AND (t.started_at < ?4 OR ?4 IS NULL)
        ORDER BY o.seq LIMIT ?5
        """,
        (after, metric, since, until, _PAGE),
    ).fetchall()


def inclusion(db: Sql, *, since: float | None, until: float | None) -> dict[str, float]:
    """With which probability a trace was kept, of those where that is below 1."""
    return dict(
        db.execute(
            """
            SELECT trace_id, inclusion_probability FROM traces
            WHERE inclusion_probability < 1 AND state <> 'sampled_out'
                  AND (started_at >= ?1 OR ?1 IS NULL) AND (started_at < ?2 OR ?2 IS NULL)
            """,
            (since, until),
        ).fetchall()
    )


def worst(db: Sql, metric: str, n: int, *, direction: Literal["higher", "lower"]) -> list[ScoredTrace]:
    """The `n` worst scores of the planned version of a metric (of all versions, when it is not planned)."""
    rows = db.execute(
        """
        SELECT tb.body, ob.body
        FROM outcomes AS o
        JOIN outcome_bodies AS ob ON ob.seq = o.seq
        JOIN traces AS t ON t.trace_id = o.sample_id
        JOIN trace_bodies AS tb ON tb.seq = t.seq
        WHERE o.metric = ?1 AND o.kind = 'score' AND (
            NOT EXISTS (SELECT 1 FROM plan WHERE name = ?1)
            OR (o.metric_version, o.judge_hash) = (SELECT version, judge_hash FROM plan WHERE name = ?1)
        )
        ORDER BY o.value * ?2, o.seq LIMIT ?3
        """,
        (metric, 1 if direction == "higher" else -1, max(n, 0)),
    )
    found = []
    for trace, outcome in rows:
        score = to_outcome(outcome)
        assert isinstance(score, Score)  # noqa: S101 - the table says so
        found.append(ScoredTrace(trace=to_trace(trace), score=score))
    return found
