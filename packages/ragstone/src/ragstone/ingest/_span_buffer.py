"""Buffer of received spans, until their trace is complete and moves to the store."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from ragstone._util.clock import steady_time
from ragstone._util.filelock import FileLock
from ragstone.capture import IdHasher, Redactor, redact_secrets
from ragstone.errors import StoreOwnedError
from ragstone.reading import BufferedSpan, BufferedTrace, RejectedRecord, SpanBuffer
from ragstone.reading.otlp import traces_of
from ragstone.replay import ignored_entries, redacted
from ragstone.requests import RetrieverTools
from ragstone.schema import Captured, Ignored, Trace
from ragstone.store import Store
from ragstone.worker import StepErrors

logger = logging.getLogger("ragstone")

_BATCH: Final = 100
_BATCH_BYTES: Final = 32 * 2**20
_LOG_S: Final = 60.0


class SharedSpanBuffer:
    """Spans on disk, used by the receiver and the worker from different threads. They survive a crash of the process.

    Raise StoreOwnedError if another process uses this file. Raise StoreError if the file cannot be created or used.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = steady_time) -> None:
        # With most SQLite versions in use, two processes that write one file in WAL mode can damage it.
        self._file_lock = FileLock(f"{os.fspath(path)}.lock")
        if not self._file_lock.acquire():
            raise StoreOwnedError(
                f"another `ragstone ingest` (process {self._file_lock.owner()}) uses the span buffer {os.fspath(path)!r}"
            )
        try:
            self._buffer = SpanBuffer(path, clock=clock)
        except BaseException:
            self._file_lock.release()
            raise
        self._lock = threading.Lock()

    def add(self, spans: Iterable[BufferedSpan]) -> int:
        """Write spans to disk, and return the number of new ones. Raise StoreError if the spans cannot be written."""
        with self._lock:
            return self._buffer.add(spans)

    def settled(self, *, untouched_since: float, rooted_since: float, limit: int) -> list[BufferedTrace]:
        """Return traces that appear complete, in the order of their first spans."""
        traces: list[BufferedTrace] = []
        n_bytes = 0
        with self._lock:
            complete = self._buffer.traces(untouched_since=untouched_since, rooted_since=rooted_since)
            for trace in islice(complete, limit):
                traces.append(trace)
                n_bytes += sum(map(len, trace.spans))
                if n_bytes > _BATCH_BYTES:
                    break
        return traces

    def forget(self, seqs: list[int]) -> None:
        """Remove traces that were moved to the store. Raise StoreError if the file cannot be written."""
        with self._lock:
            self._buffer.forget(seqs)

    def __len__(self) -> int:
        """Return the number of buffered traces."""
        with self._lock:
            return len(self._buffer)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._buffer.close()
            self._file_lock.release()


class OtlpTraceSource:
    """Moves complete traces from the span buffer to the store.

    OTLP does not have an end-of-trace signal: each process exports its spans in batches after they end. A trace with a
    root span counts as complete after `idle_timeout_s` without a new span, a trace without one after
    `rootless_timeout_s`. Spans that arrive later are counted but not used. `retriever_tools` are names of tools whose
    text results are passages, with the separator between passages. Spans are redacted when they arrive. `redact` (None:
    unchanged) is for their requests, because a request may join texts of several spans. `hash_id` replaces the ids of
    users and sessions (None: unchanged). `clock` returns Unix seconds.
    """

    may_have_more = True
    """True, because applications may always send more spans."""

    def __init__(
        self,
        buffer: SharedSpanBuffer,
        *,
        idle_timeout_s: float = 10.0,
        rootless_timeout_s: float = 300.0,
        retriever_tools: RetrieverTools | None = None,
        redact: Redactor | None = redact_secrets,
        hash_id: IdHasher | None = None,
        clock: Callable[[], float] = steady_time,
    ) -> None:
        self._buffer = buffer
        self._idle_timeout_s = idle_timeout_s
        self._rootless_timeout_s = rootless_timeout_s
        self._redact = redact
        self._hash_id = hash_id
        self._retriever_tools = dict(retriever_tools or {})
        self._clock = clock
        self._log_next = 0.0
        # A unique name, because receivers of several hosts may share a store.
        self._segment = f"otlp-{uuid.uuid4().hex[:16]}"
        self._offset = 0
        self.n_requests = 0
        """Number of requests moved to the store."""
        self.n_late = 0
        """Number of requests whose trace was already in the store: late spans."""
        self.n_others = 0
        """Number of traces that are not RAG requests."""
        self._example = ""
        self.others: Counter[str] = Counter()
        """Reasons why traces are not RAG requests, the most frequent ones."""

    def transfer_batch(self, store: Store, errors: StepErrors) -> int:
        """Move a batch of traces, and return its size."""
        now = self._clock()
        empty: list[BufferedTrace] = []
        complete = errors.run_step(
            "read spans",
            lambda: self._buffer.settled(
                untouched_since=now - self._rootless_timeout_s, rooted_since=now - self._idle_timeout_s, limit=_BATCH
            ),
            empty,
        )
        if not complete:
            self._report()
            return 0
        stored: bool = errors.run_step("store traces", lambda: self._store(complete, store), otherwise=False)
        if stored:
            # If the process is killed before this, the traces are moved again, and the store ignores known ids.
            errors.run_step("remove spans", lambda: self._buffer.forget([trace.seq for trace in complete]), None)
        self._report()
        return len(complete)

    def _store(self, complete: list[BufferedTrace], store: Store) -> bool:
        traces: list[Trace] = []
        rejected: list[RejectedRecord] = []
        for trace in complete:
            for item in redacted(traces_of(trace, self._retriever_tools), self._redact, self._hash_id):
                if isinstance(item, Trace):
                    traces.append(item)
                else:
                    rejected.append(item)
        # The offset only needs to increase, because the store identifies traces by their ids.
        self._offset += 1
        entries: list[Captured | Ignored] = [*(Captured(trace=trace) for trace in traces), *ignored_entries(rejected)]
        n_new = store.traces.ingest(self._segment, self._offset, entries)
        self.n_requests += n_new
        self.n_late += len(traces) - n_new
        self.n_others += len(rejected)
        self.others.update(item.reason for item in rejected)
        self._example = rejected[-1].place if rejected else self._example
        if len(self.others) > _BATCH:
            self.others = Counter(dict(self.others.most_common(_BATCH // 2)))
        return True

    def _report(self) -> None:
        if not (self.n_others or self.n_late) or time.monotonic() < self._log_next:
            return
        self._log_next = time.monotonic() + _LOG_S
        most_common = self.others.most_common(1)
        logger.info(
            "ragstone ingest: %d requests stored, %d traces are not RAG requests%s, %d requests late",
            self.n_requests,
            self.n_others,
            f" (most often: {most_common[0][0]}; the last one: {self._example})" if most_common else "",
            self.n_late,
        )
