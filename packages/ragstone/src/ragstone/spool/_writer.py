"""Writer of the spool: one process, one open segment, one write per append."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ragstone._util.filelock import try_flock
from ragstone._util.files import sync_data, sync_directory, write_all
from ragstone._util.fork import after_fork_in_child
from ragstone.errors import ConfigurationError, SpoolError
from ragstone.spool._format import END, LAST, MORE, NAME, count_field, frame, header

# After these errors the segment is unchanged, and only space was missing, so the next append can use it again.
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class SpoolWriter:
    """Appends lines to its own segments in a spool directory.

    Not thread-safe. A forked child may use its copy: the copy starts a new segment and does not change the parent's.
    Only the owner can read segment files, because captured text is private. The first append creates `directory` with
    its parents. An append that would exceed `max_segment_bytes` starts a new segment. `max_spool_bytes` of all segments
    keep a spool that is not processed from filling the disk. It is checked when a segment is started, so each writing
    process can exceed it by one segment. `clock` returns Unix seconds. Raise ConfigurationError if a size is not
    positive.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        max_segment_bytes: int = 8 * 2**20,
        max_spool_bytes: int = 2**30,
        clock: Callable[[], float] = time.time,
    ) -> None:
        for name, value in (("max_segment_bytes", max_segment_bytes), ("max_spool_bytes", max_spool_bytes)):
            if value <= 0:
                raise ConfigurationError(f"{name} must be positive, got {value!r}. Omit it for the default")
        self._directory = Path(directory)
        self._max_segment_bytes = max_segment_bytes
        self._max_spool_bytes = max_spool_bytes
        self._clock = clock
        self.segment: str | None = None
        """Name of the open segment, or None before the first append and after `close`."""
        self._fd = -1
        self._size = 0
        self._n_lines = self._count_at = 0
        after_fork_in_child(self._abandon)

    def append(self, lines: Sequence[bytes]) -> None:
        """Append all lines, or none of them if an exception is raised.

        When this method returns, the kernel has the bytes: they survive the end of the process, and after `sync` also a
        loss of power. Raise SpoolError if the directory or disk is full or not writable. `__cause__` is the `OSError`.
        A later call may succeed. Raise ValueError if a line contains a newline.
        """
        if not lines:
            return
        if any(b"\n" in line for line in lines):
            raise ValueError("a spool line must not contain a newline. Write JSON without indentation")
        data = b"".join([frame(line, MORE) for line in lines[:-1]] + [frame(lines[-1], LAST)])
        with self._os_errors("append to"):
            if self._fd >= 0 and os.fstat(self._fd).st_nlink == 0:
                self._abandon()  # the file was deleted, so nothing written to it would ever be read
            if self._fd >= 0 and self._size + len(data) > self._max_segment_bytes:
                self._seal()
            if self._fd < 0:
                self._begin()
            self._write(data)
            self._n_lines += len(lines)
            # The header has the number of entries, so that a reader sees whether the file was cut. It is written after
            # them: one whose process is killed in between is there and not counted, and never the reverse.
            # Linux appends to a file that was opened for appending, whatever the offset is.
            with contextlib.suppress(OSError):
                fd = os.open(self._directory / str(self.segment), os.O_WRONLY | getattr(os, "O_CLOEXEC", 0))
                try:
                    os.pwrite(fd, count_field(self._n_lines), self._count_at)
                finally:
                    os.close(fd)

    def sync(self) -> None:
        """Wait until everything appended so far survives a loss of power.

        Raise SpoolError if the disk did not confirm. The appended lines may or may not survive. The next append starts
        a new segment, because after a failed sync the kernel may report success for data it has discarded.
        """
        if self._fd < 0:
            return
        with self._os_errors("sync"):
            try:
                sync_data(self._fd)
            except OSError:
                self._abandon()
                raise

    def close(self) -> None:
        """Seal the segment. Further calls have no effect, and a later append starts a new segment.

        Raise SpoolError if the disk did not confirm the lines appended since the last `sync`.
        """
        with self._os_errors("seal"):
            self._seal()

    def _begin(self) -> None:
        """Start a segment. It gets its name after its lock and header, so readers never see an incomplete header."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.scandir(self._directory) as files:
            held = sum(_size(file) for file in files if NAME.fullmatch(file.name))
        if held >= self._max_spool_bytes:
            why = f"it holds {held} bytes, and the limit is {self._max_spool_bytes}. Check that a worker is running"
            raise OSError(errno.EDQUOT, why)
        now = self._clock()
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        name = f"{stamp}-{os.getpid()}-{secrets.token_hex(4)}.seg"
        hidden = self._directory / f".{name}.new"
        fd = os.open(hidden, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            try_flock(fd)  # always succeeds: no other process knows this file
            first = header(pid=os.getpid(), created_at=now)
            write_all(fd, first)
            sync_data(fd)
            hidden.rename(self._directory / name)
            # Syncing the directory writes the new name to disk.
            sync_directory(self._directory)
        except BaseException:
            os.close(fd)
            hidden.unlink(missing_ok=True)
            raise
        self._fd, self.segment, self._size, self._n_lines = fd, name, len(first), 0
        self._count_at = len(first) - len(count_field(0))

    def _write(self, data: bytes) -> None:
        try:
            write_all(self._fd, data)
        except OSError as error:
            try:
                os.ftruncate(self._fd, self._size)
            except OSError:
                # Readers ignore the incomplete append, because its last line is missing. But nothing may follow it.
                self._abandon()
            else:
                if error.errno not in _NO_ROOM:
                    self._abandon()
            raise
        self._size += len(data)

    def _seal(self) -> None:
        if self._fd < 0:
            return
        try:
            # Readers read a segment without a seal to its end as well.
            with contextlib.suppress(OSError):
                self._write(END)
            if self._fd >= 0:
                sync_data(self._fd)
        finally:
            self._abandon()

    def _abandon(self) -> None:
        """Close the segment without a seal: after an error, and in a forked child (the parent keeps its lock)."""
        fd, self._fd, self.segment, self._size = self._fd, -1, None, 0
        if fd >= 0:
            os.close(fd)

    @contextlib.contextmanager
    def _os_errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SpoolError(
                f"cannot {doing} the spool in {str(self._directory)!r}: {error.strerror or error}. "
                "Free disk space, make the directory writable, or choose another one"
            ) from error


def _size(file: os.DirEntry[str]) -> int:
    try:
        return file.stat().st_size
    except OSError:  # processed and removed in the meantime
        return 0
