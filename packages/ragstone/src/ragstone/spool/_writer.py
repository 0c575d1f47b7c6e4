"""The writing side of the spool: one process, one segment at a time, one write an append."""

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
from ragstone._util.fork import after_fork_in_child
from ragstone.errors import ConfigurationError, SpoolError
from ragstone.spool._format import END, LAST, MORE, NAME, frame, header, sync_directory

__all__ = ["SpoolWriter"]

# After these the segment is as good as before, only there was no room: the next append may try it again.
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class SpoolWriter:
    """Appends lines to segments of its own in a spool directory.

    Not for several threads at once. A forked child may go on using its copy: it starts a segment of its own and leaves
    the parent's alone. Segments are readable by their owner only, as captured text is private.

    Args:
        directory: Where segments go; made, with its parents, at the first append.
        max_segment_bytes: A segment that would grow beyond is sealed and another one begun.
        max_spool_bytes: No segment is begun while all segments together hold this much, so that a spool that nobody
            drains does not fill the disk. It is looked at once a segment: allow for one more of each writing process.
        clock: Unix seconds, for names and headers of segments.

    Raises:
        ConfigurationError: A size is not positive.
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
                raise ConfigurationError(f"{name} must be positive, got {value!r}; leave it out for the default")
        self._directory = Path(directory)
        self._max_segment_bytes = max_segment_bytes
        self._max_spool_bytes = max_spool_bytes
        self._clock = clock
        self._name: str | None = None
        self._fd = -1
        self._size = 0
        after_fork_in_child(self._abandon)

    @property
    def segment(self) -> str | None:
        """The name of the segment being written; None before the first append and after `close`."""
        return self._name

    def append(self, lines: Sequence[bytes]) -> None:
        """Append lines: all of them, or, when this raises, none of them.

        The kernel has the bytes when this returns: they survive the death of the process, and after `sync` also that
        of the machine.

        Raises:
            SpoolError: No room, or the directory or its disk does not take it; `__cause__` is the `OSError`. A later
                call may succeed.
            ValueError: A line holds a newline.
        """
        if not lines:
            return
        if any(b"\n" in line for line in lines):
            raise ValueError("a spool line must not hold a newline: write JSON without indentation")
        data = b"".join([frame(line, MORE) for line in lines[:-1]] + [frame(lines[-1], LAST)])
        with self._os_errors("append to"):
            if self._fd >= 0 and os.fstat(self._fd).st_nlink == 0:
                self._abandon()  # somebody deleted it: nothing that is written there will ever be read
            if self._fd >= 0 and self._size + len(data) > self._max_segment_bytes:
                self._seal()
            if self._fd < 0:
                self._begin()
            self._write(data)

    def sync(self) -> None:
        """Return when everything appended so far survives a loss of power.

        Raises:
            SpoolError: The disk did not confirm. What was appended may or may not survive; the next append starts a
                new segment, because after a failed sync the kernel may report success for data it has given up.
        """
        if self._fd < 0:
            return
        with self._os_errors("sync"):
            try:
                _fdatasync(self._fd)
            except OSError:
                self._abandon()
                raise

    def close(self) -> None:
        """Seal the segment; idempotent, and a later append starts another one.

        Raises:
            SpoolError: The disk did not confirm what was appended since the last `sync`.
        """
        with self._os_errors("seal"):
            self._seal()

    def _begin(self) -> None:
        """Start a segment. It gets its name only when it is locked and has its header, so no reader sees it half made."""
        self._directory.mkdir(parents=True, exist_ok=True)
        with os.scandir(self._directory) as found:
            held = sum(_size(file) for file in found if NAME.fullmatch(file.name))
        if held >= self._max_spool_bytes:
            why = f"{held} bytes wait in it, the limit is {self._max_spool_bytes}: is nobody draining it?"
            raise OSError(errno.EDQUOT, why)
        now = self._clock()
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        name = f"{stamp}-{os.getpid()}-{secrets.token_hex(4)}.seg"
        hidden = self._directory / f".{name}.new"
        fd = os.open(hidden, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            try_flock(fd)  # nobody else knows this file
            first = header(pid=os.getpid(), created_at=now)
            _write_all(fd, first)
            _fdatasync(fd)
            hidden.rename(self._directory / name)
            # The name is on the disk when the directory is.
            sync_directory(self._directory)
        except BaseException:
            os.close(fd)
            hidden.unlink(missing_ok=True)
            raise
        self._fd, self._name, self._size = fd, name, len(first)

    def _write(self, data: bytes) -> None:
        try:
            _write_all(self._fd, data)
        except OSError as error:
            try:
                os.ftruncate(self._fd, self._size)
            except OSError:
                # What is there of this append lacks its last line, so readers ignore it; but nothing may follow it.
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
            # Without its seal a segment is read to its end all the same.
            with contextlib.suppress(OSError):
                self._write(END)
            if self._fd >= 0:
                _fdatasync(self._fd)
        finally:
            self._abandon()

    def _abandon(self) -> None:
        """Let go of the segment as it is: after a fault, and in a forked child, where closing keeps the parent's lock."""
        fd, self._fd, self._name, self._size = self._fd, -1, None, 0
        if fd >= 0:
            os.close(fd)

    @contextlib.contextmanager
    def _os_errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SpoolError(
                f"cannot {doing} the spool in {str(self._directory)!r}: {error.strerror or error}; "
                "make room, make it writable, or choose another directory"
            ) from error


def _write_all(fd: int, data: bytes) -> None:
    """Write everything; a signal or a nearly full disk cuts a write short without an error."""
    view = memoryview(data)
    while view:
        written = os.write(fd, view)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        view = view[written:]


# macOS has no fdatasync.
_fdatasync: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)


def _size(file: os.DirEntry[str]) -> int:
    try:
        return file.stat().st_size
    except OSError:  # drained and removed meanwhile
        return 0
