"""Import of trace files into a store: each trace once, resumed where the last run ended."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import islice
from typing import Final

from ragstone.errors import DataError
from ragstone.reading import DetectedFormat, InputFile, RejectedRecord
from ragstone.schema import Captured, Ignored, Trace
from ragstone.store import Store
from ragstone.worker import StepErrors

logger = logging.getLogger("ragstone")

_BATCH: Final = 200
_KEPT: Final = 20


@dataclass(slots=True, kw_only=True)
class FileReport:
    """The counts of one file."""

    name: str
    format: str
    detected_by: str
    """Evidence for the format."""
    n_read: int = 0
    """Records read so far, including earlier runs."""
    n_new: int = 0
    """Traces added to the store in this run."""
    n_known: int = 0
    """Traces that were already known to the store, from an earlier run, from live capture or from an earlier row."""
    n_sampled_out: int = 0
    """Those of the known ones that the application sampled out."""
    n_erased: int = 0
    """Those of the known ones that were erased."""
    n_clashing: int = 0
    """Traces skipped because the store has another trace with the same id."""
    n_rejected: int = 0
    rejected: list[RejectedRecord] = field(default_factory=list)
    """The first rejected records, with the reason."""
    damaged: str | None = None
    """Why reading stopped before the end of the file."""
    notes: list[str] = field(default_factory=list)
    """The reading report of a file of rows, in lines."""

    def reject(self, record: RejectedRecord) -> None:
        """Count a rejected record, and keep the first ones."""
        self.n_rejected += 1
        if len(self.rejected) < _KEPT:
            self.rejected.append(record)


def report_of(source: InputFile, found: DetectedFormat) -> FileReport:
    """Return the report of a file that is not read yet."""
    return FileReport(name=source.name, format=found.format.name, detected_by=found.detected_by, notes=source.notes)


class ReplayTraceSource:
    """Import of files, one after another, in batches.

    The store saves the position in each file and the traces in one transaction. A later run resumes there, and only
    compares the records of earlier runs with the store.
    `clean` changes them before they are stored.
    """

    def __init__(
        self,
        files: Sequence[tuple[InputFile, DetectedFormat]],
        *,
        clean: Callable[[Iterator[Trace | RejectedRecord]], Iterator[Trace | RejectedRecord]] = iter,
    ) -> None:
        self.counts = [report_of(*file) for file in files]
        self._clean = clean
        self._waiting = list(zip(files, self.counts, strict=True))
        self._records: Iterator[Trace | RejectedRecord] | None = None
        self._batch: list[Trace | RejectedRecord] = []
        self._segment, self._n_earlier = "", 0

    @property
    def may_have_more(self) -> bool:
        """Return whether there is more to read."""
        return bool(self._waiting)

    def transfer_batch(self, store: Store, errors: StepErrors) -> int:
        """Import a batch of the current file, and return the number of records read.

        If the store rejects the batch, the next call tries it again.
        """
        if not self._waiting:
            return 0
        (source, found), counts = self._waiting[0]
        if not self._batch:
            known = (
                errors.run_step("read how far files were taken in", store.traces.segment_offsets, None)
                if self._records is None
                else {}
            )
            if known is None:
                return 0
            self._read(source, found, counts, known)
        batch = self._batch
        if batch:
            if errors.run_step("store traces", lambda: self._store(batch, counts, store), None) is None:
                return 0
            self._batch = []
        else:
            if counts.damaged is not None:
                logger.error("ragstone replay: %s; what came before is kept", counts.damaged)
            self._waiting.pop(0)
            self._records = None
        return max(1, len(batch))

    def _read(self, source: InputFile, found: DetectedFormat, counts: FileReport, offsets: Mapping[str, int]) -> None:
        """Return the next batch. It is empty at the end of the file, or where the file becomes unreadable."""
        try:
            if self._records is None:
                self._segment = _segment(source, found)
                self._n_earlier = offsets.get(self._segment, 0)
                self._records = self._clean(found.format.read(source))
            # One by one, so that the records before a damaged part are kept.
            n_left = self._n_earlier - counts.n_read
            self._batch.extend(islice(self._records, min(n_left, _BATCH) if n_left > 0 else _BATCH))
        except (DataError, OSError) as error:
            counts.damaged = str(error) if isinstance(error, DataError) else f"{source.name!r} cannot be read: {error}"

    def _store(self, batch: Sequence[Trace | RejectedRecord], counts: FileReport, store: Store) -> bool:
        fresh, n_known, clashing = _split_known([record for record in batch if isinstance(record, Trace)], store)
        ignored = ignored_entries(record for record in batch if isinstance(record, RejectedRecord))
        entries: list[Captured | Ignored] = [*(Captured(trace=trace) for trace in fresh), *ignored]
        n_new = 0
        if counts.n_read >= self._n_earlier:
            # A concurrent replay of this file into the same database may be ahead.
            n_new = store.traces.ingest(self._segment, counts.n_read + len(batch), entries)
        counts.n_read += len(batch)
        counts.n_new += n_new
        counts.n_known += n_known + len(fresh) - n_new
        if len(fresh) > n_new:
            found = [store.traces.explain(trace.trace_id) for trace in fresh]
            counts.n_sampled_out += sum(each is not None and each.state == "sampled_out" for each in found)
            counts.n_erased += found.count(None)
        counts.n_clashing += len(clashing)
        for record in batch:
            if isinstance(record, RejectedRecord):
                counts.reject(record)
        for trace_id in clashing:
            logger.warning(
                "ragstone replay: %s has a trace %r, and the store has another one of that id: left out",
                counts.name,
                trace_id[:80],
            )
        return True


def ignored_entries(rejected: Iterable[RejectedRecord]) -> list[Ignored]:
    """Count the records that are not requests, by reason, each reason with an example."""
    found: dict[str, list[str]] = {}
    for record in rejected:
        if record.is_ignored:
            found.setdefault(record.reason, []).append(record.place)
    return [Ignored(reason=reason, n=len(places), example=places[-1]) for reason, places in found.items()]


def _split_known(traces: Sequence[Trace], store: Store) -> tuple[list[Trace], int, list[str]]:
    """Return the new traces, the number of known traces, and the ids that other traces in the store have."""
    stored = store.traces.get_many([trace.trace_id for trace in traces])
    fresh: dict[str, Trace] = {}
    n_known, clashing = 0, []
    for trace in traces:
        other = fresh.get(trace.trace_id) or stored.get(trace.trace_id)
        if other is None:
            fresh[trace.trace_id] = trace
        elif _content(other, of=trace) == _content(trace, of=other):
            n_known += 1
        else:
            clashing.append(trace.trace_id)
    return list(fresh.values()), n_known, clashing


def _content(trace: Trace, *, of: Trace) -> tuple[object, ...]:
    """Return what traces of one id have in common, even if their sources differ. Rows have the same texts."""
    texts = None if trace.contexts is None else [passage.text for passage in trace.contexts]
    return trace.query, trace.response, *((texts, trace.reference) if trace.source == of.source == "rows" else ())


def _segment(source: InputFile, found: DetectedFormat) -> str:
    """Return an identifier of a file or directory in its current state, its format, and the version of its reader.

    If any of these changes, the file is read again, because the saved number of records refers to other records.
    """
    known_by = f"{source.identity or source.path.resolve()}|{found.format.name}|{version('ragstone')}"
    digest = hashlib.sha256(known_by.encode("utf-8", "surrogateescape"))
    for part in source.parts():
        if source.identity:
            # A copy of standard input is a new file each time, and one of the same size need not be the same.
            with part.path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        else:
            stat = part.path.stat()
            digest.update(f"|{stat.st_size}|{stat.st_mtime_ns}".encode())
    return f"replay-{digest.hexdigest()[:24]}"
