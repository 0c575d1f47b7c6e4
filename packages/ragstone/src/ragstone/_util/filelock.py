"""Exclusive ownership: advisory locks on open files, which the kernel releases when a process ends in any way."""

from __future__ import annotations

import os
from pathlib import Path

from ragstone._util.fork import after_fork_in_child
from ragstone.errors import ConfigurationError


def try_flock(fd: int, *, shared: bool = False) -> bool:
    """Lock an open file without waiting. Return False if another process or descriptor holds the lock.

    The lock belongs to the open file, not to the process. A second `open` of the same path competes with the first even
    in one process, a forked child shares the lock, and it ends when the last descriptor is closed. Raise
    ConfigurationError if `flock` is missing on this platform.
    """
    try:
        import fcntl
    except ImportError as error:
        raise ConfigurationError(
            "Ragstone needs flock(2) to lock spools and stores, and this platform does not have it. "
            "Run Ragstone on Linux or macOS, or on Windows inside WSL"
        ) from error
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class FileLock:
    """An exclusive lock on a path, held until `release` or the end of the process.

    The file remains after `release`: if it were removed, two processes could lock two files with the same name. A
    forked child does not inherit the lock, and cannot release its parent's. The lock file is created if it does not
    exist. Its content is the process id of the last owner.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        """Path of the lock file."""
        self._fd: int | None = None
        after_fork_in_child(self.release)

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._fd is not None

    def acquire(self) -> bool:
        """Take the lock without waiting, and return whether this object holds it (also if it did before).

        Raise ConfigurationError if `flock` is missing on this platform. Raise OSError if the lock file cannot be
        created or opened, or its file system does not have locks.
        """
        if self._fd is not None:
            return True
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not try_flock(fd):
                os.close(fd)
                return False
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        except BaseException as error:
            os.close(fd)
            if isinstance(error, OSError) and error.filename is None and error.errno is not None:
                # The error of a system call on an open file does not contain its name.
                raise OSError(error.errno, error.strerror, str(self.path)) from error
            raise
        self._fd = fd
        return True

    def release(self) -> None:
        """Release the lock. Do nothing if it is not held."""
        # Also in a forked child: closing a copy does not release the parent's lock, an explicit unlock would.
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)

    def owner(self) -> int | None:
        """Return the process id of the last owner, for messages. None if it is unknown."""
        try:
            return int(self.path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
