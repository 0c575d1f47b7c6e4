"""`read_traces`: the traces of files of other tools, one after another."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from ragstone.errors import DataError
from ragstone.reading._formats import DetectedFormat, RejectedRecord, detect
from ragstone.reading._source import InputFile, Sources, open_inputs
from ragstone.requests import RetrieverTools, read_retriever_tools
from ragstone.schema import Trace

logger = logging.getLogger("ragstone")


def read_traces(
    sources: Sources,
    format: str = "auto",  # noqa: A002 - the word that users know
    *,
    retriever_tools: Iterable[str] | RetrieverTools = (),
    on_rejected: Callable[[RejectedRecord], None] | None = None,
) -> Iterator[Trace]:
    """Read the traces in files of other tools, one after another.

    It reads each format that `ragstone replay` reads. Memory does not grow with the files. Texts are not redacted.

    A record that is not a trace is skipped: it is passed to `on_rejected`, or counted in a warning of the log at the end.
    A file that is damaged from some place on ends there, the next file is read, and the error is raised at the end.

    Args:
        sources: One or several files, directories or http(s) URLs, plain, .gz or .zst.
        format: Name of the format, or "auto" to detect it.
        retriever_tools: Names of tools that retrieve and return text, or a mapping from such names to the separator
            between the passages in their results. Without it, such a result is not read as contexts.
        on_rejected: Function that receives each skipped record, with its place and the reason, and each unreadable file of
            a directory.

    Yields:
        The traces, in the order of the files. A trace id may occur several times, as in the files.

    Raises:
        ConfigurationError: If a source or the format does not exist. Like the next ones, it is raised when the first trace
            is read.
        DataError: If the format of a file is unknown, or a URL does not respond.
        DataError: After the last trace, if a file could not be read to its end.

    Examples:
        ```python
        for trace in ragstone.read_traces("spans.jsonl"):
            print(trace.trace_id, trace.query)
        ```
    """
    tools = read_retriever_tools(retriever_tools)
    skipped = _Skipped(on_rejected)
    damaged: list[DataError] = []
    with open_inputs(sources) as found:
        files, unreadable = find_formats([replace(source, retriever_tools=tools) for source in found], format)
        for file in unreadable:
            skipped.add(file)
        for source, detected in files:
            try:
                for record in detected.format.read(source):
                    if isinstance(record, RejectedRecord):
                        skipped.add(record)
                    else:
                        yield record
            except DataError as error:
                damaged.append(error)
    skipped.log()
    if damaged:
        more = f" So are {len(damaged) - 1} other files." if len(damaged) > 1 else ""
        raise DataError(f"{damaged[0]}. The traces before this place were read.{more}") from damaged[0]


class _Skipped:
    """Reports skipped records to a function, or counts them for the log."""

    def __init__(self, report: Callable[[RejectedRecord], None] | None) -> None:
        self._report = report
        self._n = 0
        self._first: RejectedRecord | None = None

    def add(self, record: RejectedRecord) -> None:
        if self._report is not None:
            self._report(record)
            return
        self._n += 1
        self._first = self._first or record

    def log(self) -> None:
        if self._first is not None:
            logger.warning(
                "ragstone read_traces: %d skipped, first %s: %s. Pass on_rejected to see each of them.",
                self._n,
                self._first.place,
                self._first.reason,
            )


def find_formats(
    sources: Sequence[InputFile], named: str
) -> tuple[list[tuple[InputFile, DetectedFormat]], list[RejectedRecord]]:
    """Return the format of each file, before any is read, and the unreadable files of directories.

    A directory whose files share one format is one source, because the steps of a trace may be in several files.

    Raises:
        DataError: If a file that the user named is unreadable.
    """
    files: list[tuple[InputFile, DetectedFormat]] = []
    skipped: list[RejectedRecord] = []
    for source in sources:
        try:
            files.append((source, detect(source, name=named)))
        except DataError:
            if not source.path.is_dir():
                raise
            parts: list[tuple[InputFile, DetectedFormat]] = []
            unreadable: list[RejectedRecord] = []
            for part in source.parts():
                try:
                    parts.append((part, detect(part, name=named)))
                except DataError as error:
                    unreadable.append(RejectedRecord(place=part.name, reason=str(error)))
            skipped += unreadable
            if len({found.format.name for _, found in parts}) == 1:
                rest = replace(source, without=frozenset(file.place for file in unreadable))
                parts = [(rest, parts[0][1])]
            files += parts
    return files, skipped
