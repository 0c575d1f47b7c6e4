"""The database of a store: transactions, and what SQLite and PostgreSQL do differently."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ragstone.errors import RagstoneError, StoreError
from ragstone.store._checksums import UNREADABLE, DamagedRowError, damaged_store, last_key, unreadable
from ragstone.store._sql import PAGE, Sql

if TYPE_CHECKING:
    from ragstone.store._label_inbox import LabelInbox
    from ragstone.store._types import PlannedMetric

R = TypeVar("R")


class Lock(IntEnum):
    """What workers that share a database lock against each other."""

    SETUP = 1
    """Creating tables."""
    PLANNING = 2
    """Comparing or changing the plan."""
    PLAN = 3
    """Using the plan."""
    FOLDING = 4
    """Changing streams."""
    ORDER = 5
    """Inserting outcomes, so that they are committed in the order of `seq`, and a sink that has read one has not missed
    an earlier one."""
    FEEDBACK = 6
    """Storing feedback. Requests share it, so that feedback and its request see each other."""


class Database(ABC):
    """One connection to the database of a store. Every use is one transaction.

    Calls from several threads run one after another. A forked child must open its own connection. All methods raise
    `StoreError` if the database cannot be used. Then nothing is stored, and the next call may succeed.

    A database that several workers share overrides the locks. A file has one owner, which does not need them. `place`
    is the path of the store, or its URL without credentials.
    """

    is_shared: ClassVar[bool] = False
    lock_claimed: ClassVar[str] = ""
    """End of a query for free traces, which locks them and skips those that others have locked."""
    lock_completed: ClassVar[str] = ""
    """End of a query for rows that change, which locks them."""
    inbox: LabelInbox | None = None
    """Where labels wait for the owner."""
    max_attempts = 5
    """How often a trace may be claimed without being completed or released."""

    def __init__(self, *, name: str, place: str, writable: bool) -> None:
        self.name, self.place, self.writable = name, place, writable
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._closed = False

    @abstractmethod
    def now(self) -> float:
        """Return the time, in Unix seconds."""

    def write(self) -> AbstractContextManager[Sql]:
        """Run a block: all of it is stored, or, if anything raises, nothing."""
        self._check_writable()
        return self._transaction(writes=True)

    def read(self) -> AbstractContextManager[Sql]:
        """Run a block on one consistent snapshot."""
        return self._transaction(writes=False)

    def planning(
        self,
        metrics: Sequence[PlannedMetric],  # noqa: ARG002 - other workers may have another plan
        sinks: Sequence[str],  # noqa: ARG002
    ) -> AbstractContextManager[Sql]:
        """Run a block that sets the plan."""
        return self.write()

    def lock(self, db: Sql, lock: Lock, *, shared: bool = False, wait: bool = True) -> bool:  # noqa: ARG002
        """Lock something until the end of a transaction. Return False if another worker has it and `wait` is not set."""
        return True

    def delivers(self, sink: str) -> bool:  # noqa: ARG002 - another worker may deliver to it
        """Return whether this worker delivers to a sink. It becomes responsible if no other worker is."""
        return True

    @abstractmethod
    def stop_delivering(self, sink: str) -> None:
        """Let other workers deliver to a sink."""

    @abstractmethod
    def check_not_replaced(self) -> None:
        """See `Store.check_not_replaced`."""

    @abstractmethod
    def checkpoint(self) -> bool:
        """See `Store.checkpoint`."""

    @abstractmethod
    def shrink(self) -> None:
        """See `Upkeep.shrink`."""

    def file_problems(self) -> list[str]:
        """Return what the database itself finds wrong with its file."""
        return []

    def close(self) -> None:
        """Close the connection once. A forked child must not: its parent uses it."""
        if self._pid != os.getpid():
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self._disconnect()

    @abstractmethod
    def _disconnect(self) -> None: ...

    @abstractmethod
    def _begin(self, *, writes: bool) -> Sql:
        """Begin a transaction."""

    @abstractmethod
    def _roll_back(self) -> None:
        """End the transaction, and store nothing of it."""

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Sql]:
        with self._usable():
            db = self._begin(writes=writes)
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    @abstractmethod
    def _errors(self) -> AbstractContextManager[None]:
        """Convert errors of the database to errors of Ragstone."""

    def _check_writable(self) -> None:
        if not self.writable:
            raise StoreError(f"the store {self.name} is open for reading only. Open it with mode='own' to write to it.")

    @contextmanager
    def _usable(self) -> Iterator[None]:
        # Before the lock is taken: a thread of the parent may have held it during the fork.
        if self._pid != os.getpid():
            raise StoreError(
                f"the store {self.name} was opened by process {self._pid}, and this is its forked child {os.getpid()}. "
                "A connection cannot be used after a fork: open the store in the child."
            )
        with self._lock, row_errors(self.name, self.place), self._errors():
            if self._closed:
                raise StoreError(f"the store {self.name} is closed. Open it again to use it.")
            yield


class Part:
    """Methods of a store about one subject. Functions that take a `db` run within the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _read_pages(
        self,
        table: str,
        query: str,
        parameters: Sequence[object],
        read: Callable[[Sql, list[Any]], Iterable[R]],
        last: int = -1,
    ) -> Iterator[R]:
        """Yield what `read` returns from the rows of a long query, each page in a transaction of its own.

        The rows are in the order of their first column, and `query` has parameters `?1` and `?2` for the last key and
        the number of rows. `last` is the key before the first row. `table` is for errors.
        """
        while True:
            page: list[Any] = []  # frees what the page before has left
            found: list[R] = []
            with self._database.read() as db:
                page += db.execute(query, (last, PAGE, *parameters)).fetchall()
                last = last_key(table, page, last)
                found += read(db, page)
            if not page:
                return
            yield from found


@contextmanager
def row_errors(name: str, place: str) -> Iterator[None]:
    """Convert errors that damaged rows cause. The arguments are those of `Database`."""
    try:
        yield
    except DamagedRowError as error:
        raise damaged_store(name, place, error) from error
    except UNREADABLE as error:
        if isinstance(error, RagstoneError):
            raise
        raise damaged_store(name, place, unreadable(error)) from error
