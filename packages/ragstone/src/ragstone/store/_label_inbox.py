"""`LabelInbox`: a file next to a store file, in which labels wait for the owner of the store."""

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
from typing import Final, NamedTuple

from ragstone._util.filelock import try_flock
from ragstone._util.limited_log import LimitedLog
from ragstone.errors import StoreError
from ragstone.store._types import DrawnRequest, StoredCase, StoredLabel, StoredTrial

InboxRow = StoredLabel | DrawnRequest | StoredCase | StoredTrial

_logger = logging.getLogger("ragstone")

_LOCK_S: Final = 10.0
"""Longest time to wait for the lock of an inbox, which is held for the time of one write."""


_KINDS: Final[dict[str, type[InboxRow]]] = {
    "label": StoredLabel, "drawn": DrawnRequest, "case": StoredCase, "trial": StoredTrial,
}  # fmt: skip
"""Types of the lines of an inbox."""


class WaitingLabels(NamedTuple):
    """The lines of an inbox."""

    rows: list[InboxRow]
    damaged: list[str]
    """Lines that differ from their checksum, or that were cut."""


class LabelInbox:
    """A file next to a store file, in which labels wait for the owner of the store.

    Only the owner writes to the store file (see `SqliteStore`). Any process may append to the inbox, one line for each
    label or request of the frame: the CRC-32 of the JSON that follows it. Readers read both, and the last line of a
    label counts. The owner takes the lines: storing them twice changes nothing, so a crash in between loses nothing.
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

    def add(self, rows: Sequence[InboxRow]) -> None:
        """Append rows, and wait until they are on the disk."""
        data = b"".join(map(_line, rows))
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
                f"labels: {len(waiting.damaged)} damaged lines of {str(self._path)!r} are not read. The next process "
                "that owns the store moves them to the table damaged_labels.",
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
            f"labels cannot be written to {str(self._path)!r}: {error.strerror}. None of them is stored. {way_out}, "
            "and save the labels again."
        )


def _line(row: InboxRow) -> bytes:
    text = json.dumps([next(name for name, kind in _KINDS.items() if kind is type(row)), *row]).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _parse(data: bytes) -> WaitingLabels:
    waiting = WaitingLabels([], [])
    for line in data.split(b"\n"):
        if not line:
            continue
        try:
            waiting.rows.append(_record(line))
        except (ValueError, TypeError, LookupError, RecursionError):
            waiting.damaged.append(line.decode("utf-8", "replace"))
    return waiting


def _record(line: bytes) -> InboxRow:
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        raise ValueError("the checksum differs")
    kind, *row = json.loads(text)
    return _KINDS[kind](*row)
