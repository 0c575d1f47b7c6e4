"""Writing groups of drafts to the spool, and counting the drafts that are lost."""

from __future__ import annotations

import errno
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final, Literal, Protocol, get_args

from pydantic import ValidationError

from ragstone._util.tally import AtomicCounter
from ragstone.capture._convert import Converter, RedactionError
from ragstone.requests import Request, TraceDraft
from ragstone.schema import Dropped, spool_entry_adapter

__all__ = ["BatchWriter", "DropCounter", "DropReason", "SpoolLike"]

_logger = logging.getLogger("ragstone")

DropReason = Literal[
    "queue_full",  # requests come in faster than they can be written
    "closed",  # the recorder was closed already
    "no_thread",  # the system does not give us a thread
    "invalid",  # the draft is not a trace
    "redaction_failed",  # the redactor raised; nothing unredacted is ever written
    "disk_full",  # the spool's disk, quota or size limit
    "spool_error",  # any other fault of the spool
    "deadline",  # still queued when `close` ran out of time
    "bug",  # ours
]

_LOG_EVERY_S: Final = 60.0


class DropCounter:
    """The losses of one process."""

    def __init__(self) -> None:
        self._tallies: dict[DropReason, AtomicCounter] = {reason: AtomicCounter() for reason in get_args(DropReason)}
        self._reported: dict[DropReason, int] = dict.fromkeys(self._tallies, 0)
        self._logged_at: dict[str, float] = {}

    def count(self, reason: DropReason) -> None:
        """Count one; safe wherever Python code can run."""
        self._tallies[reason].add()

    def counts(self) -> dict[str, int]:
        """How many so far by reason, those that happened."""
        return {reason: n for reason, tally in self._tallies.items() if (n := tally.value())}

    def unreported(self) -> dict[DropReason, int]:
        """What was counted and not yet marked by `reported`. For one thread."""
        return {reason: n for reason, tally in self._tallies.items() if (n := tally.value() - self._reported[reason])}

    def reported(self, losses: dict[DropReason, int]) -> None:
        """Mark losses, as `unreported` gave them, as told to the spool."""
        for reason, n in losses.items():
            self._reported[reason] += n

    def log(self, topic: str, message: str) -> None:
        """Log a warning, at most one a minute for each topic."""
        now = time.monotonic()
        if now - self._logged_at.get(topic, -_LOG_EVERY_S) >= _LOG_EVERY_S:
            self._logged_at[topic] = now
            _logger.warning("Ragstone capture: %s (dropped so far: %s)", message, self.counts() or "none")


_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class SpoolLike(Protocol):
    """Where lines go: `ragstone.spool.SpoolWriter`, or anything that does as it does. Used by one thread."""

    def append(self, lines: Sequence[bytes]) -> None:
        """Append all lines, or raise and append none."""
        ...

    def sync(self) -> None:
        """Return when all that was appended is on disk."""
        ...

    def close(self) -> None:
        """Finish; no further call comes."""
        ...


class BatchWriter:
    """Converts and writes groups of drafts, each to its end: in the spool, or counted as dropped. For one thread."""

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
        """Ids of left out traces in the spool."""
        self.in_hand = 0
        """Drafts of the present group whose end is open."""

    def write(self, drafts: Sequence[TraceDraft | Request]) -> list[bool]:
        """Write drafts, and the losses since the last time; for each draft, whether it is on disk.

        An empty group writes the losses alone. Never raises.
        """
        self.in_hand = len(drafts)
        on_disk = [False] * len(drafts)
        try:
            for place in self._write(drafts):
                on_disk[place] = True
        except BaseException as error:  # noqa: BLE001 - on our own thread; ending it would lose all that follows
            self._drops.log("bug", f"a group could not be written: {_describe_error(error)}; please report this")
            while self.in_hand > 0:
                self._count_dropped("bug")
        return on_disk

    def close(self) -> None:
        """Seal the spool."""
        if self._spool is None:
            return
        try:
            self._spool.close()
        except Exception as error:  # noqa: BLE001 - at the end; nothing is lost that was synced
            self._drops.log("close", f"the spool was not closed in order: {error}")

    def _write(self, drafts: Sequence[TraceDraft | Request]) -> list[int]:
        """Write drafts; the places of those that are on disk."""
        lines: list[bytes] = []
        places: list[int] = []
        n_sampled_out = 0
        for place, draft in enumerate(drafts):
            converted = self._convert(draft)
            if converted is not None:
                kind, line = converted
                lines.append(line)
                places.append(place)
                n_sampled_out += kind == "sampled_out"
            # Let the application have the interpreter if it waits for it: a group can take as long as the five
            # milliseconds after which it would be let in by force.
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
        except Exception as error:  # noqa: BLE001 - whatever the spool raises, none of the lines is in it
            why: DropReason = "disk_full" if _is_full(error) else "spool_error"
            self._drops.log(why, f"the spool does not take traces: {error}")
            for _ in places:
                self._count_dropped(why)
            return []
        self._drops.reported(losses)
        self.sampled_out += n_sampled_out
        self.written += len(places) - n_sampled_out
        self.in_hand -= len(places)
        try:
            self._spool.sync()
        except Exception as error:  # noqa: BLE001 - it is in the spool, so it is not counted as lost
            self._drops.log("sync", f"what was written is not known to be on disk: {error}")
            return []
        return places

    def _convert(self, draft: TraceDraft | Request) -> tuple[str, bytes] | None:
        try:
            return self._converter.line(draft)
        except RedactionError as error:
            self._drops.log("redaction_failed", f"{error}; the trace is dropped, nothing unredacted is written")
            self._count_dropped("redaction_failed")
        except Exception as error:  # noqa: BLE001 - a draft can hold anything
            self._drops.log("invalid", f"a request is not a trace: {_describe_error(error)}")
            self._count_dropped("invalid")
        return None

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
    """What went wrong, without the text that it went wrong with: that is not redacted, and a log is a disk as well."""
    if isinstance(error, ValidationError):
        return "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['type']}" for one in error.errors(include_input=False)
        )
    return type(error).__name__
