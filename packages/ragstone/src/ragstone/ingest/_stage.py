"""Spans that were received, until their trace is whole and goes into the store."""

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

from ragstone._util.filelock import FileLock
from ragstone.errors import StoreOwnedError
from ragstone.replay import BufferedSpan, BufferedTrace, RejectedRecord, SpanBuffer
from ragstone.replay.otlp import traces_of
from ragstone.schema import Captured, Trace
from ragstone.store import Store
from ragstone.worker import StepErrors

__all__ = ["OtlpTraceSource", "SharedSpanBuffer"]

logger = logging.getLogger("ragstone")

_BATCH: Final = 100
_BATCH_BYTES: Final = 32 * 2**20
_LOG_S: Final = 60.0


class SharedSpanBuffer:
    """A stage on disk that the receiver fills and the worker empties, each on threads of their own.

    Args:
        path: The file; spans in it survive the death of the process.
        clock: Unix seconds.

    Raises:
        StoreOwnedError: Another process receives into this file.
        StoreError: The file cannot be made or used.
    """

    def __init__(self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time) -> None:
        # Two processes that write one file in WAL mode can damage it, with most versions of SQLite in use.
        self._file_lock = FileLock(f"{os.fspath(path)}.lock")
        if not self._file_lock.acquire():
            raise StoreOwnedError(
                f"another `ragstone ingest` (process {self._file_lock.owner()}) keeps its spans in {os.fspath(path)!r}"
            )
        try:
            self._stage = SpanBuffer(path, clock=clock)
        except BaseException:
            self._file_lock.release()
            raise
        self._lock = threading.Lock()

    def add(self, spans: Iterable[BufferedSpan]) -> int:
        """Keep spans; they are on the disk when this returns.

        Raises:
            StoreError: The disk does not take them.
        """
        with self._lock:
            return self._stage.add(spans)

    def settled(self, *, untouched_since: float, rooted_since: float, limit: int) -> list[BufferedTrace]:
        """Traces that seem whole, in the order in which they began to come."""
        traces: list[BufferedTrace] = []
        n_bytes = 0
        with self._lock:
            found = self._stage.traces(untouched_since=untouched_since, rooted_since=rooted_since)
            for trace in islice(found, limit):
                traces.append(trace)
                n_bytes += sum(map(len, trace.spans))
                if n_bytes > _BATCH_BYTES:
                    break
        return traces

    def forget(self, seqs: list[int]) -> None:
        """Drop traces that have gone on.

        Raises:
            StoreError: The disk does not take it.
        """
        with self._lock:
            self._stage.forget(seqs)

    def __len__(self) -> int:
        """How many traces wait."""
        with self._lock:
            return len(self._stage)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._stage.close()
            self._file_lock.release()


class OtlpTraceSource:
    """Moves traces from the stage into the store when they are whole.

    Nobody says when a trace has ended: exporters send spans when they end, in batches, and each process its own. A trace
    with its root counts as whole when nothing came for `idle_timeout_s`, one without when nothing came for `rootless_timeout_s`. Spans
    that come later are left out, and counted.

    Args:
        stage: Where the spans are.
        idle_timeout_s: Seconds, of a trace whose root is there.
        rootless_timeout_s: Seconds, of any trace.
        clock: Unix seconds.
    """

    may_have_more = True
    """There is always another request."""

    def __init__(
        self,
        stage: SharedSpanBuffer,
        *,
        idle_timeout_s: float = 10.0,
        rootless_timeout_s: float = 300.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stage = stage
        self._settle_s = idle_timeout_s
        self._give_up_s = rootless_timeout_s
        self._clock = clock
        self._log_next = 0.0
        # Of its own: the offsets of another host's receiver, in a store they share, are not ours.
        self._segment = f"otlp-{uuid.uuid4().hex[:16]}"
        self._offset = 0
        self.n_requests = 0
        """Requests that went into the store."""
        self.n_late = 0
        """Requests of traces that were in the store before: spans that came after the trace had gone on."""
        self.n_others = 0
        """Traces that are no RAG requests."""
        self.others: Counter[str] = Counter()
        """Why not, of the most frequent reasons."""

    def transfer_batch(self, store: Store, troubles: StepErrors) -> int:
        """Move a batch; how many traces that was."""
        now = self._clock()
        none: list[BufferedTrace] = []
        staged = troubles.run_step(
            "read spans",
            lambda: self._stage.settled(
                untouched_since=now - self._give_up_s, rooted_since=now - self._settle_s, limit=_BATCH
            ),
            none,
        )
        if not staged:
            self._report()
            return 0
        stored: bool = troubles.run_step("store traces", lambda: self._store(staged, store), otherwise=False)
        if stored:
            # Killed before this, they come again: the store knows them by their ids.
            troubles.run_step("forget spans", lambda: self._stage.forget([trace.seq for trace in staged]), None)
        self._report()
        return len(staged)

    def _store(self, staged: list[BufferedTrace], store: Store) -> bool:
        traces: list[Trace] = []
        rejected: list[RejectedRecord] = []
        for trace in staged:
            for item in traces_of(trace):
                (traces if isinstance(item, Trace) else rejected).append(item)  # type: ignore[arg-type]
        # The offset only has to grow: what came before is known by its trace id.
        self._offset += 1
        n_new = store.ingest(self._segment, self._offset, [Captured(trace=trace) for trace in traces])
        self.n_requests += n_new
        self.n_late += len(traces) - n_new
        self.n_others += len(rejected)
        self.others.update(item.reason for item in rejected)
        if len(self.others) > _BATCH:
            self.others = Counter(dict(self.others.most_common(_BATCH // 2)))
        return True

    def _report(self) -> None:
        if not (self.n_others or self.n_late) or time.monotonic() < self._log_next:
            return
        self._log_next = time.monotonic() + _LOG_S
        often = self.others.most_common(1)
        logger.info(
            "ragstone ingest: %d requests taken in, %d traces that are no RAG requests%s, %d that came late",
            self.n_requests,
            self.n_others,
            f" (most often: {often[0][0]})" if often else "",
            self.n_late,
        )
