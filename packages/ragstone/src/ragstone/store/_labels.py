"""The part `labels` of a store: labels of people, and the frame that labeled requests are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ragstone.store._checksums import check_row, checksum_of
from ragstone.store._database import Database, Part
from ragstone.store._label_inbox import InboxRow
from ragstone.store._sql import Sql
from ragstone.store._tables import CHECKED_COLUMNS
from ragstone.store._types import DrawnRequest, StoredCase, StoredLabel, StoredTrial

Row = TypeVar("Row", StoredLabel, DrawnRequest, StoredCase, StoredTrial)


class Labels(Part):
    """Labels of people, and the requests that could be drawn to be labeled.

    Only the owner of a file writes to it. Labels that others save wait in an inbox next to it.
    """

    def read(self) -> list[StoredLabel]:
        """Return the labels of people, oldest first. The value of each is a number."""
        # The inbox first: what its owner takes meanwhile is then read twice, and not missed.
        waiting = self._waiting(StoredLabel)
        found = {(each.trace_id, each.author): each for each in self._stored("labels", StoredLabel, "ORDER BY seq")}
        for each in waiting:
            found.pop((each.trace_id, each.author), None)
            if each.value is not None:
                found[each.trace_id, each.author] = each
        return list(found.values())

    def save(self, rows: Sequence[InboxRow]) -> None:
        """Insert or replace labels of a request by an author, requests that could be drawn, and results of trials.

        Also notes requests of a file of cases, in addition to those that it had. A reader of a file can do this, but not
        of a database.
        """
        if self._database.inbox is None:
            with self._database.write() as db:
                _write(db, rows)
        else:
            self._database.inbox.add(rows)
            take_labels(self._database)

    def drawn(self) -> list[DrawnRequest]:
        """Return the requests that could be drawn to be labeled: those that were, in their order, then the others."""
        waiting = self._waiting(DrawnRequest)
        found = {each.trace_id: each for each in [*self._stored("label_frame", DrawnRequest), *waiting]}
        return sorted(found.values(), key=lambda each: (each.position is None, each.position or 0))

    def cases(self) -> list[StoredCase]:
        """Return the requests of the files of cases that were written from this store."""
        waiting = self._waiting(StoredCase)
        with self._database.read() as db:
            stored = db.execute("SELECT path, trace_id FROM cases ORDER BY path, trace_id").fetchall()
        return list(dict.fromkeys([*(StoredCase(*row) for row in stored), *waiting]))

    def trials(self) -> list[StoredTrial]:
        """Return the results of trials of repairs."""
        waiting = self._waiting(StoredTrial)
        return list({each.trial_id: each for each in [*self._stored("trials", StoredTrial), *waiting]}.values())

    def _stored(self, table: str, kind: type[Row], order: str = "") -> list[Row]:
        """Return the rows of a table with checksums."""
        columns = ", ".join(CHECKED_COLUMNS[table])
        with self._database.read() as db:
            rows = db.execute(f"SELECT checksum, {columns} FROM {table} {order}").fetchall()  # noqa: S608 - names of the schema
            for checksum, *values in rows:
                check_row(table, checksum, values)
        return [kind(*values) for _, *values in rows]

    def _waiting(self, kind: type[Row]) -> list[Row]:
        """Return the rows of a kind that wait in the inbox of a file, in their order."""
        inbox = self._database.inbox
        return [] if inbox is None else [row for row in inbox.read().rows if isinstance(row, kind)]


def take_labels(database: Database) -> None:
    """Store the labels that wait in the inbox, if this process owns the store."""
    if database.inbox and database.writable:
        with database.inbox.taking() as waiting, database.write() as db:
            _write(db, waiting.rows)
            lines = [(database.now(), line) for line in waiting.damaged]
            db.executemany("INSERT INTO damaged_labels (found_at, line) VALUES (?, ?)", lines)


def _write(db: Sql, rows: Sequence[InboxRow]) -> None:
    """Insert or replace rows. The last row of a key counts. A label without a value removes the one of its author."""
    kinds = {"labels": (StoredLabel, 2), "label_frame": (DrawnRequest, 1), "trials": (StoredTrial, 1)}
    for table, (kind, n_keys) in kinds.items():
        last = {row[:n_keys]: at for at, row in enumerate(rows) if isinstance(row, kind)}
        newest = (rows[at] for at in sorted(last.values()))
        added = [(*row, checksum_of(row)) for row in newest if getattr(row, "value", 0.0) is not None]
        columns = CHECKED_COLUMNS[table]
        keys, places = " AND ".join(f"{name} = ?" for name in columns[:n_keys]), "?, " * len(columns)
        db.executemany(f"DELETE FROM {table} WHERE {keys}", list(last))  # noqa: S608 - names of the schema
        db.executemany(f"INSERT INTO {table} ({', '.join(columns)}, checksum) VALUES ({places}?)", added)  # noqa: S608
    cases = list(dict.fromkeys(row for row in rows if isinstance(row, StoredCase)))
    db.executemany("DELETE FROM cases WHERE path = ? AND trace_id = ?", cases)
    db.executemany("INSERT INTO cases (path, trace_id) VALUES (?, ?)", cases)
