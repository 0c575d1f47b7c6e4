"""What the statements of a store use: a connection within a transaction, and lists of parameters."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

PAGE: Final = 200
"""Maximum number of rows that a long read returns in one transaction.

Between its pages the writer can work, and no snapshot keeps the write-ahead log from shrinking during a long report.
"""

LAST_SEQ: Final = 2**62
"""Larger than every sequence number."""

IDS_PER_QUERY: Final = 500
"""Maximum number of parameters of one statement. SQLite before 3.32 accepts at most 999."""


class Rows(Protocol):
    """Result of a statement: tuples, and the number of changed rows."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Sql(Protocol):
    """A connection within a transaction: `sqlite3.Connection`, or `PostgresConnection`.

    `PostgresConnection` translates `?` to `%s`. Parameters are written `?`, or `?1`, `?2` if one is used twice.
    Statements use only what both databases understand: a parameter meets a column before it meets `IS NULL` (PostgreSQL
    takes its type from the first place), no `RETURNING` and no `lastrowid`, and truth is 0 or 1 in an integer column.
    """

    def execute(self, sql: str, parameters: Sequence[Any] = ..., /) -> Rows: ...

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]], /) -> Rows: ...


def marks(ids: Sequence[str]) -> str:
    """Return the placeholders of a list of parameters."""
    return ", ".join("?" * len(ids))


def pages(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield parts of a list that are short enough for the parameters of one statement."""
    for start in range(0, len(ids), IDS_PER_QUERY):
        yield ids[start : start + IDS_PER_QUERY]


def save_meta(db: Sql, key: str, value: str) -> None:
    """Insert or replace a text in the table `meta`."""
    db.execute("INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value))


def read_meta(db: Sql, key: str) -> str | None:
    """Return a text of the table `meta`, or None if it is not found."""
    row = db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def read_record(db: Sql, key: str) -> dict[str, Any] | None:
    """Return a JSON object of the table `meta`, or None if it is not found."""
    text = read_meta(db, key)
    return None if text is None else dict(json.loads(text))


def read_all_meta(db: Sql, prefix: str) -> dict[str, str]:
    """Return the texts of the table `meta` whose keys begin with a prefix, by key."""
    return dict(db.execute("SELECT key, value FROM meta WHERE key >= ? AND key < ?", starting_with(prefix)).fetchall())


def starting_with(prefix: str) -> tuple[str, str]:
    """Return the parameters of `key >= ? AND key < ?` for keys that begin with a prefix, which ends with a colon.

    Not LIKE, whose case rules differ between the databases.
    """
    return prefix, f"{prefix[:-1]};"
