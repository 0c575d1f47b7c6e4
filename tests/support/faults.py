"""Faults of a machine that tests cause while processes of a `Deployment` run: clocks, limits, full disks and signals."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

__all__ = ["COMPILER", "FAKETIME", "BadDisk", "Clock", "FullDisk", "Limit", "Signal", "small_disk"]

FAKETIME: Final = sorted(Path("/usr/lib").glob("**/faketime/libfaketime.so.1"))
"""The library that changes the clock of a process. Debian's package `faketime` has it."""
COMPILER: Final = shutil.which("cc")
_DAY_S: Final = 86_400
_BAD_DISK: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The fault that a file names now, for descriptors of files whose paths begin with a prefix: 0 none, r read-only, f full, s slow. */
static char fault(int fd) {
    char link[64], path[4096], name = 0;
    const char *prefix = getenv("BAD_DISK");
    ssize_t n;
    int errno_before = errno, file;
    if (prefix == NULL) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof path - 1);
    if (n < 0 || strncmp(path, prefix, strlen(prefix)) != 0) { errno = errno_before; return 0; }
    file = syscall(SYS_openat, AT_FDCWD, getenv("BAD_DISK_FAULT"), O_RDONLY);
    if (file >= 0) { if (syscall(SYS_read, file, &name, 1) != 1) name = 0; syscall(SYS_close, file); }
    errno = errno_before;
    return name;
}

static int refuses(int fd) {
    char name = fault(fd);
    if (name == 's') usleep(20000);
    if (name == 'r') errno = EROFS;
    if (name == 'f') errno = ENOSPC;
    return name == 'r' || name == 'f';
}

#define CALL(type, name, parameters, arguments) \
    type name parameters { \
        static type (*real) parameters; \
        if (!real) real = (type (*) parameters) dlsym(RTLD_NEXT, #name); \
        return refuses(fd) ? -1 : real arguments; \
    }
CALL(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n))
CALL(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at))
CALL(ssize_t, pwrite64, (int fd, const void *data, size_t n, off64_t at), (fd, data, n, at))
CALL(int, ftruncate, (int fd, off_t n), (fd, n))
CALL(int, ftruncate64, (int fd, off64_t n), (fd, n))
CALL(int, fsync, (int fd), (fd))
CALL(int, fdatasync, (int fd), (fd))
"""
"""A library that is loaded before the C library, and lets its calls fail or wait."""


class Clock:
    """The system clock of the processes that are started with `environment`.

    Args:
        folder: Where its offset is kept.
        moments: Draws the offsets.
    """

    def __init__(self, folder: Path, moments: random.Random) -> None:
        self._file = file = folder / "offset"
        self._moments = moments
        # libfaketime rejects `clock_nanosleep` to an absolute time, which Python's own `sleep` calls.
        (folder / "sitecustomize.py").write_text(
            "import select, time\ntime.sleep = lambda s: select.select([], [], [], s)\n", encoding="utf-8"
        )
        self.set(0)
        self.environment = {
            "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "LD_PRELOAD": str(FAKETIME[0]),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, offset_s: float) -> None:
        """Set the clock.

        Args:
            offset_s: Seconds that are added to the real time.
        """
        other = self._file.with_suffix(".new")
        other.write_text(f"{offset_s:+.0f}", encoding="utf-8")
        other.replace(self._file)

    def kill(self) -> None:
        """Put the clock forward or back, by up to 30 days."""
        self.set(self._moments.choice((-1, 1)) * self._moments.choice((60, 3600, _DAY_S, 30 * _DAY_S)))

    def start_again(self) -> None:
        """Leave the clock as it is."""


class Limit:
    """A limit of a random process, which has nothing left of it for a while.

    Args:
        kind: `resource.RLIMIT_NOFILE` or `RLIMIT_AS`.
        pids: Returns the processes.
        moments: Draws one of them.
    """

    def __init__(self, kind: int, pids: Callable[[], Sequence[int]], moments: random.Random) -> None:
        self._kind = kind
        self._pids = pids
        self._moments = moments
        self._changed: list[tuple[int, tuple[int, int]]] = []

    def kill(self) -> None:
        """Set the limit to what the process has now."""
        pid = self._moments.choice(list(self._pids()))
        with suppress(OSError):
            if self._kind == resource.RLIMIT_NOFILE:
                most = len(list(Path(f"/proc/{pid}/fd").iterdir()))
            else:
                pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[0])
                most = pages * resource.getpagesize() + self._moments.choice((0, 2**20, 8 * 2**20))
            before = resource.prlimit(pid, self._kind)
            resource.prlimit(pid, self._kind, (most, before[1]))
            self._changed.append((pid, before))

    def start_again(self) -> None:
        """Set the limit to what it was before."""
        for pid, before in self._changed:
            with suppress(OSError):
                resource.prlimit(pid, self._kind, before)
        self._changed.clear()


class FullDisk:
    """A disk without free space for a while.

    Args:
        folder: A folder of the disk.
    """

    def __init__(self, folder: Path) -> None:
        self._filler = folder / "filler"

    def kill(self) -> None:
        """Fill the disk."""
        with suppress(OSError), self._filler.open("ab", buffering=0) as file:
            while file.write(bytes(4096)):
                pass

    def start_again(self) -> None:
        """Free the space."""
        self._filler.unlink(missing_ok=True)


class BadDisk:
    """A disk that becomes read-only, full or slow for a while, for the processes that are started with `environment`.

    Each write, and each request to write what is cached, fails, or takes 20 ms longer. Unlike `FullDisk`, it needs no permission.

    Args:
        prefix: What the paths of its files begin with.
        control: A folder for the library, and for the file that names the fault.
        fault: "read-only", "full" or "slow".
    """

    def __init__(self, prefix: str, control: Path, fault: str) -> None:
        self._file, self._fault = control / "fault", fault
        library = control / "bad_disk.so"
        assert COMPILER is not None
        subprocess.run(
            [COMPILER, "-shared", "-fPIC", "-o", library, "-x", "c", "-", "-ldl"],
            input=_BAD_DISK.encode(),
            check=True,
            capture_output=True,
        )
        self.environment = {"LD_PRELOAD": str(library), "BAD_DISK": prefix, "BAD_DISK_FAULT": str(self._file)}

    def kill(self) -> None:
        """Cause the fault."""
        self._file.write_text(self._fault, encoding="utf-8")

    def start_again(self) -> None:
        """End it."""
        self._file.unlink(missing_ok=True)


class Signal:
    """Signals to a random process, which ends.

    Args:
        processes: Returns the processes.
        moments: Draws one of them, and the signal.
    """

    def __init__(self, processes: Callable[[], Sequence[subprocess.Popen[bytes]]], moments: random.Random) -> None:
        self._processes = processes
        self._moments = moments
        self.n_sent: Counter[str] = Counter()
        """Signals with the exit code that followed."""

    def kill(self) -> None:
        """Send SIGINT, SIGTERM or SIGHUP, and wait for the end of the process."""
        process = self._moments.choice(list(self._processes()))
        number = self._moments.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        process.send_signal(number)
        code = process.wait(120)
        self.n_sent[f"{number.name} {code}"] += 1
        # A process that does not handle the signal, as while it imports modules, ends by it. Python itself, which starts, ends with 1
        # on SIGINT.
        expected = (0, 130, -number, *((1,) if number == signal.SIGINT else ()))
        assert code in expected, f"exit code {code} after {number.name}"

    def start_again(self) -> None:
        """The supervisor of the deployment starts the process again."""


@contextmanager
def small_disk(folder: Path, n_mib: int) -> Iterator[Path]:
    """Mount a file system in memory, and unmount it at the end.

    Raises:
        PermissionError: If this user must not mount file systems.
    """
    folder.mkdir()
    try:
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={n_mib}m", "tmpfs", folder], check=True, capture_output=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise PermissionError("this user must not mount file systems") from error
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
