"""What comes in: `TraceSource` moves traces from somewhere into the store, a batch at a time."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from ragstone._util.filelock import FileLock
from ragstone.errors import SpoolError, StoreError
from ragstone.schema import Trace
from ragstone.spool import SegmentState, SpoolReader
from ragstone.store import Store, is_database_url

__all__ = ["SpoolTraceSource", "StepErrors", "TraceSource", "get_skip_reason", "spool_directory"]

logger = logging.getLogger("ragstone")

T = TypeVar("T")

_BATCH = 500


def spool_directory(store: str | os.PathLike[str]) -> Path:
    """The spool of a store: beside the file; for a database `RAGSTONE_SPOOL`, else a folder of this user on this host.

    Args:
        store: Path of a store file, or URL of a database.
    """
    if not is_database_url(store):
        path = Path(store).absolute()
        return path.with_name(path.name + ".spool")
    if named := os.environ.get("RAGSTONE_SPOOL"):
        return Path(named).absolute()
    url = urlsplit(os.fspath(store))
    # Application and worker must find the same folder, whatever their working directories.
    place = re.sub(r"[^A-Za-z0-9.-]+", "_", f"{url.hostname or 'local'}_{url.port or 5432}{url.path}")
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "ragstone" / f"{place}.spool"


def get_skip_reason(trace: Trace) -> str | None:
    """Say why a trace is not scored; None when it is."""
    if trace.status != "ok":
        return f"the request ended as {trace.status!r}" + (f": {trace.error}" if trace.error else "")
    if trace.inner_errors:
        return f"something failed inside the request: {trace.inner_errors[0]}"
    if trace.response is None and trace.query is None:
        return "neither a question nor an answer was captured"
    return None


class StepErrors:
    """Steps of the machinery that fail at present (a full disk, a segment of a newer version), and with what."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._words)

    def run_step(self, what: str, step: Callable[[], T], otherwise: T) -> T:
        """Run one step of the machinery; a full disk or a damaged segment must not end the worker."""
        try:
            result = step()
        except (StoreError, SpoolError, OSError) as error:
            words = f"{type(error).__name__}: {error}"
            if self._words.get(what) != words:
                # Once, and without a traceback: this repeats until somebody mends the disk.
                logger.error("ragstone worker cannot %s: %s; trying again", what, words)  # noqa: TRY400
            self._words[what] = words
            return otherwise
        self._words.pop(what, None)
        return result

    def raise_first(self) -> None:
        """Say what could not be done.

        Raises:
            StoreError: Something could not.
        """
        if self._words:
            what, words = next(iter(self._words.items()))
            raise StoreError(f"not everything could be done: cannot {what}: {words}")


class TraceSource(Protocol):
    """A source of traces. `transfer_batch` is called again and again, on a thread, by one caller at a time."""

    def transfer_batch(self, store: Store, troubles: StepErrors) -> int:
        """Take in at most one batch, so that scoring goes on meanwhile; how many entries were moved.

        0 says that there is nothing at the moment. Which entries were taken in is noted in the store, in the transaction
        that takes them in: whoever is killed here goes on where the store says.
        """
        ...

    @property
    def may_have_more(self) -> bool:
        """Whether more may come that is not there yet, so that a worker that runs until it is idle waits for it."""
        ...


class SpoolTraceSource:
    """Moves what applications captured.

    Args:
        directory: The spool.
    """

    may_have_more = False
    """Applications come and go; nobody waits for the next one."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._reader = SpoolReader(directory)
        self._lock = FileLock(directory.with_name(f"{directory.name}.lock"))

    def transfer_batch(self, store: Store, troubles: StepErrors) -> int:
        """Move a batch of each segment; one that cannot be read does not hold back the others."""
        if not store.is_shared:
            return self._move(store, troubles)
        # Another worker of this host may be moving the same batch: it would count drops a second time.
        if not self._directory.is_dir() or not troubles.run_step("lock the spool", self._lock.acquire, otherwise=False):
            return 0
        try:
            return self._move(store, troubles)
        finally:
            self._lock.release()

    def _move(self, store: Store, troubles: StepErrors) -> int:
        none: list[SegmentState] = []
        segments = troubles.run_step("list the spool", self._reader.segments, none)
        return sum(
            troubles.run_step(f"drain {s.name}", lambda name=s.name: self._drain(name, store), 0)  # type: ignore[misc]
            for s in segments
        )

    def _drain(self, name: str, store: Store) -> int:
        """Move a batch; its entries and the new read position go into one transaction, so each entry arrives once."""
        offset = store.segment_offsets().get(name, 0)
        batch = self._reader.read(name, offset, max_entries=_BATCH)
        if batch.entries:
            store.ingest(name, batch.next_offset, batch.entries)
        elif batch.at_end and store.checkpoint():
            # Without the checkpoint a power cut could take back what was drained, and the file would be gone.
            self._reader.remove(name)
            store.forget_segment(name)
        return len(batch.entries)
