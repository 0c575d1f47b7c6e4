"""The part `leases` of a store: which worker scores which pending traces, and until when."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ragstone.errors import ConfigurationError, DataError
from ragstone.schema import Failure
from ragstone.store._bodies import to_trace
from ragstone.store._checksums import DamagedRowError
from ragstone.store._database import Part
from ragstone.store._labels import take_labels
from ragstone.store._plan import plans_of_worker, read_plan
from ragstone.store._save_outcomes import PreparedCompletion, prepare, read_keys, store_completions
from ragstone.store._sql import Sql
from ragstone.store._types import Claims, Completion

_logger = logging.getLogger("ragstone")


class Leases(Part):
    """Leases pending traces to workers."""

    def claim(self, owner: str, limit: int, *, lease_s: float, plan: str | None = None, whole: bool = False) -> Claims:
        """Lease up to `limit` pending traces to a worker, in order of arrival.

        Expired leases become available again. A trace that was claimed `max_attempts` times without being completed,
        released or renewed with `waiting` gets `Failure(kind="bug")` for every planned metric, because it probably
        makes the workers crash. `plan` is the id of the worker's plan: only requests without a plan, of this plan, or
        of a plan that lacks only models are leased. None leases all. `whole` leases only requests without any outcome.
        Raise ConfigurationError if `lease_s` is not positive.
        """
        _check_lease(lease_s)
        if self._database.inbox:
            take_labels(self._database)
        claimed = Claims()
        partial: list[str] = []
        leases: list[tuple[str, float, int]] = []
        given_up: list[PreparedCompletion] = []
        last_seq = -1
        with self._database.read() as db:
            free = "SELECT 1 FROM traces WHERE state = 'pending' AND lease_until <= ? LIMIT 1"
            if db.execute(free, (self._database.now(),)).fetchone() is None:
                return claimed
        with self._database.write() as db:
            now = self._database.now()
            # A condition for each plan, so that requests of other plans are not read.
            plans: list[tuple[str, tuple[str, ...]]] = [("", ())]
            if plan is not None:
                plans = [("AND t.plan = ?", (each,)) for each in plans_of_worker(db, plan)]
                plans.append(("AND t.plan IS NULL", ()))
            # A trace that fails here does not count, so that many of them do not look like an empty store.
            while len(claimed) < limit:
                missing = limit - len(claimed)
                rows: list[Any] = []
                for condition, values in plans:
                    rows += db.execute(
                        f"""
                        SELECT t.seq, t.trace_id, t.attempts, t.partial, b.body
                        FROM traces AS t LEFT JOIN trace_bodies AS b USING (seq)
                        WHERE t.state = 'pending' AND t.seq > ? AND t.lease_until <= ?
                              {condition} {"AND t.partial = 0" if whole else ""}
                        ORDER BY t.seq LIMIT ? {self._database.lock_claimed}
                        """,  # noqa: S608 - constants
                        (last_seq, now, *values, missing),
                    ).fetchall()
                if not rows:
                    break
                for last_seq, trace_id, attempts, is_partial, body in sorted(rows)[:missing]:
                    if attempts >= self._database.max_attempts:
                        reason = f"gave up after {attempts} attempts: each time the worker stopped."
                        given_up.append(_give_up(db, trace_id, reason, now=now))
                        continue
                    try:
                        trace = to_trace(body, trace_id, keep=True)
                    except DamagedRowError as exc:
                        given_up.append(_give_up(db, trace_id, str(exc), now=now))
                        continue
                    leases.append((owner, now + lease_s, last_seq))
                    claimed.append(trace)
                    partial += [trace_id] if is_partial else []
            claimed.known = read_keys(db, partial)
            if given_up:
                store_completions(db, self._database, given_up)
            db.executemany(
                "UPDATE traces SET lease_owner = ?, lease_until = ?, attempts = attempts + 1 WHERE seq = ?", leases
            )
        return claimed

    def renew(self, owner: str, trace_ids: Sequence[str], lease_s: float, *, waiting: bool = False) -> int:
        """Extend leases to `lease_s` seconds from now, and return the number of leases that the owner still had.

        `waiting` says that an attempt to score the traces has ended, and the next one waits for a model. Then they do
        not make workers crash, and earlier claims do not count toward `max_attempts`. Raise ConfigurationError if
        `lease_s` is not positive.
        """
        _check_lease(lease_s)
        with self._database.write() as db:
            if not trace_ids:
                return 0
            until = self._database.now() + lease_s
            return db.executemany(
                """
                UPDATE traces SET lease_until = ?, attempts = attempts * ?
                WHERE trace_id = ? AND state = 'pending' AND lease_owner = ?
                """,
                [(until, 0 if waiting else 1, trace_id, owner) for trace_id in trace_ids],
            ).rowcount

    def release(self, owner: str) -> int:
        """End all leases of `owner` as if it had not claimed the traces, and return their number."""
        with self._database.write() as db:
            # Decrease the attempts: a worker that releases its traces has not crashed.
            return db.execute(
                """
                UPDATE traces SET lease_owner = NULL, lease_until = 0,
                                  attempts = CASE WHEN attempts > 0 THEN attempts - 1 ELSE 0 END
                WHERE state = 'pending' AND lease_owner = ?
                """,
                (owner,),
            ).rowcount

    def release_all(self) -> int:
        """End all leases, and return their number.

        Used by the new owner of a store that is not shared, because no other worker can be scoring then.
        """
        with self._database.write() as db:
            # Keep the attempts: these workers have crashed, perhaps because of these traces.
            return db.execute(
                """
                UPDATE traces SET lease_owner = NULL, lease_until = 0
                WHERE state = 'pending' AND lease_owner IS NOT NULL
                """
            ).rowcount

    def has_others(self, owner: str, *, received_by: float) -> bool:
        """Return whether pending traces are leased to others than `owner`, also to workers that were killed.

        They are neither available nor finished. Leases that have expired count until a worker claims the traces. Traces
        that the store received after `received_by` (Unix seconds) do not count, so that a caller who waits does not
        wait for all that other workers have yet to score.
        """
        with self._database.read() as db:
            row = db.execute(
                """
                SELECT 1 FROM traces
                WHERE state = 'pending' AND lease_owner IS NOT NULL AND lease_owner <> ? AND received_at <= ? LIMIT 1
                """,
                (owner, received_by),
            ).fetchone()
            return row is not None


def _give_up(db: Sql, trace_id: str, reason: str, *, now: float) -> PreparedCompletion:
    """Return a failure of every planned metric."""
    _logger.warning("trace %s will not be scored: %s", trace_id, reason, extra={"trace_id": trace_id})
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
        for metric in read_plan(db)
    ]
    prepared = prepare(Completion(trace_id=trace_id, outcomes=failures))
    if isinstance(prepared, DataError):
        raise prepared
    return prepared


def _check_lease(lease_s: float) -> None:
    if not lease_s > 0:
        raise ConfigurationError(f"lease_s must be positive, got {lease_s!r}.")
