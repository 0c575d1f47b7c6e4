"""The base of every store over SQL: a connection and transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, ClassVar, Final, Protocol, Self

from ragstone.store._protocol import Store

PAGE: Final = 200
"""Maximum number of rows that a long read returns in one transaction.

Between its pages the writer can work, and no snapshot keeps the write-ahead log from shrinking during a long report.
"""

LAST_SEQ: Final = 2**62
"""Larger than every sequence number."""


class Rows(Protocol):
    """Result of a statement: tuples, and the number of changed rows."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Sql(Protocol):
    """A connection within a transaction: `sqlite3.Connection`, or `PostgresConnection`.

    Parameters are written `?`, or `?1`, `?2` if one is used twice. Statements use only what both databases understand:
    a parameter meets a column before it meets `IS NULL` (PostgreSQL takes its type from the first place), no
    `RETURNING` and no `lastrowid`, and truth is 0 or 1 in an integer column.
    """

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Rows: ...

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Rows: ...


class Transactions(Protocol):
    """A database whose every use is one transaction.

    Both methods raise `StoreError` if the database cannot be used. Then nothing is stored, and the next call may
    succeed.
    """

    def write(self) -> AbstractContextManager[Sql]:
        """Run a block: all of it is stored, or, if anything raises, nothing."""
        ...

    def read(self) -> AbstractContextManager[Sql]:
        """Run a block on one consistent snapshot."""
        ...


class SqlStore(Store):
    """Base of `SqlTraces`, `SqlOutcomes` and `SqlDeliveries`, whose methods contain the statements of a store.

    `Store` describes the methods. Functions of these modules that take a `db` run within the caller's transaction.

    Args:
        database: The database with the tables.
        clock: Unix seconds.
        max_attempts: How often a trace may be claimed without being completed or released.
    """

    _lock_claimed: ClassVar[str] = ""
    """End of the query for free traces. If several workers claim concurrently, it locks them."""
    _lock_completed: ClassVar[str] = ""
    """End of the query for the trace to complete. If several workers complete concurrently, it locks the trace."""
    _order_outcomes: ClassVar[str] = ""
    """Statement before outcomes are inserted. If several workers do so concurrently, it lets them be committed in the order
    of `seq`, so that a sink that has read one has not missed an earlier one."""

    def __init__(self, database: Transactions, *, clock: Callable[[], float], max_attempts: int) -> None:
        self._database = database
        self._clock = clock
        self._max_attempts = max_attempts

    def _order_feedback(self, db: Sql, *, is_new: bool) -> None:
        """Keep feedback and its request from being stored at the same time, each without seeing the other.

        A file has one writer, which needs no lock.

        Args:
            db: A transaction, before it stores requests or feedback.
            is_new: Whether it stores feedback.
        """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
