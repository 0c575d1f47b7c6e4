"""The recorder: what integrations hand their drafts to."""

from __future__ import annotations

import atexit
import functools
import sys
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Self

from ragstone._util.exit import run_exit_hooks
from ragstone._util.fork import after_fork_in_child
from ragstone._util.guard import Guard
from ragstone._util.suppress import capture_suppressed
from ragstone.capture._convert import CaptureLimits, Converter
from ragstone.capture._groups import SpoolLike
from ragstone.capture._redaction import Redactor, redact_secrets
from ragstone.capture._writer import CaptureWriter
from ragstone.errors import ConfigurationError
from ragstone.requests import Request, TraceDraft

__all__ = ["Capture", "CaptureCounters"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureCounters:
    """What became of the requests of this process; at rest `recorded = written + sampled_out + dropped + queued`."""

    recorded: int
    """Drafts handed to `record`, suppressed ones apart."""
    written: int
    """Traces in the spool."""
    sampled_out: int
    """Left out by sampling; the spool has their ids."""
    dropped: Mapping[str, int]
    """Lost, by reason."""
    queued: int
    """Accepted and not yet written."""


class Capture:
    """Takes finished requests from integrations and writes them to a spool, off the application's threads.

    `record` appends to a bounded queue and returns. One daemon thread, started by the first draft, samples, redacts,
    cuts, validates and writes them in groups. Nothing here ever raises at the application or waits for a disk, unless
    `durability="sync"` asks for it.

    **What a crash can lose.** With `durability="batched"` a draft is on disk at the latest `flush_interval_s` plus the
    time of writing the groups before it and one `fdatasync` after `record` returned; `kill -9` or a loss of power can
    lose what was recorded within that window, and nothing older. With `"sync"`, `record` returns True only for what is on disk,
    and takes the time of an `fdatasync` (shared by all threads that record meanwhile). Either way `flush` and `close`
    say whether everything is.

    **Losses are counted**, by reason, in `counters` and, as soon as the spool takes them, as `Dropped` entries in the
    spool: "queue_full", "closed" (counted here only), "no_thread", "invalid", "redaction_failed", "disk_full",
    "spool_error", "deadline", "bug". Each reason is logged at most once a minute, without any text of the request.

    **Redaction** covers every text: query, response, passages, search queries, references, errors, tags, keys and
    values of metadata. Ids and names (trace, run, session, user, passage, model) are kept as they are, because requests
    are found by them: do not use an e-mail address as `user_id`. A trace whose redaction fails is dropped.

    **Sampling** hashes the trace id, so it is the same in every process; kept traces carry their
    `inclusion_probability`.

    **Forks.** A forked child starts with an empty queue, zero counters, and a thread and spool segment of its own; what
    is queued at the fork is written by the parent alone.

    Args:
        spool: Makes what lines are written to, called on the writer's thread: `partial(SpoolWriter, directory)`.
        sample_rate: Share of traces to keep, in [0, 1].
        redact: Takes each text and returns what may be stored; None stores texts as they are.
        limits: Upper bounds for one trace.
        queue_size: Drafts that may wait, with at most 64 million characters; more are dropped. (Each recording thread may
            exceed it by one.)
        durability: "batched" or "sync", see above.
        flush_interval_s: How long a draft waits for others to share its write with.
        sync_timeout_s: How long `record` waits with "sync" before it returns False.
        batch_size: Most drafts in one write.
        clock: Unix seconds, for `Dropped` entries.
        guard: Counts errors that are stopped here; one of its own by default.

    Raises:
        ConfigurationError: A value is outside its range.

    Example:
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
        limits: CaptureLimits | None = None,
        queue_size: int = 10_000,
        durability: Literal["batched", "sync"] = "batched",
        flush_interval_s: float = 0.1,
        sync_timeout_s: float = 5.0,
        batch_size: int = 50,
        clock: Callable[[], float] = time.time,
        guard: Guard | None = None,
    ) -> None:
        if not 0 <= sample_rate <= 1:
            raise ConfigurationError(
                f"sample_rate must be a share from 0 (keep none) to 1 (keep all), got {sample_rate!r}"
            )
        if durability not in ("batched", "sync"):
            raise ConfigurationError(f'durability must be "batched" or "sync", got {durability!r}')
        for name, value in (("queue_size", queue_size), ("batch_size", batch_size)):
            if value < 1:
                raise ConfigurationError(f"{name} must be at least 1, got {value!r}; leave it out for the default")
        for name, seconds in (("flush_interval_s", flush_interval_s), ("sync_timeout_s", sync_timeout_s)):
            if not seconds >= 0:
                raise ConfigurationError(
                    f"{name} must be 0 or more seconds, got {seconds!r}; leave it out for the default"
                )
        converter = Converter(sample_rate=sample_rate, redact=redact, limits=limits or CaptureLimits())
        self._is_sampled = converter.is_sampled
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
        """Take over a finished request: never raises, and with "batched" never blocks.

        Safe from any thread, from signal handlers and from finalisers. The draft must not be changed afterwards. Of a
        request that sampling leaves out only the id is kept. The draft of a `Request` is assembled on the writer's thread.

        Returns:
            True when it was accepted ("batched") or is on disk ("sync"); False when it was dropped and counted, when
            the caller runs inside `suppress_capture()`, or, with "sync", when the disk did not confirm in time.
        """
        try:
            if capture_suppressed():
                return False
            if self._closes_at_exit is None:
                self._close_at_exit()
            if not self._is_sampled(draft):
                about = draft.draft if isinstance(draft, Request) else draft
                draft = TraceDraft(trace_id=about.trace_id, started_at=about.started_at)
            return self._writer.put(draft)
        except Exception as error:  # noqa: BLE001 - whatever it is, the application goes on
            self._guard.count("record", error)
            return False

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until everything recorded before is on disk.

        Args:
            timeout_s: Seconds to wait at most.

        Returns:
            True when all of it is. False when the time ran out, or when something that was accepted since the last
            flush was lost (`counters` says why); then what was not lost is on disk.
        """
        return self._writer.flush(timeout_s)

    def close(self, timeout_s: float = 5.0) -> bool:
        """Accept nothing more, write what is queued and end the thread; idempotent, and done at exit by itself.

        Args:
            timeout_s: Seconds to wait at most; what is still queued then is dropped and counted.

        Returns:
            Whether everything accepted since the last flush is on disk.
        """
        if self._closes_at_exit is not None:
            atexit.unregister(self._closes_at_exit)
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
        # By weak reference, and only once there is something to lose: an unused recorder can be collected.
        self._closes_at_exit = close = functools.partial(_close, weakref.ref(self))
        atexit.register(close)
        # A multiprocessing child ends without running what `atexit` holds.
        multiprocessing = sys.modules.get("multiprocessing.util")
        if multiprocessing is not None:
            multiprocessing.Finalize(None, close, exitpriority=0)

    def _after_fork(self) -> None:
        """In a forked child: nothing of the parent's queue, locks, thread and segment is used again."""
        closed = self._writer.closed
        self._writer = self._new_writer()
        self._closes_at_exit = None  # multiprocessing forgets it in a child
        if closed:
            self._writer.reject_all()


def _close(reference: weakref.ref[Capture]) -> None:
    run_exit_hooks()
    capture = reference()
    if capture is not None:
        capture._guard.attempt(capture.close)  # noqa: SLF001 - our own class
