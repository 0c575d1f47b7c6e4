"""Writing groups of drafts to the spool, and counting the drafts that are lost."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal, Protocol, get_args

from pydantic import ValidationError

from ragstone._util.limited_log import LimitedLog
from ragstone._util.tally import AtomicCounter
from ragstone.capture._convert import Converter
from ragstone.capture._feedback import FeedbackDraft
from ragstone.capture._redaction import RedactionError
from ragstone.requests import Request, TraceDraft
from ragstone.schema import Dropped, spool_entry_adapter

_logger = logging.getLogger("ragstone")

DropReason = Literal[
    "queue_full",  # requests arrive faster than the spool can write them
    "closed",  # the recorder was already closed
    "no_thread",  # the writer's thread could not start
    "invalid",  # the draft is not a valid trace
    "redaction_failed",  # the redactor raised; unredacted text is never written
    "disk_full",  # the spool's disk, quota or size limit
    "spool_error",  # any other error of the spool
    "deadline",  # still queued at the timeout of `close`
    "bug",  # an error in Ragstone
]

Recorded = TraceDraft | Request | FeedbackDraft
"""What an application records."""


class DropCounter:
    """Counter of the drafts that one process lost, by reason."""

    def __init__(self) -> None:
        self._tallies: dict[DropReason, AtomicCounter] = {reason: AtomicCounter() for reason in get_args(DropReason)}
        self._reported: dict[DropReason, int] = dict.fromkeys(self._tallies, 0)
        self._log = LimitedLog(_logger)

    def count(self, reason: DropReason) -> None:
        """Count one loss. Safe in any thread, signal handler or finalizer."""
        self._tallies[reason].add()

    def counts(self) -> dict[str, int]:
        """Return the number of losses by reason, without zeros."""
        return {reason: n for reason, tally in self._tallies.items() if (n := tally.value())}

    def unreported(self) -> dict[DropReason, int]:
        """Return the losses not yet passed to `reported`, by reason. For one thread."""
        return {reason: n for reason, tally in self._tallies.items() if (n := tally.value() - self._reported[reason])}

    def reported(self, losses: dict[DropReason, int]) -> None:
        """Mark losses returned by `unreported` as written to the spool."""
        for reason, n in losses.items():
            self._reported[reason] += n

    def log(self, topic: str, message: str) -> None:
        """Log a warning, at most once a minute for each topic."""
        text = f"Ragstone capture: {message} (dropped so far: {self.counts() or 'none'})"
        self._log.log(logging.WARNING, topic, text)


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class SpoolLike(Protocol):
    """Interface of the spool, as in `ragstone.spool.SpoolWriter`. Used by one thread."""

    def append(self, lines: Sequence[bytes]) -> None:
        """Append all lines, or raise and append none."""
        ...

    def sync(self) -> None:
        """Wait until all appended lines are on disk."""
        ...

    def close(self) -> None:
        """Close the spool. This is the last call."""
        ...


class BatchWriter:
    """Writer of groups of drafts: each draft ends in the spool or is counted as dropped. For one thread."""

    def __init__(
        self,
        *,
        converter: Converter,
        spool_factory: Callable[[], SpoolLike],
        drops: DropCounter,
        clock: Callable[[], float],
    ) -> None:
        self._converter = converter
        self._spool_factory = spool_factory
        self._spool: SpoolLike | None = None
        self._drops = drops
        self._clock = clock
        self.written = 0
        """Traces in the spool."""
        self.sampled_out = 0
        """Ids in the spool of traces that sampling skipped."""
        self.in_hand = 0
        """Drafts of the current group that are neither written nor dropped."""

    def write(self, drafts: Sequence[Recorded]) -> list[bool]:
        """Write drafts and the losses since the last call, and return for each draft whether it is on disk.

        An empty group writes the losses only. Never raises.
        """
        self.in_hand = len(drafts)
        on_disk = [False] * len(drafts)
        try:
            for place in self._write(drafts):
                on_disk[place] = True
        except BaseException as error:  # noqa: BLE001 - an error would end the writer's thread and lose later drafts
            self._drops.log("bug", f"a group could not be written: {_describe_error(error)}; please report this")
            while self.in_hand > 0:
                self._count_dropped("bug")
        return on_disk

    def close(self) -> None:
        """Close the spool, if it was opened."""
        if self._spool is None:
            return
        try:
            self._spool.close()
        except Exception as error:  # noqa: BLE001 - the last call; synced lines are safe
            self._drops.log("close", f"closing the spool failed: {error}")

    def _write(self, drafts: Sequence[Recorded]) -> list[int]:
        """Write drafts, and return the positions of those that are on disk."""
        lines: list[bytes] = []
        places: list[int] = []
        n_sampled_out = n_feedback = 0
        for place, draft in enumerate(drafts):
            converted = self._convert(draft)
            if converted is not None:
                kind, line = converted
                lines.append(line)
                places.append(place)
                n_sampled_out += kind == "sampled_out"
                n_feedback += kind == "feedback"
            # Release the GIL for the application: a group can take as long as the interpreter's switch interval of
            # five milliseconds.
            time.sleep(0)
        losses = self._drops.unreported()
        for reason, n in losses.items():
            lines.append(spool_entry_adapter.dump_json(Dropped(reason=reason, n=n, at=self._clock())))
        if not lines:
            return []
        try:
            if self._spool is None:
                self._spool = self._spool_factory()
            self._spool.append(lines)
        except Exception as error:  # noqa: BLE001 - after any error of the spool, it holds none of the lines
            why: DropReason = "disk_full" if _is_full(error) else "spool_error"
            self._drops.log(why, f"the spool rejected traces: {error}")
            for place in places:
                self._count_lost(drafts[place], why)
            return []
        self._drops.reported(losses)
        self.sampled_out += n_sampled_out
        self.written += len(places) - n_sampled_out - n_feedback
        self.in_hand -= len(places)
        try:
            self._spool.sync()
        except Exception as error:  # noqa: BLE001 - the lines are in the spool, so they are not counted as lost
            self._drops.log("sync", f"cannot confirm that written traces are on disk: {error}")
            return []
        return places

    def _convert(self, draft: Recorded) -> tuple[str, bytes] | None:
        try:
            if isinstance(draft, FeedbackDraft):
                return "feedback", self._converter.feedback_line(draft)
            return self._converter.line(draft)
        except RedactionError as error:
            self._drops.log("redaction_failed", f"{error}; the trace is dropped, nothing unredacted is written")
            self._count_lost(draft, "redaction_failed")
        except Exception as error:  # noqa: BLE001 - a draft can hold anything
            self._drops.log("invalid", f"a request is not a trace: {_describe_error(error)}")
            self._count_lost(draft, "invalid")
        return None

    def _count_lost(self, draft: Recorded, reason: DropReason) -> None:
        # Feedback is not a request, so the ledger does not count its loss.
        if isinstance(draft, FeedbackDraft):
            self.in_hand -= 1
        else:
            self._count_dropped(reason)

    def _count_dropped(self, reason: DropReason) -> None:
        self._drops.count(reason)
        self.in_hand -= 1


def _is_full(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__
    return False


def _describe_error(error: BaseException) -> str:
    """Describe an error without its input, because the input is not redacted and logs are stored."""
    if isinstance(error, ValidationError):
        return "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['type']}" for one in error.errors(include_input=False)
        )
    return type(error).__name__
