"""The bodies of a store as text, counts that no method returns, and changes of them that another program with the same format could make."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from ragstone.store import Store
from ragstone.store._bodies import seal, text_of

__all__ = ["body_texts", "count_duplicates", "count_replies", "rewrite_bodies"]


def body_texts(db: sqlite3.Connection, table: str) -> list[str]:
    """The JSON of all bodies of a table, in the order of their rows."""
    rows = db.execute(f"SELECT body FROM {table} ORDER BY seq").fetchall()  # noqa: S608 - constant names
    return [text_of(body, table).decode() for (body,) in rows]


def rewrite_bodies(db: sqlite3.Connection, table: str, change: Callable[[str], str], *, seq: int = 1) -> None:
    """Change the JSON of a body, with a checksum that is right."""
    (body,) = db.execute(f"SELECT body FROM {table} WHERE seq = ?", (seq,)).fetchone()  # noqa: S608 - constant names
    changed = seal(change(text_of(body, table).decode()))
    db.execute(f"UPDATE {table} SET body = ? WHERE seq = ?", (changed, seq))  # noqa: S608 - constant names


def count_replies(folder: Path) -> int:
    """The number of replies in a cache."""
    with closing(sqlite3.connect(folder / "replies.sqlite")) as db:
        (n,) = db.execute("SELECT count(*) FROM reply").fetchone()
        return int(n)


def count_duplicates(store: Store) -> int:
    """The number of traces that arrived again and were ignored."""
    with store._database.read() as db:
        (n,) = db.execute("SELECT COALESCE(SUM(n), 0) FROM counters WHERE name = 'duplicates'").fetchone()
    return int(n)
