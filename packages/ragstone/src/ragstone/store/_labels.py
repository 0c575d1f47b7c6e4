"""The part `labels` of a store: labels of people, and the frame that labeled requests are drawn from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ragstone.store._checksums import check_row, checksum_of
from ragstone.store._database import Database, Part
from ragstone.store._sql import Sql
from ragstone.store._types import DrawnRequest, StoredCase, StoredLabel

_Rows = Sequence[StoredLabel | DrawnRequest | StoredCase]
Row = TypeVar("Row", StoredLabel, DrawnRequest, StoredCase)


class Labels(Part):
    """Labels of people, and the requests that could be drawn to be labeled.

    Only the owner of a file writes to it. Labels that others save wait in an inbox next to it.
    """

    def read(self) -> list[StoredLabel]:
        """Return the labels of people, oldest first. The value of each is a number."""
        # The inbox first: what its owner takes meanwhile is then read twice, and not missed.
        waiting = self._waiting(StoredLabel)
        with self._database.read() as db:
            rows = db.execute(
                "SELECT checksum, trace_id, author, value, labeled_at, correction, relevant FROM labels ORDER BY seq"
            )
            stored = [StoredLabel(*_checked("labels", row)) for row in rows]
        found = {(each.trace_id, each.author): each for each in stored}
        for each in waiting:
            found.pop((each.trace_id, each.author), None)
            if each.value is not None:
                found[each.trace_id, each.author] = each
        return list(found.values())

    def save(self, labels: Sequence[StoredLabel]) -> None:
        """Insert or replace the labels of a request by an author. A reader of a file can do this, but not of a database."""
        self._save("label", labels)

    def drawn(self) -> list[DrawnRequest]:
        """Return the requests that could be drawn to be labeled: those that were, in their order, then the others."""
        waiting = self._waiting(DrawnRequest)
        with self._database.read() as db:
            rows = db.execute("SELECT checksum, trace_id, probability, position FROM label_frame")
            stored = [DrawnRequest(*_checked("label_frame", row)) for row in rows]
        found = {each.trace_id: each for each in [*stored, *waiting]}
        return sorted(found.values(), key=lambda each: (each.position is None, each.position or 0))

    def save_draw(self, requests: Sequence[DrawnRequest]) -> None:
        """Insert or replace requests that could be drawn. Who may do this is described in `save`."""
        self._save("drawn", requests)

    def cases(self) -> list[StoredCase]:
        """Return the requests of the files of cases that were written from this store."""
        waiting = self._waiting(StoredCase)
        with self._database.read() as db:
            stored = [
                StoredCase(*row) for row in db.execute("SELECT path, trace_id FROM cases ORDER BY path, trace_id")
            ]
        return list(dict.fromkeys([*stored, *waiting]))

    def save_cases(self, cases: Sequence[StoredCase]) -> None:
        """Note the requests of a file of cases, in addition to those that it had. Who may do this is described in `save`."""
        self._save("case", cases)

    def _waiting(self, kind: type[Row]) -> list[Row]:
        """Return the rows of a kind that wait in the inbox of a file, in their order."""
        inbox = self._database.inbox
        return [] if inbox is None else [row for row in inbox.read().rows if isinstance(row, kind)]

    def _save(self, kind: str, rows: _Rows) -> None:
        if self._database.inbox is None:
            with self._database.write() as db:
                _write(db, rows)
        else:
            self._database.inbox.add(kind, rows)
            take_labels(self._database)


def take_labels(database: Database) -> None:
    """Store the labels that wait in the inbox, if this process owns the store."""
    if database.inbox and database.writable:
        with database.inbox.taking() as waiting, database.write() as db:
            _write(db, waiting.rows)
            lines = [(database.now(), line) for line in waiting.damaged]
            db.executemany("INSERT INTO damaged_labels (found_at, line) VALUES (?, ?)", lines)


def _write(db: Sql, rows: _Rows) -> None:
    """Insert or replace rows. The last row of a key counts. A label without a value removes the one of its author."""
    labels = {(row.trace_id, row.author): row for row in rows if isinstance(row, StoredLabel)}
    drawn = {row.trace_id: row for row in rows if isinstance(row, DrawnRequest)}
    db.executemany("DELETE FROM labels WHERE trace_id = ? AND author = ?", list(labels))
    db.executemany(
        "INSERT INTO labels (trace_id, author, value, labeled_at, correction, relevant, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(*row, checksum_of(row)) for row in labels.values() if row.value is not None],
    )
    db.executemany("DELETE FROM label_frame WHERE trace_id = ?", [(trace_id,) for trace_id in drawn])
    db.executemany(
        "INSERT INTO label_frame (trace_id, probability, position, checksum) VALUES (?, ?, ?, ?)",
        [(*row, checksum_of(row)) for row in drawn.values()],
    )
    cases = list(dict.fromkeys(row for row in rows if isinstance(row, StoredCase)))
    db.executemany("DELETE FROM cases WHERE path = ? AND trace_id = ?", cases)
    db.executemany("INSERT INTO cases (path, trace_id) VALUES (?, ?)", cases)


def _checked(table: str, row: Sequence[Any]) -> Sequence[Any]:
    checksum, *columns = row
    check_row(table, checksum, columns)
    return columns
