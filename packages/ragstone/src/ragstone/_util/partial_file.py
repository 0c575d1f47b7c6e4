"""A file of lines that a run keeps while it lasts, from which the next run resumes."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import IO, Final

from ragstone._util.filelock import try_flock
from ragstone._util.files import open_private, write_all
from ragstone.errors import ConfigurationError, StoreError

_CHUNK: Final = 2**16


class PartialFile:
    """What a run has finished, one line each: in `PATH.partial` while the run lasts. The next run resumes from it.

    A line survives the end of the process. One that was cut by it is removed. The path None keeps nothing. `option`
    names the file in errors. Raise ConfigurationError if the path is a directory, or its directory does not exist.
    """

    def __init__(self, path: str | os.PathLike[str] | None, *, option: str) -> None:
        self.n_cut = 0
        """Number of lines of an earlier run that were cut by its end, or are damaged. They are done again."""
        self.n_kept = 0
        """Number of lines with something that is finished."""
        self._file: IO[bytes] | None = None
        self._target = target = None if path is None else Path(path)
        self._option = option
        if target is not None and target.is_dir():
            raise ConfigurationError(f"{option} {str(target)!r} is a directory. Give the path of a file.")
        if target is not None and not target.absolute().parent.is_dir():
            raise ConfigurationError(
                f"the directory of {option} {str(target)!r} does not exist. Create it, or give another path."
            )
        # A pipe or a device, such as /dev/stdout, cannot be read again.
        is_file = target is not None and (target.is_file() or not target.exists())
        self.path = target.with_name(f"{target.name}.partial") if target is not None and is_file else None
        """The file while the run lasts."""

    def _resume(self, read: Callable[[Iterator[tuple[int, bytes]]], None]) -> None:
        """Open the file for this process alone, and read the place and text of each line of an earlier run."""
        if self.path is None:
            return
        with self._errors(), ExitStack() as on_error:
            file = on_error.enter_context(open(self.path, "ab+", buffering=0, opener=open_private))
            if not try_flock(file.fileno()):
                raise ConfigurationError(
                    f"another process is writing {str(self.path)!r}. Wait until it ends, or give another {self._option}"
                )
            # An error of `read` keeps a generator, whose second descriptor would hold the lock.
            with closing(self._lines(file)) as lines:
                read(lines)
            on_error.pop_all()
            self._file = file

    def _lines(self, file: IO[bytes]) -> Generator[tuple[int, bytes]]:
        with os.fdopen(os.dup(file.fileno()), "rb") as lines:
            lines.seek(0)
            place = 0
            for line in lines:
                if not line.endswith(b"\n"):
                    # The process ended in the middle of this line.
                    file.truncate(place)
                    self.n_cut += place > 0
                    return
                yield place, line
                place += len(line)

    def _line(self, place: int) -> bytes:
        assert self._file is not None  # noqa: S101 - opened before a place is known
        line = b""
        with self._errors():
            self._file.seek(place)
            while b"\n" not in line and (more := self._file.read(_CHUNK)):
                line += more
        return line.partition(b"\n")[0]

    def _write(self, text: str) -> None:
        """Add a line."""
        if self._file is not None:
            with self._errors():
                end = self._file.seek(0, os.SEEK_END)
                try:
                    write_all(self._file.fileno(), text.encode() + b"\n")
                except OSError:
                    self._file.truncate(end)  # The next line starts on a new line.
                    raise

    def finish(self) -> None:
        """Remove the file, because the whole run is in the output."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the file, and remove it if nothing is finished. Safe to call twice."""
        if self._file is not None:
            if not self.n_kept:
                self.finish()
            self._file.close()
            self._file = None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"{str(self.path)!r} cannot be read or written: {error.strerror or error}. It keeps what is finished "
                f"while the run lasts. Make its directory writable, with enough space, or give another {self._option}"
            ) from error
