"""The traces of files of other tools, one after another, and the samples in such files and in stores."""

from __future__ import annotations

import logging
import os
import re
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ragstone._util.id_table import IdTable
from ragstone.errors import DataError
from ragstone.reading._formats import (
    DetectedFormat,
    RejectedRecord,
    all_formats,
    detect,
    find_format,
    is_store,
    refuse_results,
)
from ragstone.reading._ragstone import CASE, CHOSEN_BY_SCORES, case_of
from ragstone.reading._report import ReadingReport
from ragstone.reading._row_lists import Choice, is_left_out
from ragstone.reading._source import InputFile, Sources, open_inputs
from ragstone.requests import RetrieverTools, read_retriever_tools
from ragstone.schema import Sample, Trace, sample_from_trace
from ragstone.store import describe_store, is_database_url, open_store

logger = logging.getLogger("ragstone")

_TRACE_NAMES: Final = re.compile(
    rb'"(?:lc|run_type|trace|trace_?id|info|spans?|span_id|span_kind|resource_?(?:spans|logs|metrics|profiles)|source_nodes|node|'
    rb'observations|parent_?observation_?id|html_?path|bookmarked|public|passages)"\s*:',
    re.IGNORECASE,
)
"""Names of which at least one is in the start of each file of traces in JSON."""
_BINARY: Final = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_PROBABILITY: Final = "inclusion_probability"
_LABELS: Final = ("session_id", "user_id", "app", "release", "environment")
"""Fields of a trace that its sample has in its metadata, where intervals and slices read them."""


def read_traces(
    sources: Sources,
    format: str = "auto",  # noqa: A002 - the word that users know
    *,
    retriever_tools: Iterable[str] | RetrieverTools = (),
    on_rejected: Callable[[RejectedRecord], None] | None = None,
) -> Iterator[Trace]:
    """Read the traces in files of other tools, one after another.

    It reads each format that `ragstone replay` reads. Memory does not grow with the files. Texts are not redacted.

    A record that is not a trace is skipped: it is passed to `on_rejected`, or counted in a warning of the log at the
    end. A file that is damaged from some place on ends there, the next file is read, and the error is raised at the end.

    Args:
        sources: One or several files or directories, plain, .gz or .zst.
        format: Name of the format, or "auto" to detect it.
        retriever_tools: Names of tools that retrieve and return text, or a mapping from such names to the separator
            between the passages in their results. Without it, such a result is not read as contexts.
        on_rejected: Function that receives each skipped record, with its place and the reason, and each unreadable file
            of a directory.

    Yields:
        The traces, in the order of the files. A trace id may occur several times, as in the files.

    Raises:
        ConfigurationError: If a source or the format does not exist. Like the next ones, it is raised when the first
            trace is read.
        DataError: If the format of a file is unknown, or a URL does not respond.
        DataError: After the last trace, if a file could not be read to its end.

    Examples:
        ```python
        for trace in ragstone.read_traces("spans.jsonl"):
            print(trace.trace_id, trace.query)
        ```
    """
    damaged: list[DataError] = []
    n_skipped, first = 0, None
    for record in _records(sources, format, read_retriever_tools(retriever_tools), damaged):
        if not isinstance(record, RejectedRecord):
            yield record
        elif on_rejected is not None:
            on_rejected(record)
        else:
            n_skipped, first = n_skipped + 1, first or record
    if first is not None:
        logger.warning(
            "ragstone read_traces: %d skipped, first %s: %s. Pass on_rejected to see each of them.",
            n_skipped,
            first.place,
            first.reason,
        )
    if damaged:
        more = f" So are {len(damaged) - 1} other files." if len(damaged) > 1 else ""
        raise DataError(f"{damaged[0]}. The traces before this place were read.{more}") from damaged[0]


def _records(
    sources: Sources, named: str, tools: RetrieverTools, damaged: list[DataError]
) -> Iterator[Trace | RejectedRecord]:
    """Yield what is read from each file. The errors that end a file are collected."""
    with open_inputs(sources) as found:
        files, unreadable = find_formats([replace(source, retriever_tools=tools) for source in found], named)
        yield from unreadable
        for source, detected in files:
            try:
                yield from detected.format.read(source)
            except DataError as error:
                damaged.append(error)


def trace_samples(
    data: str | os.PathLike[str], report: ReadingReport, choice: Choice
) -> Iterator[Sample | DataError] | None:
    """Return the samples of a store, or of a file or folder with traces. None for anything else, such as rows.

    A sample is a request, with the trace id. A record that cannot be read is an error. The report counts what is left
    out. Raise DataError if the file is one of Ragstone without samples, such as outcomes.
    """
    name = os.fspath(data)
    if is_database_url(name):
        return _of_store(name, report, choice)
    source = InputFile(path=Path(name), name=name)
    if source.path.is_dir():
        from ragstone.reading._row_traces import check_repeats  # most data is one file

        files, unreadable = find_formats([source], "auto")
        for each in (each for each, found in files if found.format.name == "rows"):
            check_repeats(each)
            for note in each.notes:
                report.warn(note)
        return _of_files(files, unreadable, report, choice)
    if not source.path.is_file():
        return None
    head = source.head()
    if is_store(head):
        return _of_store(name, report, choice)
    refuse_results(head, name)
    if not _may_be_traces(head):
        return None
    found = find_format(head, [each for each in all_formats().values() if each.name != "rows"])
    return None if found is None else _of_files([(source, found)], [], report, choice)


def _may_be_traces(head: bytes) -> bool:
    """Whether a file can hold traces. Most files of rows cannot, and then no reader of traces is imported."""
    if head.startswith(b"PAR1") or _BINARY.search(head[:64]) is not None:
        return True
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[") and _TRACE_NAMES.search(head) is not None


def _of_store(store: str, report: ReadingReport, choice: Choice) -> Iterator[Sample | DataError]:
    report.source, report.format = describe_store(store), "a store: one sample for each captured request"
    with open_store(store, mode="read") as opened:
        probabilities = opened.traces.inclusion_probabilities()
        for trace in opened.traces.read():
            if not is_left_out(trace, choice, report):
                weight = {_PROBABILITY: probabilities.get(trace.trace_id, 1.0)} if probabilities else {}
                yield _counted(trace, report, weight)
        if n_removed := sum(1 for _ in opened.upkeep.removed_texts()):
            report.note("left out, because their texts were removed from the store: requests", n_removed)


def _of_files(
    files: Sequence[tuple[InputFile, DetectedFormat]],
    unreadable: Sequence[RejectedRecord],
    report: ReadingReport,
    choice: Choice,
) -> Iterator[Sample | DataError]:
    for file in unreadable:
        yield DataError(f"{file.place}: {file.reason}")
    report.source = ", ".join(source.name for source, _ in files)
    names = dict.fromkeys(detected.format.name for _, detected in files)
    report.format = f"traces of {', '.join(names)} ({files[0][1].detected_by}): one sample for each request"
    report.note(f"To score them into a store: ragstone replay {shlex.quote(report.source)} --store STORE")
    for source, detected in files:
        known = IdTable()
        for record in detected.format.read(source):
            if isinstance(record, Trace):
                digest = zlib.crc32(repr((record.query, record.response)).encode("utf-8", "replace"))
                if known.add(record.trace_id, digest) == digest:
                    report.note("a request that the file holds several times, read once")
                elif not is_left_out(record, choice, report):
                    is_own = detected.format.name == "ragstone"
                    yield _counted(record, report, {_PROBABILITY: record.inclusion_probability} if is_own else {})
            elif record.is_ignored:
                report.note(f"left out: {record.reason}")
            else:
                yield DataError(f"{record.place}: {record.reason}")


def _counted(trace: Trace, report: ReadingReport, weight: Mapping[str, float]) -> Sample:
    """Return the sample of a trace, and count where its parts were found."""
    sample, evidence = sample_from_trace(trace), trace.evidence
    names = (name for name in ("query", "contexts", "response") if getattr(sample, name) is not None)
    report.use({name: "the request" if evidence is None else getattr(evidence, name) for name in names})
    if sample.contexts is not None:
        report.count_items("contexts", len(sample.contexts))
    if sample.reference:
        report.use({"reference": "the request"})
    labels = {key: value for key in _LABELS if (value := getattr(trace, key)) is not None}
    case = {name: value for name, value in (trace.model_extra or {}).items() if name == CASE}
    sample = sample.model_copy(update={"metadata": {**labels, **weight, **sample.metadata, **case}})
    if (facts := case_of(sample)) is not None and facts["estimates"] is None:
        report.note(CHOSEN_BY_SCORES)
    return sample


def find_formats(
    sources: Sequence[InputFile], named: str
) -> tuple[list[tuple[InputFile, DetectedFormat]], list[RejectedRecord]]:
    """Return the format of each file, before any is read, and the unreadable files of directories.

    A directory whose files share one format is one source, because the steps of a trace may be in several files.
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
                parts = [(replace(source, without=frozenset(file.place for file in unreadable)), parts[0][1])]
            files += parts
    return files, skipped
