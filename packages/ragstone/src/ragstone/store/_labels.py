"""The part `labels` of a store: labels of people, the frame that labeled requests are drawn from, and their inbox."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from ragstone._util.filelock import try_flock
from ragstone._util.limited_log import LimitedLog
from ragstone.errors import StoreError
from ragstone.store._checksums import check_row, checksum_of
from ragstone.store._database import Database, Part
from ragstone.store._sql import Sql
from ragstone.store._types import DrawnRequest, StoredLabel

_logger = logging.getLogger("ragstone")

_LOCK_S: Final = 10.0
"""Longest time to wait for the lock of an inbox, which is held for the time of one write."""


class Labels(Part):
    """Labels of people, and the requests that could be drawn to be labeled.

    Only the owner of a file writes to it. Labels that others save wait in an inbox next to it.
    """

    def read(self) -> list[StoredLabel]:
        """Return the labels of people, oldest first. The value of each is a number."""
        # The inbox first: what its owner takes meanwhile is then read twice, and not missed.
        inbox = self._database.inbox
        waiting = [] if inbox is None else inbox.read().labels
        with self._database.read() as db:
            rows = db.execute("SELECT checksum, trace_id, author, value, labeled_at FROM labels ORDER BY seq")
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
        inbox = self._database.inbox
        waiting = [] if inbox is None else inbox.read().drawn
        with self._database.read() as db:
            rows = db.execute("SELECT checksum, trace_id, probability, position FROM label_frame")
            stored = [DrawnRequest(*_checked("label_frame", row)) for row in rows]
        found = {each.trace_id: each for each in [*stored, *waiting]}
        return sorted(found.values(), key=lambda each: (each.position is None, each.position or 0))

    def save_draw(self, requests: Sequence[DrawnRequest]) -> None:
        """Insert or replace requests that could be drawn. Who may do this is described in `save`."""
        self._save("drawn", requests)

    def _save(self, kind: str, rows: Sequence[StoredLabel] | Sequence[DrawnRequest]) -> None:
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
            _write(db, waiting.labels)
            _write(db, waiting.drawn)
            lines = [(database.now(), line) for line in waiting.damaged]
            db.executemany("INSERT INTO damaged_labels (found_at, line) VALUES (?, ?)", lines)


def _write(db: Sql, rows: Sequence[StoredLabel] | Sequence[DrawnRequest]) -> None:
    """Insert or replace rows. The last row of a key counts. A label without a value removes the one of its author."""
    labels = {(row.trace_id, row.author): row for row in rows if isinstance(row, StoredLabel)}
    drawn = {row.trace_id: row for row in rows if isinstance(row, DrawnRequest)}
    db.executemany("DELETE FROM labels WHERE trace_id = ? AND author = ?", list(labels))
    db.executemany(
        "INSERT INTO labels (trace_id, author, value, labeled_at, checksum) VALUES (?, ?, ?, ?, ?)",
        [(*row, checksum_of(row)) for row in labels.values() if row.value is not None],
    )
    db.executemany("DELETE FROM label_frame WHERE trace_id = ?", [(trace_id,) for trace_id in drawn])
    db.executemany(
        "INSERT INTO label_frame (trace_id, probability, position, checksum) VALUES (?, ?, ?, ?)",
        [(*row, checksum_of(row)) for row in drawn.values()],
    )


def _checked(table: str, row: Sequence[Any]) -> Sequence[Any]:
    checksum, *columns = row
    check_row(table, checksum, columns)
    return columns


class WaitingLabels(NamedTuple):
    """The lines of an inbox."""

    labels: list[StoredLabel]
    drawn: list[DrawnRequest]
    damaged: list[str]
    """Lines that differ from their checksum, or that were cut."""


class LabelInbox:
    """A file next to a store file, in which labels wait for the owner of the store.

    Only the owner writes to the store file (see `SqliteStore`). Any process may append to the inbox, one line for each label
    or request of the frame: the CRC-32 of the JSON that follows it. Readers read both, and the last line of a label counts.
    The owner takes the lines: storing them twice changes nothing, so a crash in between loses nothing.

    Args:
        path: The inbox.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = LimitedLog(_logger)

    def __bool__(self) -> bool:
        """Return whether lines wait."""
        try:
            return self._path.stat().st_size > 0
        except OSError:
            return False

    def add(self, kind: str, rows: Sequence[Sequence[Any]]) -> None:
        """Append rows of a kind ("label" or "drawn"), and wait until they are on the disk."""
        data = b"".join(_line([kind, *row]) for row in rows)
        with self._locked() as file:
            start = os.lseek(file, 0, os.SEEK_END)
            if start and os.pread(file, 1, start - 1) != b"\n":
                # The end of a line that was cut must not damage the next one.
                data = b"\n" + data
            try:
                while data:
                    data = data[os.write(file, data) :]
                os.fsync(file)
            except OSError:
                os.ftruncate(file, start)
                raise

    def read(self) -> WaitingLabels:
        """Return the waiting lines."""
        waiting = _parse(self._path.read_bytes() if self else b"")
        if waiting.damaged:
            self._log.log(
                logging.WARNING,
                "damaged",
                f"labels: {len(waiting.damaged)} damaged lines of {str(self._path)!r} are not read. The next process that owns "
                "the store moves them to the table damaged_labels.",
            )
        return waiting

    @contextlib.contextmanager
    def taking(self) -> Iterator[WaitingLabels]:
        """Yield the lines, and remove them if the block succeeds."""
        with self._locked() as file:
            waiting = _parse(self._path.read_bytes())
            yield waiting
            os.ftruncate(file, 0)
        if waiting.damaged:
            _logger.warning(
                "labels: %d damaged lines of %r moved to the table damaged_labels. Save these labels again.",
                len(waiting.damaged),
                str(self._path),
            )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise self._refused(error) from error
        try:
            end = time.monotonic() + _LOCK_S
            while not try_flock(file):
                if time.monotonic() > end:
                    raise StoreError(f"{str(self._path)!r} has been locked by another process for {_LOCK_S:.0f} s.")
                time.sleep(0.01)
            yield file
        except OSError as error:
            raise self._refused(error) from error
        finally:
            os.close(file)

    def _refused(self, error: OSError) -> StoreError:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        way_out = (
            "Free space on this disk" if is_full else "Give this user write permission on the directory of the store"
        )
        return StoreError(
            f"labels cannot be written to {str(self._path)!r}: {error.strerror}. None of them is stored. {way_out}, and save "
            "the labels again."
        )


def _line(row: list[Any]) -> bytes:
    text = json.dumps(row).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _parse(data: bytes) -> WaitingLabels:
    waiting = WaitingLabels([], [], [])
    for line in data.split(b"\n"):
        if not line:
            continue
        try:
            record = _record(line)
        except (ValueError, TypeError, LookupError, RecursionError):
            waiting.damaged.append(line.decode("utf-8", "replace"))
        else:
            if isinstance(record, StoredLabel):
                waiting.labels.append(record)
            else:
                waiting.drawn.append(record)
    return waiting


def _record(line: bytes) -> StoredLabel | DrawnRequest:
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        raise ValueError("the checksum differs")
    kind, *row = json.loads(text)
    return StoredLabel(*row) if kind == "label" else {"drawn": DrawnRequest}[kind](*row)
