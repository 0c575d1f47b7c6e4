"""What our SQL needs of a connection; `sqlite3.Connection` has it, and so has `PostgresConnection`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

__all__ = ["Rows", "Sql"]


class Rows(Protocol):
    """What a statement gives back: tuples, and how many rows it has touched."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Sql(Protocol):
    """A connection within a transaction. Parameters are written `?`, or `?1`, `?2` where one is used twice.

    What both databases understand alike: a parameter meets a column before it meets `IS NULL` (PostgreSQL takes its type
    from the first place), no `RETURNING` and no `lastrowid`, and truth is 0 or 1 in an integer column.
    """

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Rows: ...

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Rows: ...
