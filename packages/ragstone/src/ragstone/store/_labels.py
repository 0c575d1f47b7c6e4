"""Labels of people, and the frame that labeled requests are drawn from."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from ragstone._util.filelock import try_flock
from ragstone.errors import StoreError
from ragstone.store._body import check_row, checksum_of
from ragstone.store._records import DrawnRequest, StoredLabel
from ragstone.store._sql import Sql, SqlStore

__all__ = ["LabelInbox", "SqlLabels", "read_drawn", "read_labels", "write_drawn", "write_labels"]

_LOCK_S: Final = 10.0
"""Longest time to wait for the lock of an inbox, which is held for the time of one write."""


class SqlLabels(SqlStore):
    """The methods of a store about labels."""

    @override
    def labels(self) -> list[StoredLabel]:
        with self._database.read() as db:
            return read_labels(db)

    @override
    def save_labels(self, labels: Sequence[StoredLabel]) -> None:
        with self._database.write() as db:
            write_labels(db, labels)

    @override
    def drawn_requests(self) -> list[DrawnRequest]:
        with self._database.read() as db:
            return read_drawn(db)

    @override
    def save_draw(self, requests: Sequence[DrawnRequest]) -> None:
        with self._database.write() as db:
            write_drawn(db, requests)


def read_labels(db: Sql) -> list[StoredLabel]:
    """Return all labels, oldest first."""
    rows = db.execute("SELECT checksum, trace_id, author, value, labeled_at FROM labels ORDER BY seq")
    return [StoredLabel(*_checked("labels", row)) for row in rows]


def write_labels(db: Sql, labels: Sequence[StoredLabel]) -> None:
    """Insert or replace labels. A label without a value removes the one of its author."""
    db.executemany(
        "DELETE FROM labels WHERE trace_id = ? AND author = ?", [(each.trace_id, each.author) for each in labels]
    )
    latest = {(each.trace_id, each.author): each for each in labels}
    db.executemany(
        "INSERT INTO labels (trace_id, author, value, labeled_at, checksum) VALUES (?, ?, ?, ?, ?)",
        [(*each, checksum_of(each)) for each in latest.values() if each.value is not None],
    )


def read_drawn(db: Sql) -> list[DrawnRequest]:
    """Return the frame: the drawn requests in their order, then the others."""
    rows = db.execute(
        "SELECT checksum, trace_id, probability, position FROM label_frame ORDER BY position IS NULL, position"
    )
    return [DrawnRequest(*_checked("label_frame", row)) for row in rows]


def write_drawn(db: Sql, requests: Sequence[DrawnRequest]) -> None:
    """Insert or replace requests of the frame."""
    db.executemany("DELETE FROM label_frame WHERE trace_id = ?", [(each.trace_id,) for each in requests])
    db.executemany(
        "INSERT INTO label_frame (trace_id, probability, position, checksum) VALUES (?, ?, ?, ?)",
        [(*each, checksum_of(each)) for each in requests],
    )


def _checked(table: str, row: Sequence[Any]) -> Sequence[Any]:
    checksum, *columns = row
    check_row(table, checksum, columns)
    return columns


class LabelInbox:
    """A file next to a store file, in which labels wait for the owner of the store.

    Only the owner writes to the store file (see `SqliteStore`). Any process may append to the inbox, one line for each label
    or request of the frame. Readers read both, and the last line of a label counts. The owner takes the lines: storing
    them twice changes nothing, so a crash in between loses nothing.

    Args:
        path: The inbox.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __bool__(self) -> bool:
        """Return whether lines wait."""
        try:
            return self._path.stat().st_size > 0
        except OSError:
            return False

    def add(self, kind: str, rows: Sequence[Sequence[Any]]) -> None:
        """Append rows of a kind, and wait until they are on the disk."""
        text = "".join(json.dumps([kind, *row]) + "\n" for row in rows)
        with self._locked() as file:
            start = os.lseek(file, 0, os.SEEK_END)
            data = text.encode()
            try:
                while data:
                    data = data[os.write(file, data) :]
                os.fsync(file)
            except OSError:
                os.ftruncate(file, start)
                raise

    def read(self, kind: str) -> list[list[Any]]:
        """Return the waiting rows of a kind."""
        return _rows(self._path.read_bytes(), kind) if self else []

    @contextlib.contextmanager
    def taking(self) -> Iterator[dict[str, list[list[Any]]]]:
        """Yield the rows by kind, and remove them if the block succeeds."""
        with self._locked() as file:
            data = self._path.read_bytes()
            yield {kind: _rows(data, kind) for kind in ("label", "drawn")}
            os.ftruncate(file, 0)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise StoreError(
                f"labels cannot be written to {str(self._path)!r}: {error.strerror}. Give this user write permission on the "
                "directory of the store."
            ) from error
        try:
            end = time.monotonic() + _LOCK_S
            while not try_flock(file):
                if time.monotonic() > end:
                    raise StoreError(f"{str(self._path)!r} has been locked by another process for {_LOCK_S:.0f} s.")
                time.sleep(0.01)
            yield file
        except OSError as error:
            raise StoreError(f"labels cannot be written to {str(self._path)!r}: {error.strerror}.") from error
        finally:
            os.close(file)


def _rows(data: bytes, kind: str) -> list[list[Any]]:
    """Parse lines. A last line that was cut (a full disk, a lost power supply) is left out."""
    rows = []
    for line in data.splitlines():
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, list) and found and found[0] == kind:
                rows.append(found[1:])
    return rows
