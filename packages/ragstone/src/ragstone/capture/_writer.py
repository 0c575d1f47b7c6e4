"""The queue of drafts and the thread that writes them."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Final

from ragstone._util.fork import NoFork
from ragstone._util.tally import AtomicCounter
from ragstone.capture._convert import Converter
from ragstone.capture._feedback import FeedbackDraft
from ragstone.capture._groups import BatchWriter, DropCounter, DropReason, Recorded, SpoolLike
from ragstone.requests import text_size

_NEVER: Final = 2**62
_RETRY_S: Final = 1.0
"""Interval of retries on a failed spool while losses are unreported and no new requests arrive."""

_UNMEASURED: Final = 8
"""Queue length up to which sizes are not counted. A running request holds at most 4 million characters."""
_MAX_MEASURED_CHARS: Final = 32_000_000
"""Maximum number of characters of all further items in the queue. Together with the others at most 64 million."""


@dataclass(slots=True, eq=False)
class _Measured:
    """A queued request and the number of characters that it holds."""

    draft: Recorded
    chars: int


@dataclass(slots=True, eq=False)
class _FlushRequest:
    """A queue item that a caller waits for: for its draft, or without one, for everything before it in the queue."""

    draft: Recorded | None
    done: threading.Event = field(default_factory=threading.Event)
    on_disk: bool = False
    abandoned: bool = False  # the caller has stopped waiting


class CaptureWriter:
    """A bounded queue, lock-free for producers, and the daemon thread that writes it to a spool.

    Garbage collection and signal handlers can call `put` between any two steps of a thread that is inside `put` itself.
    So `put` must not wait for a lock: the queue is a `deque`, counts are `AtomicCounter`, and a `SimpleQueue`, which is
    re-entrant, wakes the thread.
    """

    def __init__(
        self,
        *,
        converter: Converter,
        spool_factory: Callable[[], SpoolLike],
        sync: bool,
        sync_timeout_s: float,
        queue_size: int,
        batch_size: int,
        flush_interval_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._sync = sync
        self._sync_timeout_s = sync_timeout_s
        self._queue_size = queue_size
        self._batch_size = batch_size
        self._flush_interval_s = flush_interval_s

        self.drops = DropCounter()
        self.recorded = AtomicCounter()
        self.groups = BatchWriter(converter=converter, spool_factory=spool_factory, drops=self.drops, clock=clock)
        self._queue: deque[_Item] = deque()
        # Any thread adds, only the writer's thread subtracts. A lost addition admits at most one extra request.
        self._chars_put = 0
        self._chars_taken = 0
        self._wake: SimpleQueue[None] = SimpleQueue()
        self._wake_at = _NEVER  # queue length from which `put` wakes the thread; set by the thread only
        self._hurry = False  # a caller waits: do not wait for a full group
        self._closed = False
        self._finished = False  # the thread has ended: any thread counts the rest of the queue as dropped
        self._lost = False  # a draft accepted since the last flush may not be on disk; set by the thread only
        self._starting = threading.Lock()
        self._no_fork = NoFork()
        self._thread: threading.Thread | None = None

    @property
    def closed(self) -> bool:
        """Whether new drafts are rejected."""
        return self._closed

    @property
    def pending(self) -> int:
        """Drafts accepted and not yet written or dropped."""
        return len(self._queue) + self.groups.in_hand

    def reject_all(self) -> None:
        """Reject all drafts without starting a thread, for the forked child of a closed parent."""
        self._closed = True

    def put(self, draft: Recorded) -> bool:
        """Accept a draft. Return False if it was dropped or, with `sync`, may not be on disk."""
        if not isinstance(draft, FeedbackDraft):
            self.recorded.add()
        if self._closed:
            return self._drop("closed", draft)
        item: _Item = draft
        is_full = len(self._queue) >= self._queue_size
        if not is_full and len(self._queue) >= _UNMEASURED and not self._sync:
            item = _Measured(draft, len(draft.comment or "") if isinstance(draft, FeedbackDraft) else text_size(draft))
            is_full = self._chars_put - self._chars_taken + item.chars > _MAX_MEASURED_CHARS
        if is_full:
            self._drop("queue_full", draft)
            self.drops.log("queue_full", "requests arrive faster than the spool can write them")
            return False
        if self._thread is None and not self._start():
            return self._drop("no_thread", draft)
        if self._sync:
            return self._wait_for(_FlushRequest(draft), self._sync_timeout_s)
        if isinstance(item, _Measured):
            self._chars_put += item.chars
        self._queue.append(item)
        if len(self._queue) >= self._wake_at:
            self._wake.put(None)
        # The thread sets `_finished` before it empties the queue, and this thread appends before it checks. So one of
        # them finds the draft.
        return not (self._finished and self._drop_queued("closed"))

    def flush(self, timeout_s: float) -> bool:
        """Wait until all drafts accepted before are on disk."""
        if self._thread is None and not (self._queue and self._start()):
            return not self._queue
        if self._finished:
            return not self._lost
        return self._wait_for(_FlushRequest(None), timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Reject new drafts, write the queue and end the thread. At the timeout, the rest of the queue is dropped."""
        self._closed = True
        self._wake.put(None)
        if self._queue and self._thread is None:
            self._start()
        thread = self._thread
        if thread is None:
            return not self._drop_queued("no_thread")
        if thread is not threading.current_thread():
            thread.join(max(0.0, timeout_s))
        if thread.is_alive():
            n = self._drop_queued("deadline")
            self.drops.log("deadline", f"close timed out after {timeout_s} s with {n} traces in the queue")
            return False
        return not self._lost

    def report_losses(self) -> None:
        """Write the losses since the end of the thread, or without a thread, for the end of the process."""
        if self._closed and (self._finished or self._thread is None) and self.drops.unreported():
            self.groups.write([])
            self.groups.close()

    def _start(self) -> bool:
        """Start the thread, unless another caller is starting it. Return False if the system refuses."""
        if not self._starting.acquire(blocking=False):  # another thread, or this one further up its stack
            return True
        try:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="ragstone-capture", daemon=True)
                thread.start()
                self._thread = thread
        except RuntimeError as error:  # out of threads, or the interpreter is shutting down
            self.drops.log("no_thread", f"cannot start the thread that writes the spool: {error}")
            return False
        finally:
            self._starting.release()
        return True

    def _wait_for(self, ticket: _FlushRequest, timeout_s: float) -> bool:
        self._queue.append(ticket)
        self._hurry = True
        self._wake.put(None)
        if self._finished:
            self._drop_queued("closed")
        # The thread cannot wait for itself, which a finalizer that garbage collection runs on it would do.
        if self._thread is threading.current_thread():
            return False
        ticket.abandoned = not ticket.done.wait(max(0.0, timeout_s))
        return ticket.on_disk

    def _drop(self, reason: DropReason, draft: Recorded) -> bool:
        # Feedback is not a request, so the ledger does not count its loss.
        if not isinstance(draft, FeedbackDraft):
            self.drops.count(reason)
        return False

    def _drop_queued(self, reason: DropReason) -> int:
        """Empty the queue, count its drafts as dropped and return their number."""
        n = 0
        while True:
            try:
                item = self._queue.popleft()
            except IndexError:
                return n
            if (draft := _draft(item)) is not None:
                self._drop(reason, draft)
                n += 1
            if isinstance(item, _FlushRequest):
                item.done.set()

    # The methods below run on the writer's thread.

    def _run(self) -> None:
        try:
            # The order matters: when `_closed` is True, every draft accepted before `close` is in the queue.
            while not (self._closed and not self._queue):
                self._wait_for_group()
                with self._no_fork:
                    self._finish_batch(self._take())
            self.groups.write([])  # losses of the last group
            self.groups.close()
        finally:
            self._finished = True
            self._drop_queued("closed")

    def _wait_for_group(self) -> None:
        """Wait for the first draft, then until a group is full, a caller waits, or the flush interval is over."""
        self._wake_at = 1
        while not self._queue and not self._closed:
            try:
                self._wake.get(timeout=_RETRY_S if self.drops.unreported() else None)
            except Empty:
                break
        self._wake_at = self._batch_size
        # Several threads may have seen the old `_wake_at`. A waking thread changes the state first, so the check after
        # this misses none.
        while not self._wake.empty():
            self._wake.get()
        if 0 < len(self._queue) < self._batch_size and not self._hurry and not self._closed:
            with contextlib.suppress(Empty):
                self._wake.get(timeout=self._flush_interval_s)
        self._wake_at = _NEVER
        # Reset before the queue is emptied, because a waiting caller appends before it sets `_hurry`.
        self._hurry = False

    def _take(self) -> list[_Item]:
        """Take at most one batch off the queue, up to and including the first flush request."""
        group: list[_Item] = []
        # At its timeout, `close` may empty the queue at any moment.
        with contextlib.suppress(IndexError):
            while len(group) < self._batch_size:
                item = self._queue.popleft()
                if isinstance(item, _Measured):
                    self._chars_taken += item.chars
                group.append(item)
                if _draft(item) is None:
                    break
        return group

    def _finish_batch(self, group: Sequence[_Item]) -> None:
        """Write a group and notify waiting callers."""
        on_disk = iter(self.groups.write([draft for item in group if (draft := _draft(item)) is not None]))
        for item in group:
            if _draft(item) is not None:
                result = next(on_disk)
                self._lost = self._lost or not result
            else:
                result = not self._lost
            if isinstance(item, _FlushRequest):
                # A loss is reported by one `flush`, whose caller must still be waiting.
                if item.draft is None and not item.abandoned:
                    self._lost = False
                item.on_disk = result
                item.done.set()


_Item = Recorded | _Measured | _FlushRequest


def _draft(item: _Item) -> Recorded | None:
    return item.draft if isinstance(item, _FlushRequest | _Measured) else item
