"""The recorder, which accepts drafts from integrations."""

from __future__ import annotations

import atexit
import functools
import sys
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from ragstone._util.exit import run_exit_hooks
from ragstone._util.fork import after_fork_in_child
from ragstone._util.guard import Guard
from ragstone._util.variables import capture_suppressed
from ragstone.capture._application import Application
from ragstone.capture._convert import Converter
from ragstone.capture._encoded import Redactor
from ragstone.capture._feedback import make_feedback
from ragstone.capture._groups import SpoolLike
from ragstone.capture._ids import IdHasher
from ragstone.capture._redaction import redact_secrets
from ragstone.capture._writer import CaptureWriter
from ragstone.errors import ConfigurationError
from ragstone.requests import Request, TraceDraft
from ragstone.settings import Lengths, SamplingRule, check

_CLOSE_S: Final = 5.0
"""Longest wait for the spool when a recorder closes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureCounters:
    """Counts of this process's requests. At rest, `recorded = written + sampled_out + dropped + queued`."""

    recorded: int
    """Drafts passed to `record`, without suppressed ones."""
    written: int
    """Traces in the spool."""
    sampled_out: int
    """Requests that sampling skipped. The spool has their ids."""
    dropped: Mapping[str, int]
    """Requests lost before the spool, by reason."""
    queued: int
    """Drafts accepted and not yet written."""


class Capture:
    """Recorder of finished requests: accepts them from integrations and writes them to a spool on its own thread.

    `record` appends to a bounded queue and returns. One daemon thread, started by the first draft, samples, redacts,
    truncates, validates and writes the drafts in groups. `record` never raises. It never waits for a disk, except with
    `durability="sync"`.

    **What a crash can lose.** With `durability="batched"`, a draft reaches the disk within `flush_interval_s`, the time
    to write earlier groups and one `fdatasync`. `kill -9` or a power loss can lose the requests recorded within that
    window, but nothing older. With `"sync"`, `record` returns True only if the draft is on disk, and takes the time of
    an `fdatasync`, shared by all threads that record meanwhile. In both modes `flush` and `close` return whether
    everything is on disk.

    **Losses are counted** by reason in `counters`, and as `Dropped` entries in the spool as soon as it accepts lines:
    "queue_full", "closed" (when the process ends), "no_thread", "invalid", "redaction_failed", "disk_full",
    "spool_error", "deadline", "bug". Each reason is logged at most once a minute, without any text of the request.

    **Redaction** covers every text: query, response, passages, retrieval queries, references, errors, tags, keys and
    values of metadata. The default rules apply to the names of the request and of its model. Other ids and names
    (trace, run, passage) are not redacted, because users look requests up by them. `hash_id` replaces the ids of users
    and sessions. A trace whose redaction fails is dropped.

    **Sampling** hashes the trace id, so every process decides the same. Kept traces carry their
    `inclusion_probability`.

    **Forks.** A forked child starts with an empty queue, zero counters, and its own thread and spool segment. Only the
    parent writes the drafts that were queued at the fork. A fork waits until the thread has written its
    current group, at most one second.

    Args:
        spool: Factory of the spool, called on the writer's thread: `partial(SpoolWriter, directory)`.
        sample_rate: Share of traces to keep, in [0, 1], for which no rule of `sampling` applies.
        redact: Function from each text to the text to store. None stores texts unchanged.
        lengths: Maximum lengths of texts and lists.
        queue_size: Maximum number of queued drafts, with at most 64 million characters. Further drafts are dropped.
            (Each recording thread may exceed it by one.)
        durability: "batched" or "sync", see above.
        flush_interval_s: Maximum time in seconds that a draft waits for a full group.
        sync_timeout_s: Maximum time in seconds that `record` waits with "sync" before it returns False.
        batch_size: Maximum number of drafts in one write.
        clock: Function that returns Unix seconds, for feedback and `Dropped` entries.
        guard: Counter of the errors that `record` catches. By default a new one.
        sampling: Rules by application, tag and status. The first one that matches gives the share to keep.
        application: Name, release, environment and tags that all requests get.
        hash_id: Replaces the ids of users and sessions. None stores them unchanged.
        plan: Settings with which the application scores, for each request.

    Raises:
        ConfigurationError: If a value is outside its range.

    Examples:
        ```python
        with Capture(partial(SpoolWriter, "spool")) as capture:
            capture.record(TraceDraft(query="Why?", response="Because."))
        ```
    """

    def __init__(
        self,
        spool: Callable[[], SpoolLike],
        *,
        sample_rate: float = 1.0,
        redact: Redactor | None = redact_secrets,
        lengths: Lengths | None = None,
        queue_size: int = 10_000,
        durability: Literal["batched", "sync"] = "batched",
        flush_interval_s: float = 0.1,
        sync_timeout_s: float = 5.0,
        batch_size: int = 50,
        clock: Callable[[], float] = time.time,
        guard: Guard | None = None,
        application: Application | None = None,
        sampling: Sequence[SamplingRule] = (),
        hash_id: IdHasher | None = None,
        plan: dict[str, Any] | None = None,
    ) -> None:
        check("sampling", "Capture", sample_rate=sample_rate)
        check("capture", "Capture", durability=durability, queue_size=queue_size, flush_interval_s=flush_interval_s)
        if batch_size < 1 or not sync_timeout_s >= 0:
            raise ConfigurationError(
                "batch_size must be at least 1 and sync_timeout_s 0 or more, got "
                f"batch_size={batch_size!r}, sync_timeout_s={sync_timeout_s!r}"
            )
        converter = Converter(
            sample_rate=sample_rate,
            redact=redact,
            lengths=lengths or Lengths(),
            application=application,
            sampling=sampling,
            hash_id=hash_id,
            plan=plan,
        )
        self._needs_text = converter.needs_text
        self._clock = clock
        self._new_writer = functools.partial(
            CaptureWriter,
            converter=converter,
            spool_factory=spool,
            sync=durability == "sync",
            sync_timeout_s=sync_timeout_s,
            queue_size=queue_size,
            batch_size=batch_size,
            flush_interval_s=flush_interval_s,
            clock=clock,
        )
        self._writer = self._new_writer()
        self._guard = guard or Guard()
        self._closes_at_exit: Callable[[], None] | None = None
        after_fork_in_child(self._after_fork)

    def record(self, draft: TraceDraft | Request) -> bool:
        """Record a finished request. Never raises, and never blocks with "batched".

        Safe from any thread, from signal handlers and from finalizers. Do not change the draft afterwards. If sampling
        skips a request, only its id is kept. The draft of a `Request` is assembled on the writer's thread.

        Returns:
            True if the draft was accepted ("batched") or is on disk ("sync"). False if it was dropped and counted, if
            the caller runs inside `suppress_capture()`, or, with "sync", if the disk did not confirm in time.
        """
        try:
            if capture_suppressed():
                return False
            if self._closes_at_exit is None:
                self._close_at_exit()
            if not self._needs_text(draft):
                about = draft.draft if isinstance(draft, Request) else draft
                # Without texts, and with what decides about the rate.
                draft = TraceDraft(
                    trace_id=about.trace_id,
                    started_at=about.started_at,
                    app=about.app,
                    tags=about.tags,
                    status=about.status,
                )
            return self._writer.put(draft)
        except Exception as error:  # noqa: BLE001 - the application must continue after any error
            self._guard.count("record", error)
            return False

    def feedback(self, request_id: object, value: object, *, comment: object = None) -> bool:
        """Record what a user said about an answer. It is not sampled, and its comment is redacted.

        Args:
            request_id: Id of the trace, or the OpenTelemetry trace id. Its request may arrive later.
            value: A number from 0 (bad) to 1 (good). True and False are 1 and 0.
            comment: Text of the user. At most 4,000 characters are stored.

        Returns:
            As `record`. Lost feedback is not counted.

        Raises:
            DataError: If a value has another type or is out of range.
        """
        draft = make_feedback(request_id, value, comment, given_at=self._clock())
        try:
            if self._closes_at_exit is None:
                self._close_at_exit()
            return self._writer.put(draft)
        except Exception as error:  # noqa: BLE001 - the application must continue after any error
            self._guard.count("feedback", error)
            return False

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything recorded before is on disk.

        Args:
            timeout_s: Maximum time to wait in seconds.

        Returns:
            True if everything is on disk. False after the timeout, or if a draft accepted since the last flush was
            lost. `counters` has the reason, and everything else is on disk.
        """
        return self._writer.flush(timeout_s)

    def close(self, timeout_s: float = _CLOSE_S) -> bool:
        """Reject new drafts, write the queue and end the thread. Idempotent, and called automatically at exit.

        Args:
            timeout_s: Maximum time to wait in seconds. Drafts still queued then are dropped and counted.

        Returns:
            Whether everything accepted since the last flush is on disk.
        """
        if self._closes_at_exit is not None:
            atexit.unregister(self._closes_at_exit)
        _closed.add(self)
        return self._writer.close(timeout_s)

    @property
    def pending(self) -> int:
        """Drafts accepted and not yet written."""
        return self._writer.pending

    @property
    def counters(self) -> CaptureCounters:
        """The counts of this process so far."""
        writer = self._writer
        return CaptureCounters(
            recorded=writer.recorded.value(),
            written=writer.groups.written,
            sampled_out=writer.groups.sampled_out,
            dropped=writer.drops.counts(),
            queued=writer.pending,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _close_at_exit(self) -> None:
        # With weak references, and only after the first draft, so that an unused recorder can be garbage-collected.
        self._closes_at_exit = close = functools.partial(_close, weakref.ref(self), weakref.ref(self._writer))
        atexit.register(close)
        # A multiprocessing child ends without running `atexit` callbacks.
        multiprocessing = sys.modules.get("multiprocessing.util")
        if multiprocessing is not None:
            multiprocessing.Finalize(None, close, exitpriority=0)

    def _after_fork(self) -> None:
        """Replace the parent's queue, locks, thread and segment in a forked child."""
        closed = self._writer.closed
        self._writer = self._new_writer()
        self._closes_at_exit = None  # multiprocessing clears it in a child
        if closed:
            self._writer.reject_all()


_closed: Final[weakref.WeakSet[Capture]] = weakref.WeakSet()


@atexit.register
def _report_rejected() -> None:
    """Write how many requests came after `close`. This is registered first, so it is called last."""
    for capture in list(_closed):
        capture._guard.attempt(capture._writer.report_losses)  # noqa: SLF001 - our own class


def _close(reference: weakref.ref[Capture], used: weakref.ref[CaptureWriter]) -> None:
    run_exit_hooks()
    capture, writer = reference(), used()
    if capture is not None:
        capture._guard.attempt(capture.close)  # noqa: SLF001 - our own class
    elif writer is not None:
        # The application has dropped the recorder, but its thread has the queue. In a forked child, it does not run.
        writer.close(_CLOSE_S)
