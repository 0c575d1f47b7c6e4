"""`SqliteStore`: a store in one SQLite file, with one owning process and any number of readers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from ragstone._util.filelock import FileLock
from ragstone.errors import ConfigurationError, StoreError, StoreOwnedError
from ragstone.schema import Captured, Dropped, Failure, Ledger, NotApplicable, SampledOut, Score, Trace
from ragstone.store import _explain, _intake, _leases, _ledger, _outbox, _outcomes, _plan, _reading
from ragstone.store._bodies import to_outcome, to_trace
from ragstone.store._database import Database
from ragstone.store._file import open_for_owner, open_for_reader
from ragstone.store._protocol import Store
from ragstone.store._records import (
    DeliveryState,
    OutboxItem,
    OutboxRow,
    PlannedMetric,
    ScoredTrace,
    TraceReport,
    TraceState,
)

__all__ = ["SqliteStore"]


class SqliteStore(Store):
    """A `Store` in one SQLite file in WAL mode. `Store` says what the methods promise; open it with `open`.

    One process owns the file and is the only one that writes; SQLite before 3.51.3 can, rarely, damage a WAL file that
    several processes write and checkpoint at once, and most Pythons in use have an older one. Readers come and go. What
    a method has returned from survives `kill -9`; see `checkpoint` for power cuts.

    Calls from several threads are safe and wait for each other. After a fork the child opens its own.
    """

    def __init__(
        self, path: Path, database: Database, *, lock: FileLock | None, clock: Callable[[], float], max_attempts: int
    ) -> None:
        self._path = path.absolute()
        self._inode = _inode(self._path)
        self._database = database
        self._lock = lock
        self._clock = clock
        self._max_attempts = max_attempts

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        mode: Literal["own", "read"],
        clock: Callable[[], float] = time.time,
        max_attempts: int = 5,
    ) -> Self:
        """Open the store at `path`.

        Args:
            path: The file. Beside it live `<path>.lock` and SQLite's `-wal` and `-shm`.
            mode: "own" to write (makes the file where there is none, with access for this user only); "read" to look,
                also while the owner is at work or after it was killed.
            clock: Unix seconds; for tests.
            max_attempts: How often a trace may be claimed in vain before it is given up; at least 1.

        Raises:
            ConfigurationError: `mode` or `max_attempts` has another value.
            StoreOwnedError: "own", and another living process owns the file.
            StoreVersionError: A newer Ragstone has written the file.
            StoreCorruptError: The file is not a Ragstone store, or it is damaged.
            StoreNotReadyError: "read", and the owner has made the file and not yet its tables.
            StoreError: The file cannot be made, or, to read, is not there or first needs its owner.
        """
        if max_attempts < 1:
            raise ConfigurationError(f"max_attempts must be at least 1, got {max_attempts!r}.")
        path = Path(path)
        if mode == "read":
            return cls(path, open_for_reader(path), lock=None, clock=clock, max_attempts=max_attempts)
        if mode != "own":
            raise ConfigurationError(f"mode must be 'own' or 'read', got {mode!r}.")
        lock = _take_lock(path)
        try:
            return cls(path, open_for_owner(path), lock=lock, clock=clock, max_attempts=max_attempts)
        except BaseException:
            lock.release()
            raise

    def set_plan(self, metrics: Sequence[PlannedMetric], sinks: Sequence[str]) -> None:
        """Say which metrics every trace gets and which sinks every outcome goes to."""
        with self._database.write() as db:
            _plan.set_plan(db, metrics, sinks)

    def segment_offsets(self) -> dict[str, int]:
        """How far each spool segment has been taken in."""
        with self._database.read() as db:
            return _intake.segment_offsets(db)

    def ingest(self, segment: str, next_offset: int, entries: Sequence[Captured | SampledOut | Dropped]) -> int:
        """Take in a batch of a segment's entries together with the offset it leads to."""
        with self._database.write() as db:
            return _intake.ingest(db, segment, next_offset, entries, now=self._clock())

    def forget_segment(self, name: str) -> None:
        """Drop the offset of a segment whose file is gone."""
        with self._database.write() as db:
            db.execute("DELETE FROM segments WHERE name = ?", (name,))

    def duplicates(self) -> int:
        """How many traces came in again and were ignored."""
        with self._database.read() as db:
            return _intake.counter(db, "duplicates")

    def claim(self, owner: str, limit: int, *, lease_s: float) -> list[Trace]:
        """Lease up to `limit` pending traces to `owner`."""
        with self._database.write() as db:
            return _leases.claim(db, owner, limit, lease_s=lease_s, max_attempts=self._max_attempts, now=self._clock())

    def renew(self, owner: str, trace_ids: Sequence[str], lease_s: float) -> int:
        """Let leases run for `lease_s` seconds from now."""
        with self._database.write() as db:
            return _leases.renew(db, owner, trace_ids, lease_s=lease_s, now=self._clock())

    def release(self, owner: str) -> int:
        """Hand back all traces leased to `owner`."""
        with self._database.write() as db:
            return _leases.release(db, owner)

    def release_all(self) -> int:
        """End all leases."""
        with self._database.write() as db:
            return _leases.release_all(db)

    def complete(
        self, trace_id: str, outcomes: Sequence[Score | NotApplicable | Failure], *, owner: str | None = None
    ) -> bool:
        """Store the outcomes of a trace; False when it was finished already."""
        with self._database.write() as db:
            return _outcomes.complete(db, trace_id, outcomes, owner=owner, now=self._clock())

    def ledger(self) -> Ledger:
        """The books of this moment."""
        with self._database.read() as db:
            return _ledger.ledger(db, now=self._clock())

    def explain(self, trace_id: str) -> TraceReport | None:
        """Everything known of one trace, and why it was or was not scored."""
        with self._database.read() as db:
            return _explain.explain(db, trace_id, max_attempts=self._max_attempts, now=self._clock())

    def trace(self, trace_id: str) -> Trace | None:
        """One trace."""
        with self._database.read() as db:
            body = _reading.trace_body(db, trace_id)
        return None if body is None else to_trace(body)

    def traces(self, *, state: TraceState | None = None, since: float | None = None) -> Iterator[Trace]:
        """Traces in the order they came in."""
        after = -1
        while True:
            with self._database.read() as db:
                page = _reading.trace_page(db, after=after, state=state, since=since)
            if not page:
                return
            for after, body in page:  # noqa: B007 - the next page goes on from there
                yield to_trace(body)

    def outcomes(
        self, *, metric: str | None = None, since: float | None = None, until: float | None = None
    ) -> Iterator[Score | NotApplicable | Failure]:
        """Outcomes in the order they were stored."""
        after = -1
        while True:
            with self._database.read() as db:
                page = _reading.outcome_page(db, after=after, metric=metric, since=since, until=until)
            if not page:
                return
            for after, body in page:  # noqa: B007 - the next page goes on from there
                yield to_outcome(body)

    def worst(self, metric: str, n: int, *, direction: Literal["higher", "lower"] = "higher") -> list[ScoredTrace]:
        """The `n` worst scores of a metric, worst first."""
        with self._database.read() as db:
            return _reading.worst(db, metric, n, direction=direction)

    def outbox_due(self, sink: str, *, limit: int, now: float | None = None) -> list[OutboxItem]:
        """Deliveries to `sink` whose time has come."""
        with self._database.read() as db:
            return _outbox.due(db, sink, limit=limit, now=self._clock() if now is None else now)

    def outbox_sent(self, sink: str, outcome_ids: Sequence[str]) -> None:
        """Note that these outcomes have arrived."""
        with self._database.write() as db:
            _outbox.mark_sent(db, sink, outcome_ids)

    def outbox_retry(self, sink: str, outcome_ids: Sequence[str], *, next_try: float, error: str) -> None:
        """Note that these outcomes come again at `next_try`."""
        with self._database.write() as db:
            _outbox.mark_retry(db, sink, outcome_ids, next_try=next_try, error=error)

    def outbox_skipped(self, sink: str, outcome_ids: Sequence[str], *, reason: str) -> None:
        """Note that these outcomes have no place at this sink."""
        with self._database.write() as db:
            _outbox.mark_skipped(db, sink, outcome_ids, reason=reason)

    def outbox_dead(self, sink: str, outcome_ids: Sequence[str], *, error: str) -> None:
        """Note that these outcomes do not arrive."""
        with self._database.write() as db:
            _outbox.mark_dead(db, sink, outcome_ids, error=error)

    def outbox_again(self, *, sink: str | None = None, state: DeliveryState = "dead") -> int:
        """Put deliveries of a state in line once more."""
        with self._database.write() as db:
            return _outbox.again(db, sink=sink, state=state, now=self._clock())

    def outbox_rows(
        self, *, sink: str | None = None, state: DeliveryState | None = None, limit: int = 100
    ) -> list[OutboxRow]:
        """The books of single deliveries, oldest first."""
        with self._database.read() as db:
            return _outbox.rows(db, sink=sink, state=state, limit=max(limit, 0))

    def stop_sink(self, sink: str, *, reason: str) -> None:
        """Note why nothing is sent to a sink any more."""
        with self._database.write() as db:
            _outbox.stop(db, sink, reason=reason)

    @property
    def is_shared(self) -> bool:
        """False: one process owns the file."""
        return False

    def check_place(self) -> None:
        """Stop writing into a file that is no longer the store: what goes there would be lost with the last handle."""
        if _inode(self._path) != self._inode:
            msg = (
                f"the store {str(self._path)!r} was removed or replaced while in use; what is no longer in the spool went "
                "with it, and captures wait there until a worker opens the path again"
            )
            raise StoreError(msg)

    def checkpoint(self) -> bool:
        """Make everything stored so far safe from a power cut."""
        return self._database.checkpoint()

    def close(self) -> None:
        """Let go of the file and of its lock."""
        if self._database.close() and self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _inode(path: Path) -> tuple[int, int] | None:
    """Which file a path names at present; None when it names none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _take_lock(path: Path) -> FileLock:
    lock = FileLock(path.with_name(f"{path.name}.lock"))
    try:
        if lock.acquire():
            return lock
    except OSError as exc:
        raise StoreError(
            f"the store {str(path)!r} cannot be locked: {exc.strerror} for {str(lock.path)!r}. Check that the directory "
            "exists and that this user may write to it."
        ) from exc
    pid = lock.owner()
    owner = "this process already" if pid == os.getpid() else "another process" if pid is None else f"process {pid}"
    raise StoreOwnedError(
        f"the store {str(path)!r} is owned by {owner}, and only one can write to it. Close it there, or use another "
        "path here, or only look at it: `ragstone status` and mode='read' need no ownership."
    )
