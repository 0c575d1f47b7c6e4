"""The file of captured requests of an evaluated application, from which an interrupted run resumes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from ragstone._util.filelock import try_flock
from ragstone._util.files import open_private, write_output
from ragstone.errors import ConfigurationError, StoreError
from ragstone.schema import Sample, Trace, check_record

if TYPE_CHECKING:
    from ragstone.experiments._app.call import AppCall

_FIELD: Final = "evaluation"
"""Field of a saved trace that says which call it is."""


class SavedRuns:
    """The answers of a run, one trace per line: in `PATH.partial` while it runs, in `PATH` when it has finished.

    The next run with the same path reads `PATH.partial` and asks for the rest only. An answer counts if the application
    has the same name and the sample asks the same. Failures are not saved while the run lasts, so they are asked again.

    Raises:
        ConfigurationError: If the path is a directory, or its directory does not exist.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = None if path is None else Path(path)
        self._file: IO[bytes] | None = None
        self._known: dict[tuple[str, str, int], Trace] = {}
        self._call: AppCall | None = None
        if self._path is not None and (self._path.is_dir() or not self._path.absolute().parent.is_dir()):
            raise ConfigurationError(
                f"traces={str(self._path)!r} is a directory, or its directory does not exist. Give the path of a file"
            )

    @property
    def partial(self) -> Path | None:
        """Path of the file while the run lasts."""
        return None if self._path is None else self._path.with_name(f"{self._path.name}.partial")

    @property
    def n_known(self) -> int:
        """Number of answers of the earlier run, or of this one so far."""
        return len(self._known)

    def open(self, call: AppCall) -> None:
        """Read the answers of an earlier run that was interrupted, and begin to save new ones.

        Raises:
            ConfigurationError: If another process saves into the file, or it holds a run of another application.
            StoreVersionError: If another version of Ragstone wrote the file.
            StoreError: If the file cannot be read or written.
        """
        self._call = call
        if self.partial is None:
            return
        try:
            with ExitStack() as on_error:
                file = on_error.enter_context(open(self.partial, "ab+", opener=open_private))
                if not try_flock(file.fileno()):
                    raise ConfigurationError(f"another process is writing {str(self.partial)!r}. Give another --traces")
                self._read(file)
                on_error.pop_all()
                self._file = file
        except OSError as error:
            raise StoreError(f"{str(self.partial)!r} cannot be read or written: {error}") from error

    def _read(self, file: IO[bytes]) -> None:
        assert self._call is not None  # noqa: S101 - set by `open`
        file.seek(0)
        lines = file.read().splitlines(keepends=True)
        answers = _answers(lines, f"a request in {str(self.partial)!r}")
        self._known = {(about["app"], about["asks"], about["repeat"]): trace for trace, about in answers}
        if lines and not lines[-1].endswith(b"\n"):
            file.write(b"\n")  # ends a line that a kill cut
        apps = {app for app, _, _ in self._known}
        if apps and self._call.name not in apps:
            raise ConfigurationError(
                f"{str(self.partial)!r} holds an interrupted run of another application ({', '.join(sorted(apps))}). "
                "Delete it, or give another --traces"
            )

    def find(self, row: Sample, repeat: int) -> Trace | None:
        """Return the answer of an earlier run to a sample; None if there is none."""
        return self._known.get(self._key(row, repeat))

    def add(self, trace: Trace, row: Sample, repeat: int) -> None:
        """Save an answer. It survives the end of the process.

        Raises:
            StoreError: If the file cannot be written.
        """
        self._known[self._key(row, repeat)] = trace
        if self._file is None:
            return
        app, asks, _ = self._key(row, repeat)
        about = {_FIELD: {"app": app, "asks": asks, "repeat": repeat}}
        try:
            self._file.write(trace.model_copy(update=about).model_dump_json().encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise StoreError(f"{str(self.partial)!r} cannot be written: {error}") from error

    def finish(self, traces: Sequence[Trace]) -> None:
        """Write all requests of the finished run, failed ones too, and remove the partial file."""
        if self._path is None or self.partial is None:
            return
        try:
            write_output(self._path, "".join(trace.model_dump_json() + "\n" for trace in traces))
            self.partial.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{str(self._path)!r} cannot be written: {error}") from error

    def close(self) -> None:
        """Release the file, and remove it if it is empty. Safe to call twice."""
        if self._file is not None and self.partial is not None:
            if not self._known:
                self.partial.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def _key(self, row: Sample, repeat: int) -> tuple[str, str, int]:
        assert self._call is not None  # noqa: S101 - opened before anything is found or added
        asked = self._call.argument(row)
        # With the id: the same question can stand in two rows, and each is asked.
        text = json.dumps([row.id, asked.model_dump() if isinstance(asked, Sample) else asked], default=str)
        return self._call.name, hashlib.sha256(text.encode()).hexdigest()[:32], repeat


def _answers(lines: Sequence[bytes], name: str) -> Iterator[tuple[Trace, dict[str, Any]]]:
    for line in lines:
        try:
            trace = Trace.model_validate_json(line)
            about = (trace.model_extra or {}).pop(_FIELD)
            yield trace, {name: about[name] for name in ("app", "asks", "repeat")}
        except (ValidationError, KeyError, TypeError):
            with suppress(ValueError, RecursionError):
                check_record(name, json.loads(line))
            continue  # a line that a kill cut is asked again
