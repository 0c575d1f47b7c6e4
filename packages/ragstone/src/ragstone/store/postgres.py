"""`PostgresStore`: a store in a PostgreSQL database, which workers on several hosts share."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from typing import Final, Literal, Self

from ragstone.errors import ConfigurationError, StoreError
from ragstone.schema import Delivery, Failure, NotApplicable, Score, Trace
from ragstone.store import _leases, _outcomes, _plan
from ragstone.store._postgres_connection import LOCKS, PostgresConnection, PostgresDatabase
from ragstone.store._postgres_schema import check, prepare
from ragstone.store._records import PlannedMetric
from ragstone.store._sql import Sql
from ragstone.store._sql_store import SqlStore

__all__ = ["PostgresStore"]

_SETUP: Final = 1
_PLANNING: Final = 2
_PLAN: Final = 3
"""Advisory locks: the tables are made or changed, the plan is compared or changed, somebody works by the plan."""

_CLAIM: Final = f"{_leases.FREE} FOR UPDATE OF t SKIP LOCKED"

_FIND: Final = f"{_outcomes.FIND} FOR UPDATE"


class PostgresStore(SqlStore):
    """A `Store` in the schema `ragstone` of a PostgreSQL database. `Store` says what the methods promise.

    Several workers, also of several hosts, share it: each claims other traces, and a sink gets its deliveries from one of
    them at a time (when that one is gone, from another). They must have one plan. All times are the server's, because
    hosts' clocks differ. A lost connection is an error of the call under way; the next call connects again.

    Locks belong to connections: a pooler between worker and server must be in session mode.
    """

    def __init__(
        self, url: str, *, mode: Literal["own", "read"], clock: Callable[[], float], max_attempts: int
    ) -> None:
        self._owning = mode == "own"
        self._plan: tuple[tuple[PlannedMetric, ...], frozenset[str]] | None = None
        """What this worker goes by; None before it said so."""
        self._displaced = ""
        self._delivering: set[str] = set()
        """Sinks whose deliveries are ours, as long as this connection lives."""
        # A clock of a test is everybody's.
        self._skew_s: float | None = None if clock is time.time else 0.0
        self._own_clock = clock
        self._database = PostgresDatabase(url, writable=self._owning, on_connect=self._on_connect)
        super().__init__(self._database, clock=self._now, max_attempts=max_attempts)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        mode: Literal["own", "read"],
        clock: Callable[[], float] = time.time,
        max_attempts: int = 5,
    ) -> Self:
        """Open the store in the database at `url`.

        Args:
            url: `postgresql://user:password@host/database`, with the parameters of libpq.
            mode: "own" to write (makes the tables where there are none); "read" to look.
            clock: Unix seconds; for tests. The default stands for the server's clock.
            max_attempts: How often a trace may be claimed in vain before it is given up; at least 1.

        Raises:
            ConfigurationError: `mode`, `max_attempts` or the URL cannot be what they are.
            StoreVersionError: A newer Ragstone has written the tables.
            StoreNotReadyError: "read", and there are no tables yet.
            StoreError: The server cannot be reached, or refuses us.
        """
        if max_attempts < 1:
            raise ConfigurationError(f"max_attempts must be at least 1, got {max_attempts!r}.")
        if mode not in ("own", "read"):
            raise ConfigurationError(f"mode must be 'own' or 'read', got {mode!r}.")
        store = cls(url, mode=mode, clock=clock, max_attempts=max_attempts)
        try:
            store._set_up()
        except BaseException:
            store.close()
            raise
        return store

    def set_plan(self, metrics: Sequence[PlannedMetric], sinks: Sequence[str]) -> None:
        """Say which metrics every trace gets and which sinks every outcome goes to.

        Raises:
            ConfigurationError: A metric name occurs twice.
            StoreError: Other workers are at work by another plan.
        """
        plan = tuple(metrics), frozenset(sinks)
        with self._database.write() as db:
            _lock(db, "pg_advisory_xact_lock", _PLANNING)
            if not _is_planned(db, plan) and not _lock(db, "pg_try_advisory_xact_lock", _PLAN):
                raise StoreError(self._other_plan())
            _plan.set_plan(db, metrics, sinks)
            self._join(db)
        self._plan, self._displaced = plan, ""

    def claim(self, owner: str, limit: int, *, lease_s: float) -> list[Trace]:
        """Lease up to `limit` pending traces to `owner`, past those that another worker is looking at."""
        with self._database.write() as db:
            return _leases.claim(
                db, owner, limit, lease_s=lease_s, max_attempts=self._max_attempts, now=self._clock(), free=_CLAIM
            )

    def complete(
        self, trace_id: str, outcomes: Sequence[Score | NotApplicable | Failure], *, owner: str | None = None
    ) -> bool:
        """Store the outcomes of a trace; False when it was finished already."""
        with self._database.write() as db:
            # Two that finish one trace go one after the other, so that the second sees what the first has stored.
            return _outcomes.complete(db, trace_id, outcomes, owner=owner, now=self._clock(), find=_FIND)

    def outbox_due(self, sink: str, *, limit: int, now: float | None = None) -> list[Delivery]:
        """Deliveries to `sink` whose time has come; none while another worker delivers to it."""
        if self._owning and not self._delivers(sink):
            return []
        return super().outbox_due(sink, limit=limit, now=now)

    def stop_sink(self, sink: str, *, reason: str) -> None:
        """Note why nothing is sent to a sink any more, and leave it to another worker: its credentials may be better."""
        super().stop_sink(sink, reason=reason)
        if sink in self._delivering:
            with self._database.session() as db:
                _lock(db, "pg_advisory_unlock", _key(sink))
            self._delivering.discard(sink)

    @property
    def is_shared(self) -> bool:
        """True: as many workers as there are connections."""
        return True

    def check_place(self) -> None:
        """Stop working by a plan that others have replaced while the connection was lost."""
        if self._displaced:
            raise StoreError(self._displaced)

    def checkpoint(self) -> bool:
        """True: the server syncs each commit to its disk."""
        with self._database.session():
            return True

    def close(self) -> None:
        """Let go of the server."""
        self._database.close()

    def _set_up(self) -> None:
        if not self._owning:
            with self._database.read() as db:
                check(db, self._database.place)
            return
        with self._database.write() as db:
            _lock(db, "pg_advisory_xact_lock", _SETUP)
            prepare(db, self._database.place)

    def _on_connect(self, db: PostgresConnection) -> None:
        """What a new connection needs: the server's time, and the place among the workers that the old one had."""
        self._delivering.clear()
        if self._own_clock is time.time:
            before = time.time()
            (there,) = db.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
            self._skew_s = there - (before + time.time()) / 2
        if self._plan is not None:
            _lock(db, "pg_advisory_lock", _PLANNING)
            try:
                if not _is_planned(db, self._plan):
                    self._displaced = self._other_plan()
                    raise StoreError(self._displaced)
                self._join(db)
            finally:
                _lock(db, "pg_advisory_unlock", _PLANNING)

    def _join(self, db: Sql) -> None:
        """Be among those who work by the plan, until the connection ends."""
        _lock(db, "pg_advisory_lock_shared", _PLAN)

    def _other_plan(self) -> str:
        return (
            f"other workers are at work on the store in {self._database.place} by another plan. Give all workers of a "
            "store the same metrics, judge, reader and sinks, or stop the others first."
        )

    def _delivers(self, sink: str) -> bool:
        """Whether this worker is the one that delivers to a sink; it is when nobody else was."""
        with self._database.session() as db:
            if sink not in self._delivering and _lock(db, "pg_try_advisory_lock", _key(sink)):
                self._delivering.add(sink)
            return sink in self._delivering

    def _now(self) -> float:
        return self._own_clock() + (self._skew_s or 0.0)


def _is_planned(db: Sql, plan: tuple[tuple[PlannedMetric, ...], frozenset[str]]) -> bool:
    sinks = frozenset(name for (name,) in db.execute("SELECT name FROM sinks").fetchall())
    return (frozenset(_plan.planned_metrics(db)), sinks) == (frozenset(plan[0]), plan[1])


def _lock(db: Sql, function: str, key: int) -> bool:
    """Call one of PostgreSQL's functions for advisory locks; those that try, or unlock, say whether they could."""
    (result,) = db.execute(f"SELECT {function}(?, ?)", (LOCKS, key)).fetchone()
    return result is not False


def _key(sink: str) -> int:
    # Beyond the numbers above; two sinks that meet in one number would only keep to one worker.
    return 16 + zlib.crc32(sink.encode("utf-8", "replace")) % 2**30
