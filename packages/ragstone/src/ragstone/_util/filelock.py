"""One owner at a time: advisory locks on open files, which the kernel takes back when a process dies, however it dies."""

from __future__ import annotations

import os
from pathlib import Path

from ragstone._util.fork import after_fork_in_child
from ragstone.errors import ConfigurationError

__all__ = ["FileLock", "try_flock"]


def try_flock(fd: int, *, shared: bool = False) -> bool:
    """Lock an open file without waiting; False when somebody else holds it.

    The lock belongs to the open file, not to the process: a second `open` of the same path competes with the first
    even in one process, a forked child shares it, and it ends when the last descriptor is closed.

    Raises:
        ConfigurationError: This platform has no `flock`.
    """
    try:
        import fcntl
    except ImportError as error:
        raise ConfigurationError(
            "Ragstone keeps the writers of a spool or a store apart with flock(2), which this platform does not have; "
            "run it on Linux or macOS, or on Windows inside WSL"
        ) from error
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class FileLock:
    """An exclusive lock on a path, held until `release` or the end of the process.

    The file stays behind when the lock is released: removing it would let two processes lock two files of one name.
    A forked child does not inherit the lock, and cannot release its parent's.

    Args:
        path: The lock file; made when it is missing. Its content is the process id of the last owner.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._fd: int | None = None
        after_fork_in_child(self._close)

    @property
    def path(self) -> Path:
        """The lock file."""
        return self._path

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._fd is not None

    def acquire(self) -> bool:
        """Take the lock without waiting; False when somebody else holds it, True when we do (also if we already did).

        Raises:
            ConfigurationError: This platform has no `flock`.
            OSError: The lock file cannot be made or opened.
        """
        if self._fd is not None:
            return True
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not try_flock(fd):
                os.close(fd)
                return False
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        return True

    def release(self) -> None:
        """Give the lock back; does nothing when it is not held."""
        self._close()

    def owner(self) -> int | None:
        """The process id of the last owner, for messages; None when nobody ever was or it cannot be read."""
        try:
            return int(self._path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None

    def _close(self) -> None:
        # In a forked child as well: closing a copy leaves the parent's lock alone, an explicit unlock would not.
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)
