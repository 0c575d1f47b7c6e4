"""Files that commands write for a user: complete or unchanged, and readable only by their owner."""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final, TextIO

from ragstone._util.filelock import try_flock
from ragstone.errors import ConfigurationError

_PRIVATE: Final = 0o600
_PARTIAL: Final = ".ragstone-"
_PARTIAL_END: Final = ".partial"
_SPECIAL: Final = ("/dev/", "/proc/")


def check_output(path: str | os.PathLike[str], suffixes: Collection[str] = ()) -> Path:
    """Check that a file can be written, before anything is computed.

    Raise ConfigurationError if the name does not end in one of the suffixes, if any are given, the directory does not
    exist, or the path is that of a directory.
    """
    file = Path(path)
    if suffixes and file.suffix.lower() not in suffixes:
        raise ConfigurationError(f"the file must end in {' or '.join(suffixes)}, got {str(file)!r}")
    if not file.absolute().parent.is_dir() or file.is_dir():
        raise ConfigurationError(
            f"cannot write {str(file)!r}: its directory does not exist, or it is one. Give a file in an existing directory"
        )
    return file


def check_not_read(output: str | os.PathLike[str] | None, *inputs: object) -> None:
    """Check that a command does not write to a file that it reads. Inputs that are not paths are ignored.

    Raise ConfigurationError if they are the same file, also by a link.
    """
    for given in inputs:
        if output is not None and isinstance(given, str | os.PathLike) and _is_same_file(output, given):
            raise ConfigurationError(
                f"cannot write the output to {os.fspath(output)!r}, because it is an input. Its content would be lost. "
                "Give another path."
            )


def _is_same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    try:
        return Path(one).is_file() and Path(one).samefile(other)
    except (OSError, ValueError):  # one of them does not exist, or is not a path
        return False


@contextmanager
def open_output(
    path: str | os.PathLike[str], *, errors: str = "strict", newline: str | None = None
) -> Iterator[TextIO]:
    """Open a text file for writing. It gets its name at the end of the block; after an error nothing has changed.

    A new file has mode 0600, because it may hold texts of users. An existing one keeps its mode. A symbolic link stays,
    and the file that it leads to is written. Pipes and devices, such as `/dev/stdout`, are written directly. `errors`
    (for characters that UTF-8 cannot hold) and `newline` are as for `open`. Raise OSError if the file cannot be
    written. Its `filename` is the path as given.
    """
    try:
        with _open_output(path, errors, newline) as file:
            yield file
    except OSError as error:
        is_own = error.filename is None or Path(error.filename).name.startswith(_PARTIAL)
        if error.errno is None or not is_own:
            raise
        # The name of the partial file says little, and an error of a full disk does not contain a name.
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


@contextmanager
def _open_output(path: str | os.PathLike[str], errors: str, newline: str | None) -> Iterator[TextIO]:
    given = Path(path)
    target = Path(os.path.realpath(given))
    if str(given.absolute()).startswith(_SPECIAL) or (given.exists() and not given.is_file()):
        with given.open("w", encoding="utf-8", errors=errors, newline=newline) as file:
            yield file
        return
    partial, descriptor = create_partial(target)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", errors=errors, newline=newline) as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        if target.exists():
            partial.chmod(stat.S_IMODE(target.stat().st_mode))
        try:
            partial.replace(target)
        except OSError:
            if not target.exists():
                raise
            # A file that is mounted, as in containers, cannot be replaced. Its content can.
            shutil.copyfile(partial, target)
            partial.unlink()
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


@contextmanager
def open_draft(path: Path) -> Iterator[IO[bytes]]:
    """Open a new binary file with mode 0600, which gets its name, and replaces one of before, if the block ends without error.

    Until then it is hidden, as that of `create_partial`.
    """
    target = path.absolute()
    draft, descriptor = create_partial(target)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(descriptor)
        draft.replace(target)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise


def create_partial(target: Path) -> tuple[Path, int]:
    """Create a hidden file next to a file that it will replace. Return its path and descriptor, which holds a lock on it.

    It has mode 0600. Raise OSError if it cannot be created.
    """
    partial = target.with_name(f"{_PARTIAL}{secrets.token_hex(8)}{_PARTIAL_END}")
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), _PRIVATE)
    with suppress(OSError, ConfigurationError):  # a file system or a platform without locks
        try_flock(descriptor)
    return partial, descriptor


def remove_partials(directory: Path, *, dry_run: bool = False) -> int:
    """Remove the files of `create_partial` whose process was killed, or only count them. Raise OSError if one remains."""
    n = 0
    for partial in directory.glob(f"{_PARTIAL}*{_PARTIAL_END}"):
        descriptor = os.open(partial, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        try:
            if try_flock(descriptor):
                n += 1
                for end in ("-wal", "-shm", "-journal", "") if not dry_run else ():
                    partial.with_name(partial.name + end).unlink(missing_ok=True)
        finally:
            os.close(descriptor)
    return n


def sync_directory(directory: Path) -> None:
    """Write the names of new and removed files to disk, which syncing the files themselves does not do."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_output(
    path: str | os.PathLike[str], text: str, *, errors: str = "strict", newline: str | None = None
) -> None:
    """Write a text file as `open_output` does. Raise OSError if the file cannot be written."""
    with open_output(path, errors=errors, newline=newline) as file:
        file.write(text)


def write_json(path: Path, value: object) -> None:
    """Write a file for another process, whole, in a folder that only its owner may read.

    Raise OSError if the file cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_output(path, json.dumps(value))


def open_private(path: str, flags: int) -> int:
    """Open a file for `open(..., opener=open_private)`, with mode 0600 if it is new."""
    return os.open(path, flags, _PRIVATE)


def write_all(fd: int, data: bytes) -> None:
    """Write all bytes. A signal or a nearly full disk can shorten a write without an error."""
    view = memoryview(data)
    while view:
        written = os.write(fd, view)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        view = view[written:]


sync_data: Final[Callable[[int], None]] = getattr(os, "fdatasync", os.fsync)
"""Writes the data of an open file to the disk. macOS does not have `fdatasync`."""
