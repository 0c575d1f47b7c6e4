"""Trace formats: the protocol `TraceFormat` of readers, the detection of a format, and results of Ragstone."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Final, Protocol, runtime_checkable

from ragstone.errors import ConfigurationError, DataError
from ragstone.reading._fields import first_names
from ragstone.reading._files import is_workbook, refuse_other
from ragstone.reading._source import InputFile, of_store
from ragstone.schema import Trace

_SQLITE: Final = b"SQLite format 3\x00"
_APPLICATION_ID: Final = slice(68, 72)
"""Where the header of a SQLite file says which application wrote it."""
OUTCOME: Final = frozenset({"outcome", "metric", "metric_version"})
"""Names in a record that is an outcome."""
EXPORT_WITH_TEXTS: Final = OUTCOME | {"trace_id", "query", "response", "contexts"}
"""Names in a row of `store export --texts`."""
_NO_SAMPLES: Final = "It holds neither samples nor outcomes. Evaluate the file of the samples"
_RESULTS: Final[tuple[tuple[frozenset[str], str, str], ...]] = (
    (
        OUTCOME | {"sample_id"}, "a file of outcomes (evaluate --output), which does not hold the texts of its samples",
        "To read its scores: ragstone report {0}. To compare it with another run: ragstone compare FILE {0}",
    ),
    (
        OUTCOME | {"trace_id"}, "an export of outcomes without the texts of its requests",
        "To read its scores: ragstone report {0}. With texts it can be scored again: ragstone store export --texts STORE FILE",
    ),
    (
        frozenset({"id", "query", "response", "passages", "scores", "why"}),
        "a list of the worst answers (traces --json), whose mean estimates nothing",
        "Evaluate the store, or its requests: ragstone store export --texts STORE FILE",
    ),
    (frozenset({"metrics", "judge", "n_samples", "wall_s"}), "the summary of an evaluation (evaluate --json)", _NO_SAMPLES),
    (
        frozenset({"metrics", "systems", "verdict", "hypotheses"}),
        "the result of a comparison (compare --json)", _NO_SAMPLES,
    ),
    (
        frozenset({"magic", "format", "pid", "created_at"}), "a segment of a spool",
        "A worker reads its folder into a store: ragstone worker STORE",
    ),
)  # fmt: skip
"""Files of Ragstone without samples: names in their first record, what they are, and the command that reads them."""


def is_store(head: bytes) -> bool:
    """Return whether a file with this start is a store."""
    return head.startswith(_SQLITE) and head[_APPLICATION_ID] == b"RGST"


def refuse_results(head: bytes, name: str) -> None:
    """Raise an error that says what a file of Ragstone without samples is, and which command reads it.

    Raise DataError if the file is one of these.
    """
    names = first_names(head)
    if names >= EXPORT_WITH_TEXTS:
        return
    for needed, kind, remedy in _RESULTS:
        if names >= needed:
            raise DataError(f"{name!r} is {kind}. {remedy.format(name)}")


logger = logging.getLogger("ragstone")

_GROUP: Final = "ragstone.formats"


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRecord:
    """A record that is not read as a trace. It is counted with the reason, and the next record is read."""

    place: str
    """Where in the source: "line 12", "trace 4bf92f…"."""
    reason: str
    is_ignored: bool = False
    """Whether it is readable, but not a request. Then the store counts it by `reason`, which has few values."""


@runtime_checkable
class TraceFormat(Protocol):
    """One kind of file with traces in it."""

    @property
    def name(self) -> str:
        """What users call it: "openinference", "langsmith"."""
        ...

    def detect(self, head: bytes) -> str | None:
        """Detect a file by its first bytes (decompressed, cut anywhere).

        Returns:
            The evidence, such as "spans with `openinference.span.kind`". None if it
            is something else. Never raises, whatever the bytes are.
        """
        ...

    def read(self, source: InputFile) -> Iterator[Trace | RejectedRecord]:
        """Read the traces of a file, or of the files of a directory (`InputFile.parts`).

        Order and ids are the same each time.

        Memory does not grow with the file. Fields that the format does not have stay None. An unreadable record is
        returned as a `RejectedRecord`. No content of a file may raise another error or take long.

        Raises:
            DataError: If the rest of the file is damaged, or the file has another format.
        """
        ...


@runtime_checkable
class FileFormat(TraceFormat, Protocol):
    """A format that can also be a file of any bytes, or a directory of files with fixed names."""

    def detect_file(self, source: InputFile) -> str | None:
        """Detect a file by its records, or a directory by the names in it. Both may contain anything."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedFormat:
    """The format of a file and the evidence for it."""

    format: TraceFormat
    detected_by: str


def all_formats() -> dict[str, TraceFormat]:
    """Return the formats of the entry points `ragstone.formats` by name: Ragstone's own, then the most specific ones.

    An entry point that cannot be loaded is skipped, and a warning is logged.
    """
    entries = {entry.name: entry for entry in entry_points(group=_GROUP)}
    formats: dict[str, TraceFormat] = {}
    # Rows of any dataset are detected by a question alone, so they are tried last.
    for name in sorted(entries, key=lambda name: (name == "rows", name != "ragstone", name)):
        try:
            formats[name] = entries[name].load()()
        except Exception:  # an error in another package must not disable the other formats
            logger.warning("the trace format of entry point %r cannot be loaded", entries[name].value, exc_info=True)
    return formats


def detect(source: InputFile, *, name: str = "auto", formats: Sequence[TraceFormat] | None = None) -> DetectedFormat:
    """Detect the format of a file, or of a directory: by the names in it, otherwise the common format of its files.

    Args:
        source: The file or directory.
        name: Name of the format, or "auto" to detect it.
        formats: The formats to choose from. None takes all that are installed.

    Raises:
        ConfigurationError: If the name is unknown.
        DataError: If the format of the file is unknown, or the file cannot be read.
    """
    known = {f.name: f for f in formats} if formats is not None else all_formats()
    if name != "auto":
        if name not in known:
            raise ConfigurationError(f"unknown format {name!r}: expected 'auto' or one of {', '.join(known)}")
        return DetectedFormat(format=known[name], detected_by="it was named")
    if source.path.is_dir():
        return _of_folder(source, known)
    head = source.head()
    refuse_results(head, source.name)
    if is_store(head):
        raise DataError(of_store(source.name))
    if (found := find_format(head, list(known.values())) or _find_file_format(source, known)) is not None:
        return found
    remedy = (
        "Name the format with --format, or convert the file to JSON lines with the fields query, contexts and response"
    )
    with source.path.open("rb") as file:
        is_book = head.startswith(b"PK") and is_workbook(file)
    if not is_book:
        refuse_other(head, source.name)
    if is_book or b"\0" not in head or head.startswith((b"\xff\xfe", b"\xfe\xff")):
        remedy += f". If its rows are samples: ragstone evaluate {shlex.quote(source.name)}"
    if not sum(1 for _ in source.lines()):  # raises the error of a damaged file
        raise DataError(
            f"{source.name!r} is empty, and traces are expected in one of these formats: {', '.join(known)}. "
            "Check the program that writes it, or name another file"
        )
    beginning = head[:40].decode("utf-8", "replace")
    raise DataError(
        f"{source.name!r} begins with {beginning!r}, which is not a known format ({', '.join(known)}). {remedy}"
    )


def find_format(head: bytes, formats: Sequence[TraceFormat]) -> DetectedFormat | None:
    """Return the first format that detects a file by its start, or None."""
    return _first((one, one.detect(head)) for one in formats)


def _find_file_format(source: InputFile, known: Mapping[str, TraceFormat]) -> DetectedFormat | None:
    """Return the first format that detects a file by its records, or a directory by its names, or None."""
    return _first((one, one.detect_file(source)) for one in known.values() if isinstance(one, FileFormat))


def _first(detected: Iterable[tuple[TraceFormat, str | None]]) -> DetectedFormat | None:
    return next((DetectedFormat(format=one, detected_by=why) for one, why in detected if why is not None), None)


def _of_folder(source: InputFile, known: Mapping[str, TraceFormat]) -> DetectedFormat:
    try:
        if (whole := _find_file_format(source, known)) is not None:
            return whole
    except OSError as error:
        raise DataError(f"{source.name!r} cannot be read: {error}") from error
    found, *others = (detect(part, formats=tuple(known.values())) for part in source.parts())
    for other in others:
        if other.format.name != found.format.name:
            raise DataError(
                f"{source.name!r} holds files of several formats, {found.format.name} and {other.format.name}: name each"
            )
    return found
