"""`PostgresStore`: a store in a PostgreSQL database, which workers on several hosts share."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, Self

from typing_extensions import override

from ragstone._util.clock import steady_time
from ragstone.errors import (
    ConfigurationError,
    StoreError,
    StoreNotReadyError,
)
from ragstone.schema import SCHEMA_VERSION, AlarmDelivery, Delivery, check_version
from ragstone.store._backfill import SqlBackfill
from ragstone.store._completion import read_plan
from ragstone.store._deliveries import SqlDeliveries
from ragstone.store._erase import SqlErase
from ragstone.store._export import SqlExport
from ragstone.store._labels import SqlLabels
from ragstone.store._outcomes import SqlOutcomes, write_plan
from ragstone.store._plans import SqlPlans
from ragstone.store._postgres_connection import SCHEMA, PostgresConnection, PostgresDatabase
from ragstone.store._records import PlannedMetric
from ragstone.store._retention import SqlRetention
from ragstone.store._spend import SqlSpend
from ragstone.store._sql import Sql
from ragstone.store._tables import APPLICATION_ID, create_statements
from ragstone.store._traces import SqlTraces
from ragstone.store._verify import SqlVerify
from ragstone.store._watch import SqlWatch

_SETUP: Final = 1
_PLANNING: Final = 2
_PLAN: Final = 3
_FOLDING: Final = 4
_ORDER: Final = 5
_FEEDBACK: Final = 6
"""Keys of advisory locks: creating tables, comparing or changing the plan, using the plan, changing streams,
inserting outcomes, storing feedback (requests share it)."""


class PostgresStore(
    SqlTraces,
    SqlOutcomes,
    SqlVerify,
    SqlDeliveries,
    SqlLabels,
    SqlWatch,
    SqlRetention,
    SqlErase,
    SqlBackfill,
    SqlExport,
    SqlSpend,
    SqlPlans,
):
    """A `Store` in the schema `ragstone` of a PostgreSQL database. `Store` describes the methods. Open it with `open`.

    Several workers, also on several hosts, share it. Each claims different traces, and only one of them delivers to a
    sink at a time (if it ends, another one takes over). All must have the same plan. All times are the server's,
    because the clocks of hosts differ. If the connection is lost, the current call fails and the next call connects
    again.

    Locks belong to connections: a pooler between worker and server must be in session mode.
    """

    _database: PostgresDatabase
    _lock_claimed = "FOR UPDATE OF t SKIP LOCKED"
    _lock_completed = "FOR UPDATE"
    # Sequences are not transactional: without it, an outcome may be committed after one with a larger `seq`.
    _order_outcomes = f"SELECT pg_advisory_xact_lock({APPLICATION_ID}, {_ORDER})"

    def __init__(
        self, url: str, *, mode: Literal["own", "read"], clock: Callable[[], float], max_attempts: int
    ) -> None:
        self._owning = mode == "own"
        self._plan: tuple[tuple[PlannedMetric, ...], frozenset[str]] | None = None
        """Plan of this worker, or None before `set_plan`."""
        self._displaced = ""
        self._delivering: set[str] = set()
        """Sinks that this worker delivers to, for the lifetime of this connection."""
        # A clock of a test is the same for all workers.
        self._own_clock = clock
        self._has_system_clock = clock in (time.time, steady_time)
        self._skew_s = 0.0
        """Seconds by which the clock of the server is ahead."""
        database = PostgresDatabase(url, writable=self._owning, on_connect=self._on_connect)
        super().__init__(database, clock=self._now, max_attempts=max_attempts)

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
            mode: "own" to write (creates missing tables), "read" to read.
            clock: Returns Unix seconds. Used by tests. The default means the server's clock.
            max_attempts: How often a trace may be claimed without being completed or released (at least 1).

        Raises:
            ConfigurationError: If `mode`, `max_attempts` or the URL is invalid.
            StoreVersionError: If another version of Ragstone wrote the tables.
            StoreNotReadyError: If `mode` is "read" and the tables do not exist yet.
            StoreUnavailableError: If the server cannot be reached.
            StoreError: If it refuses the connection, or this user lacks privileges.
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

    @override
    def set_plan(self, metrics: Sequence[PlannedMetric], sinks: Sequence[str]) -> None:
        """Set the plan as described in `Store.set_plan`.

        Raises:
            ConfigurationError: If a metric name occurs twice.
            StoreError: If other workers use another plan.
        """
        plan = tuple(metrics), frozenset(sinks)
        with self._database.write() as db:
            _lock(db, "pg_advisory_xact_lock", _PLANNING)
            if not _is_planned(db, plan) and not _lock(db, "pg_try_advisory_xact_lock", _PLAN):
                raise StoreError(self._other_plan())
            # Before rows are locked, as in the transactions that store outcomes: the ranges of sinks begin after all of those.
            db.execute(self._order_outcomes)
            write_plan(db, metrics, sinks, now=self._now())
            self._join(db)
        self._plan, self._displaced = plan, ""

    @override
    def due_deliveries(self, sink: str, *, limit: int, now: float | None = None) -> list[Delivery]:
        # Empty while another worker delivers to the sink.
        if self._owning and not self._delivers(sink):
            return []
        return super().due_deliveries(sink, limit=limit, now=now)

    @override
    def due_alarms(self, sink: str, *, limit: int, now: float | None = None) -> list[AlarmDelivery]:
        if self._owning and not self._delivers(sink):
            return []
        return super().due_alarms(sink, limit=limit, now=now)

    @override
    def stop_sink(self, sink: str, *, reason: str) -> None:
        # Another worker may deliver to the sink instead: its credentials may be valid.
        super().stop_sink(sink, reason=reason)
        if sink in self._delivering:
            with self._database.session() as db:
                _lock(db, "pg_advisory_unlock", _key(sink))
            self._delivering.discard(sink)

    @property
    @override
    def is_shared(self) -> bool:
        return True

    @override
    def check_not_replaced(self) -> None:
        # The plan or the store may have been replaced while the connection was lost.
        if self._displaced:
            raise StoreError(self._displaced)

    @override
    def checkpoint(self) -> bool:
        with self._database.session():
            return True  # the server syncs each commit to its disk

    @override
    def shrink(self) -> None:
        """Do nothing: the server's autovacuum frees the space."""

    @override
    def close(self) -> None:
        self._database.close()

    def _set_up(self) -> None:
        if not self._owning:
            with self._database.read() as db:
                _check(db, self._database.place)
            return
        with self._database.write() as db:
            _lock(db, "pg_advisory_xact_lock", _SETUP)
            _prepare(db, self._database.place)

    def _on_connect(self, db: PostgresConnection) -> None:
        """Read the server's time, and check and lock the plan again if the previous connection had locked it."""
        self._delivering.clear()
        if self._has_system_clock:
            before = self._own_clock()
            (there,) = db.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
            self._skew_s = there - (before + self._own_clock()) / 2
        if self._plan is not None:
            _lock(db, "pg_advisory_lock", _PLANNING)
            try:
                self._check_plan(db, self._plan)
                self._join(db)
            except StoreError as error:
                self._displaced = str(error)
                raise
            finally:
                _lock(db, "pg_advisory_unlock", _PLANNING)

    def _check_plan(self, db: Sql, plan: tuple[tuple[PlannedMetric, ...], frozenset[str]]) -> None:
        _check_version(db, self._database.place)
        if not _is_planned(db, plan):
            raise StoreError(self._other_plan())

    def _join(self, db: Sql) -> None:
        """Lock the plan, together with all workers that use it, until the connection ends."""
        _lock(db, "pg_advisory_lock_shared", _PLAN)

    def _other_plan(self) -> str:
        return (
            f"other workers use the store in {self._database.place} with another plan. Give all workers of a "
            "store the same metrics, judge, reader and sinks, or stop the others first."
        )

    def _delivers(self, sink: str) -> bool:
        """Return whether this worker delivers to a sink. It becomes responsible if no other worker is."""
        with self._database.session() as db:
            if sink not in self._delivering and _lock(db, "pg_try_advisory_lock", _key(sink)):
                self._database.end_when_idle()
                self._delivering.add(sink)
            return sink in self._delivering

    @override
    def _may_fold(self, db: Sql) -> bool:
        return _lock(db, "pg_try_advisory_xact_lock", _FOLDING)

    @override
    def _order_feedback(self, db: Sql, *, is_new: bool) -> None:
        _lock(db, f"pg_advisory_xact_lock{'' if is_new else '_shared'}", _FEEDBACK)

    def _now(self) -> float:
        return self._own_clock() + self._skew_s


def _is_planned(db: Sql, plan: tuple[tuple[PlannedMetric, ...], frozenset[str]]) -> bool:
    sinks = frozenset(name for (name,) in db.execute("SELECT name FROM sinks").fetchall())
    return (frozenset(read_plan(db)), sinks) == (frozenset(plan[0]), plan[1])


def _lock(db: Sql, function: str, key: int) -> bool:
    """Call a PostgreSQL function for advisory locks, and return False if it could not lock or unlock."""
    (result,) = db.execute(f"SELECT {function}(?, ?)", (APPLICATION_ID, key)).fetchone()
    return result is not False


def _key(sink: str) -> int:
    # Larger than the numbers above. Two sinks with the same number would only always have the same worker.
    return 16 + zlib.crc32(sink.encode("utf-8", "replace")) % 2**30


def _prepare(db: Sql, place: str) -> None:
    """Create the tables, or check that this version of Ragstone can use them. Only one worker may do this at a time."""
    # Checked first: a user without the right to create schemas can use an existing one.
    if not _exists(db, "pg_namespace WHERE nspname = ?", SCHEMA):
        db.execute(f"CREATE SCHEMA {SCHEMA}")
    if _has_tables(db):
        _check_privileges(db, place, ("SELECT", "INSERT", "UPDATE", "DELETE"))
        _check_version(db, place)
        return
    for statement in create_statements("postgres"):
        db.execute(statement)
    db.execute("INSERT INTO meta VALUES ('version', ?)", (str(SCHEMA_VERSION),))


def _check(db: Sql, place: str) -> None:
    """Check that the tables exist and that this version of Ragstone can read them."""
    if not _has_tables(db):
        raise StoreNotReadyError(
            f"the store in {place} does not exist yet. A worker creates it when it first opens it."
        )
    _check_privileges(db, place, ("SELECT",))
    _check_version(db, place)


def _check_privileges(db: Sql, place: str, needed: Sequence[str]) -> None:
    """Check what this user may do with the tables, because PostgreSQL hides a schema that a user may not use."""
    (user, may_use) = db.execute(
        "SELECT quote_ident(current_user), has_schema_privilege(?, 'USAGE')", (SCHEMA,)
    ).fetchone()
    lacks = " OR ".join(f"NOT has_table_privilege(c.oid, '{each}')" for each in needed)
    closed = (
        "pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        f"WHERE n.nspname = ? AND c.relkind = 'r' AND ({lacks})"
    )
    if may_use and not _exists(db, closed, SCHEMA):
        return
    raise StoreError(
        f"the user {user} lacks privileges for the store in {place}. An administrator or the owner of the schema grants them: "
        f"GRANT USAGE ON SCHEMA {SCHEMA} TO {user}; GRANT {', '.join(needed)} ON ALL TABLES IN SCHEMA {SCHEMA} TO {user};"
        + (f" GRANT USAGE ON ALL SEQUENCES IN SCHEMA {SCHEMA} TO {user};" if "INSERT" in needed else "")
    )


def _check_version(db: Sql, place: str) -> None:
    row = db.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
    version: Any = None if row is None else row[0]
    with suppress(TypeError, ValueError):
        version = int(version)
    check_version(f"the store in {place}", version)


def _has_tables(db: Sql) -> bool:
    return _exists(db, "pg_tables WHERE schemaname = ? AND tablename = 'meta'", SCHEMA)


def _exists(db: Sql, rows: str, value: str) -> bool:
    return db.execute(f"SELECT 1 FROM {rows}", (value,)).fetchone() is not None  # noqa: S608 - no user input
