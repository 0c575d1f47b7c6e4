"""The file of captured requests of an evaluated application, from which an interrupted run resumes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from ragstone._util.files import write_output
from ragstone._util.partial_file import PartialFile
from ragstone.errors import ConfigurationError, StoreError
from ragstone.schema import Sample, Trace, check_record

if TYPE_CHECKING:
    from ragstone.experiments._app.call import AppCall

_FIELD: Final = "evaluation"
"""Field of a saved trace that says which call it is."""


class SavedRuns(PartialFile):
    """The answers of a run, one trace per line: in `PATH.partial` while it runs, in `PATH` when it has finished.

    An answer counts if the application has the same name and the sample asks the same. Failures are not saved while the
    run lasts, so they are asked again.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        super().__init__(path, option="--traces")
        self._known: dict[tuple[str, str, int], Trace] = {}
        self._call: AppCall | None = None

    def open(self, call: AppCall) -> None:
        """Read the answers of an earlier run that was interrupted, and begin to save new ones.

        Raise ConfigurationError if another process saves into the file, or it holds a run of another application, and
        StoreError if it cannot be read or written (StoreVersionError: another version of Ragstone wrote it).
        """
        self._call = call
        self._resume(self._read)

    def _read(self, lines: Iterator[tuple[int, bytes]]) -> None:
        assert self._call is not None  # noqa: S101 - set by `open`
        answers = _answers((line for _, line in lines), f"a request in {str(self.path)!r}")
        self._known = {(about["app"], about["asks"], about["repeat"]): trace for trace, about in answers}
        self.n_kept = len(self._known)
        apps = {app for app, _, _ in self._known}
        if apps and self._call.name not in apps:
            raise ConfigurationError(
                f"{str(self.path)!r} holds an interrupted run of another application ({', '.join(sorted(apps))}). "
                "Delete it, or give another --traces"
            )

    def find(self, row: Sample, repeat: int) -> Trace | None:
        """Return the answer of an earlier run to a sample; None if there is none."""
        return self._known.get(self._key(row, repeat))

    def add(self, trace: Trace, row: Sample, repeat: int) -> None:
        """Save an answer, which survives the end of the process. Raise StoreError if the file cannot be written."""
        self._known[self._key(row, repeat)] = trace
        self.n_kept += 1
        app, asks, _ = self._key(row, repeat)
        about = {_FIELD: {"app": app, "asks": asks, "repeat": repeat}}
        self._write(trace.model_copy(update=about).model_dump_json())

    def write(self, traces: Sequence[Trace]) -> None:
        """Write all requests of the finished run, failed ones too, and remove the partial file."""
        if self._target is None:
            return
        try:
            write_output(self._target, "".join(trace.model_dump_json() + "\n" for trace in traces))
        except OSError as error:
            raise StoreError(f"{str(self._target)!r} cannot be written: {error}") from error
        self.finish()

    def _key(self, row: Sample, repeat: int) -> tuple[str, str, int]:
        assert self._call is not None  # noqa: S101 - opened before anything is found or added
        asked = self._call.argument(row)
        # With the id: the same question can stand in two rows, and each is asked.
        text = json.dumps([row.id, asked.model_dump() if isinstance(asked, Sample) else asked], default=str)
        return self._call.name, hashlib.sha256(text.encode()).hexdigest()[:32], repeat


def _answers(lines: Iterable[bytes], name: str) -> Iterator[tuple[Trace, dict[str, Any]]]:
    for line in lines:
        try:
            trace = Trace.model_validate_json(line)
            about = (trace.model_extra or {}).pop(_FIELD)
            yield trace, {name: about[name] for name in ("app", "asks", "repeat")}
        except (ValidationError, KeyError, TypeError):
            with suppress(ValueError, RecursionError):
                check_record(name, json.loads(line))
            continue  # a line that a kill cut is asked again
