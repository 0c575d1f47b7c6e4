"""Outcomes as JSON lines in a local file, appended durably."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ragstone._util.files import sync_data, sync_directory, write_all
from ragstone.errors import ConfigurationError, SinkUnavailableError
from ragstone.schema import Delivery, other_version
from ragstone.sinks._row import outcome_row, remember

# Part of the file that is searched for repeated deliveries. Only the last batch that was not acknowledged can repeat,
# so the tail of the file is sufficient. 4 MiB hold a batch of 500 lines of 8 KiB each.
_TAIL_MAX_BYTES: Final = 4 * 1024 * 1024
_SEEN_MAX_IDS: Final = 10_000
_LOCK_S: Final = 5.0
_START: Final = b'{"schema_version": '
"""How a line begins: the first key of `outcome_row`."""


class JsonlSink:
    """Appends one JSON object per outcome to a local file.

    Every line has the same keys. Missing values are null. A batch is one append and one `fdatasync`, so an acknowledged
    batch survives a power failure. The sink opens the file for each batch and closes it afterwards: log rotation by
    renaming works, and a forked process does not inherit a handle. A new file is readable by its owner only.

    A repeated delivery is not written twice if batches have at most 500 rows and its line is in the last 4 MiB of the
    file. A batch that cannot be written as a whole is removed from the file again. After a crash, the next batch
    replaces an incomplete last line of this sink.

    Args:
        path: The file. It is created if missing. Its directory must exist.
        include_text: Also write explanations, details and the judge's raw replies, which may contain captured text.

    Raises:
        ConfigurationError: If the directory does not exist, or `path` is a directory, a device, a pipe, or a file that
            does not begin with an outcome, such as the dataset that is evaluated.
    """

    def __init__(self, path: str | os.PathLike[str], *, include_text: bool = True) -> None:
        # Absolute, so that neither the name nor the destination follows a later chdir.
        self._path = Path(path).absolute()
        if not self._path.parent.is_dir():
            raise ConfigurationError(
                f"cannot write {os.fspath(path)!r}: the directory {str(self._path.parent)!r} does not exist. Create it."
            )
        if self._path.is_dir():
            raise ConfigurationError(
                f"cannot write {os.fspath(path)!r}: it is a directory. Give the path of a file in it."
            )
        if self._path.exists() and not self._path.is_file():
            # Its end is read, so that a repeated delivery is not written twice. A device may not have one.
            raise ConfigurationError(
                f"cannot write {os.fspath(path)!r}: it is a device or a pipe, whose lines cannot be read again. Give "
                "the path of a file."
            )
        _check_content(self._path, os.fspath(path))
        self._include_text = include_text
        self._seen: dict[str, None] = {}
        """Ids in the file, oldest first."""
        self._end: tuple[int, int] | None = None
        """Number and size of the file when `_seen` was complete. None if the file must be read."""
        self._closed = False

    @classmethod
    def from_spec(cls, argument: str, *, include_text: bool = True) -> JsonlSink:
        """Create the sink from the argument of `"jsonl:PATH"`.

        Raises:
            ConfigurationError: If the path is missing or invalid.
        """
        if not argument:
            raise ConfigurationError("the sink 'jsonl' needs a file. Write 'jsonl:PATH'.")
        return cls(argument, include_text=include_text)

    @property
    def name(self) -> str:
        """Name of the sink: `jsonl:` and the absolute path."""
        return f"jsonl:{self._path}"

    async def write(self, batch: Sequence[Delivery]) -> None:
        """Append the new rows of `batch` and sync them to disk.

        Raises:
            SinkUnavailableError: If the file cannot be written (disk full, directory removed, permissions) or the sink
                is closed.
        """
        if self._closed:
            raise SinkUnavailableError(f"the sink {self.name!r} is closed")
        await asyncio.to_thread(self._write, batch)

    async def aclose(self) -> None:
        """Reject further batches. The sink does not keep open files."""
        self._closed = True

    def _write(self, batch: Sequence[Delivery]) -> None:
        try:
            is_new = not self._path.exists()
            fd = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                _wait_for_lock(fd)
                if self._end != _end_of(fd):
                    # Another process may have written what this one gets again, because it was killed before it said
                    # so.
                    self._seen |= _ids_in_tail(fd)
                fresh = {d.outcome.id: d for d in batch if d.outcome.id not in self._seen}
                if fresh:
                    rows = (outcome_row(d, include_text=self._include_text) for d in fresh.values())
                    _append(fd, b"".join(map(json_line, rows)))
                self._end = _end_of(fd)
            finally:
                os.close(fd)
            if is_new:
                sync_directory(self._path.parent)
        except OSError as error:
            # Part of the batch may be in the file, so the ids are read from the file again, as after a crash.
            self._end = None
            raise SinkUnavailableError(f"cannot append to {str(self._path)!r}: {error.strerror or error}") from error
        remember(self._seen, fresh, _SEEN_MAX_IDS)


def json_line(row: dict[str, Any]) -> bytes:
    """Return a row as one line of JSON."""
    text = json.dumps(row, ensure_ascii=False, allow_nan=False)
    # A lone surrogate is not UTF-8; its backslash escape is valid JSON.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def _check_content(path: Path, given: str) -> None:
    """Check that a file is empty or begins with a line of this sink, so that no outcomes are added to a dataset or a store."""
    try:
        with path.open("rb") as file:
            start, rest = file.read(len(_START)), file.read(40)
    except OSError:
        return  # missing, or written only
    if not _START.startswith(start):
        raise ConfigurationError(
            f"cannot add outcomes to {given!r}: the file has another content. Give the path of a new file, or of one "
            "that this sink has written."
        )
    version: Any = re.split(rb"[,}\s]", rest, maxsplit=1)[0]
    with suppress(ValueError):
        version = json.loads(version)
    if rest and (problem := other_version(version)):
        raise ConfigurationError(f"cannot add outcomes to {given!r}: the file {problem}")


def _ids_in_tail(fd: int) -> dict[str, None]:
    """Return the ids in the last 4 MiB of the file, in file order. Lines in another format are ignored."""
    ids: dict[str, None] = {}
    for line in _tail_of(fd).split(b"\n"):
        try:
            row = json.loads(line)
        except ValueError:
            continue  # empty, cut at the window's start, or incomplete after a crash
        if isinstance(row, dict) and isinstance(row.get("id"), str):
            ids[row["id"]] = None
    return ids


def _tail_of(fd: int) -> bytes:
    return os.pread(fd, _TAIL_MAX_BYTES, max(0, os.fstat(fd).st_size - _TAIL_MAX_BYTES))


def _end_of(fd: int) -> tuple[int, int]:
    """Return the number of an open file and its size."""
    found = os.fstat(fd)
    return found.st_ino, found.st_size


def _append(fd: int, data: bytes) -> None:
    """Append `data` on a new line and sync it."""
    size, torn = _next_line(fd)
    if torn:
        os.ftruncate(fd, size)
    elif size and os.pread(fd, 1, size - 1) != b"\n":
        data = b"\n" + data
    try:
        write_all(fd, data)
        sync_data(fd)
    except OSError:
        with suppress(OSError):
            os.ftruncate(fd, size)
        raise


def _wait_for_lock(fd: int) -> None:
    """Wait until no other sink appends to an open file. Closing it ends the lock. Some file systems do not have locks.

    Raise OSError if another process does not end its batch in time, because it is stopped, for example.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return
    end = time.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise OSError(errno.EAGAIN, "another process has been writing to it for seconds") from None
            time.sleep(0.02)
        except OSError:
            return
        else:
            return


def _next_line(fd: int) -> tuple[int, bool]:
    """Return where the next line of a file begins, and whether this removes an incomplete line of this sink."""
    size, tail = os.fstat(fd).st_size, _tail_of(fd)
    last = tail[tail.rfind(b"\n") + 1 :]
    if not last or last[: len(_START)] != _START[: len(last)]:
        return size, False
    try:
        json.loads(last)
    except ValueError:
        return size - len(last), True
    return size, False
