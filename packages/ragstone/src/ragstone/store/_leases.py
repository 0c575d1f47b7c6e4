"""Leases: who is scoring which trace, and until when the others keep their hands off."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ragstone.errors import ConfigurationError, StoreCorruptError
from ragstone.schema import Failure, Trace
from ragstone.store._bodies import to_trace
from ragstone.store._outcomes import complete
from ragstone.store._plan import planned_metrics
from ragstone.store._sql import Sql

__all__ = ["FREE", "claim", "release", "release_all", "renew"]

_logger = logging.getLogger("ragstone")

FREE: Final = """
    SELECT t.seq, t.trace_id, t.attempts, b.body FROM traces AS t LEFT JOIN trace_bodies AS b USING (seq)
    WHERE t.state = 'pending' AND t.seq > ? AND t.lease_until <= ? ORDER BY t.seq LIMIT ?
"""
"""Free traces after a place, at a time, so many of them."""


def claim(
    db: Sql, owner: str, limit: int, *, lease_s: float, max_attempts: int, now: float, free: str = FREE
) -> list[Trace]:
    """Lease up to `limit` free traces; those that were claimed too often end in failures instead.

    `free` is the query for free traces; where others may claim at the same time, one that locks what it finds.
    """
    _check_lease(lease_s)
    claimed: list[Trace] = []
    leases: list[tuple[str, float, int]] = []
    last_seq = -1
    # What is given up makes room for the next ones, so that a run of them does not look like an empty store.
    while len(claimed) < limit:
        rows = db.execute(free, (last_seq, now, limit - len(claimed))).fetchall()
        if not rows:
            break
        for last_seq, trace_id, attempts, body in rows:
            if attempts >= max_attempts:
                _give_up(db, trace_id, f"gave up after {attempts} attempts: each time the scorer stopped.", now=now)
                continue
            try:
                trace = to_trace(body or "")
            except StoreCorruptError as exc:
                _give_up(db, trace_id, str(exc), now=now)
                continue
            leases.append((owner, now + lease_s, last_seq))
            claimed.append(trace)
    db.executemany("UPDATE traces SET lease_owner = ?, lease_until = ?, attempts = attempts + 1 WHERE seq = ?", leases)
    return claimed


def renew(db: Sql, owner: str, trace_ids: Sequence[str], *, lease_s: float, now: float) -> int:
    """Extend leases that are still the owner's; how many were."""
    _check_lease(lease_s)
    if not trace_ids:
        return 0
    return db.executemany(
        "UPDATE traces SET lease_until = ? WHERE trace_id = ? AND state = 'pending' AND lease_owner = ?",
        [(now + lease_s, trace_id, owner) for trace_id in trace_ids],
    ).rowcount


def release(db: Sql, owner: str) -> int:
    """Hand back all leases of `owner`, with the attempts: who hands back has not crashed."""
    return db.execute(
        """
        UPDATE traces SET lease_owner = NULL, lease_until = 0, attempts = CASE WHEN attempts > 0 THEN attempts - 1 ELSE 0 END
        WHERE state = 'pending' AND lease_owner = ?
        """,
        (owner,),
    ).rowcount


def release_all(db: Sql) -> int:
    """End every lease. The attempts stay counted: their owners have died, perhaps of these traces."""
    return db.execute(
        "UPDATE traces SET lease_owner = NULL, lease_until = 0 WHERE state = 'pending' AND lease_owner IS NOT NULL"
    ).rowcount


def _give_up(db: Sql, trace_id: str, reason: str, *, now: float) -> None:
    _logger.warning("trace %s will not be scored: %s", trace_id, reason)
    failures = [
        Failure(
            sample_id=trace_id,
            metric=metric.name,
            metric_version=metric.version,
            judge_hash=metric.judge_hash,
            kind="bug",
            reason=reason,
            created_at=now,
        )
        for metric in planned_metrics(db)
    ]
    complete(db, trace_id, failures, owner=None, now=now)


def _check_lease(lease_s: float) -> None:
    if not lease_s > 0:
        raise ConfigurationError(f"lease_s must be positive, got {lease_s!r}: a lease that is over protects nothing.")
