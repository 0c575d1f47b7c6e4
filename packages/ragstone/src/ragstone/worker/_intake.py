"""Trace sources: `TraceSource` moves traces into the store in batches."""

from __future__ import annotations

import logging
import os
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable
from urllib.parse import urlsplit

from ragstone._util.filelock import FileLock
from ragstone.errors import BrokerError, ConfigurationError, SpoolError, StoreError, StoreUnavailableError
from ragstone.schema import BrokerStatus
from ragstone.spool import SegmentState, SpoolReader
from ragstone.store import Store, is_database_url, resolve_store

logger = logging.getLogger("ragstone")

T = TypeVar("T")

_BATCH = 500
_OWNERS = "databases"
"""The file in a spool directory with the names of its database."""


def spool_directory(store: str | os.PathLike[str]) -> Path:
    """Return the spool directory of a store.

    For a store file it is `<store>.spool`. For a database it is `RAGSTONE_SPOOL`, or a directory of the current user.
    """
    if not is_database_url(store):
        return Path(f"{resolve_store(store)}.spool")
    if directory := os.environ.get("RAGSTONE_SPOOL"):
        return Path(directory).absolute()
    url = urlsplit(os.fspath(store))
    return _state_directory(f"{url.hostname or 'local'}_{url.port or 5432}{url.path}")


def claim_spool(store: str | os.PathLike[str]) -> Path:
    """Return the spool directory of a store. If `RAGSTONE_SPOOL` names it, write which database it belongs to into it.

    A worker stores all requests of its spool directory, so two databases with one directory would get the requests of
    the other. Raise ConfigurationError if the directory belongs to another database.
    """
    directory = spool_directory(store)
    if not is_database_url(store) or not os.environ.get("RAGSTONE_SPOOL"):
        return directory
    url = urlsplit(os.fspath(store))
    name = f"{url.hostname or 'local'}:{url.port or 5432}{url.path}"
    file = directory / _OWNERS
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = directory / f".{_OWNERS}.{uuid.uuid4().hex}"
        new.touch(mode=0o600, exist_ok=False)
        new.write_text(f"{name}\n", encoding="utf-8")
        try:
            # Of two processes that start together, one fails, and reads what the other has written.
            with suppress(FileExistsError):
                os.link(new, file)
        finally:
            new.unlink()
        known = file.read_text(encoding="utf-8").split()
    except OSError as error:
        # The disk may be full. What is captured then is counted as dropped.
        logger.warning("cannot check which database uses the spool directory %r: %s", str(directory), error)
        return directory
    if name not in known:
        raise ConfigurationError(
            f"the spool directory {str(directory)!r} belongs to the database {known[0] if known else ''!r}, not to {name!r}: a "
            "worker of one would store the requests of the other. Set RAGSTONE_SPOOL to another directory. If both are "
            f"names of one database, add the line {name} to the file {str(file)!r}."
        )
    return directory


def broker_spool_directory(host: str, port: int, app: str) -> Path:
    """Return the spool directory of a message broker, in `RAGSTONE_SPOOL` or in a directory of the current user.

    It is not `RAGSTONE_SPOOL` itself: a worker with a database, which may run on the same host, stores all requests there.
    """
    return _state_directory(f"{host}_{port}/{app}", os.environ.get("RAGSTONE_SPOOL"))


def _state_directory(name: str, folder: str | None = None) -> Path:
    # The path does not depend on the working directory, so that application and worker use the same directory.
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", name)
    if folder:
        return Path(folder).absolute() / f"{name}.spool"
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "ragstone" / f"{name}.spool"


class StepErrors:
    """Current errors of worker steps, such as a full disk or a segment of another version."""

    def __init__(self) -> None:
        self._messages: dict[str, str] = {}
        self._unavailable: set[str] = set()
        """Steps that failed because the database was unavailable."""
        self.outage: str | None = None
        """Why the database is unavailable at present."""

    def __bool__(self) -> bool:
        return bool(self._messages)

    @property
    def current(self) -> tuple[str, ...]:
        """What fails at present, and why. An outage of the database, or a full disk, is one error of several steps."""
        steps: dict[str, list[str]] = {}
        for name, message in self._messages.items():
            if name not in self._unavailable:
                steps.setdefault(message, []).append(name)
        outage = () if self.outage is None else (self.outage,)
        return (*outage, *(f"cannot {', '.join(names)}: {message}" for message, names in steps.items()))

    def run_step(self, name: str, step: Callable[[], T], otherwise: T) -> T:
        """Run one step, and return `otherwise` after an error: a full disk or damaged segment must not end the worker."""
        try:
            result = step()
        except (StoreError, SpoolError, BrokerError, OSError) as error:
            message = f"{type(error).__name__}: {error}"
            is_outage = isinstance(error, StoreUnavailableError)
            if message != (self.outage if is_outage else self._messages.get(name)):
                # Logged once and without a traceback, because the error repeats until someone fixes the disk.
                logger.error("ragstone worker cannot %s: %s (retrying)", name, message)  # noqa: TRY400
            self._messages[name] = message
            self._unavailable.discard(name)
            if is_outage:
                self._unavailable.add(name)
            self.outage = message if is_outage else self.outage if self._unavailable else None
            return otherwise
        self._messages.pop(name, None)
        if name in self._unavailable:
            # The database answers again. Steps that run less often keep their messages until they succeed.
            self._unavailable.remove(name)
            self.outage = None
        return result

    def raise_first(self) -> None:
        """Raise StoreError if a step fails at present."""
        if self._messages:
            name, message = next(iter(self._messages.items()))
            raise StoreError(f"the worker could not finish: cannot {name}: {message}")


class TraceSource(Protocol):
    """A source of traces. One caller at a time calls `transfer_batch` repeatedly, on a thread."""

    def transfer_batch(self, store: Store, errors: StepErrors) -> int:
        """Move at most one batch into the store, and return the number of moved entries (0 if none is available).

        The source stores its position in the same transaction as the entries, so that it resumes there after a kill.
        """

    @property
    def may_have_more(self) -> bool:
        """Whether more entries may arrive. A worker that runs until it is idle then keeps waiting.

        Without more, a source that is not a broker is not called again.
        """


@runtime_checkable
class BrokerSource(Protocol):
    """A trace source that reads a message broker, whose state is published with the ledger."""

    @property
    def name(self) -> str:
        """URL of the broker without credentials."""

    @property
    def status(self) -> BrokerStatus:
        """Its state, at most a few seconds old."""


class SpoolTraceSource:
    """Moves captured requests from the spool in a directory into the store."""

    may_have_more = False
    """False, because an idle worker does not wait for applications that may start later."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._reader = SpoolReader(directory)
        self._offsets: dict[str, int] = {}
        """Read positions in `_store`. Only the owner of a store that is not shared changes them."""
        self._store: Store | None = None
        self._lock = FileLock(directory.with_name(f"{directory.name}.lock"))

    def transfer_batch(self, store: Store, errors: StepErrors) -> int:
        """Move a batch of each segment. An unreadable segment does not delay the others."""
        if not store.is_shared:
            return self._move(store, errors)
        # The lock prevents another worker on this host from moving the same batch and counting drops twice.
        if not self._directory.is_dir() or not errors.run_step("lock the spool", self._lock.acquire, otherwise=False):
            return 0
        try:
            return self._move(store, errors)
        finally:
            self._lock.release()

    def _move(self, store: Store, errors: StepErrors) -> int:
        empty: list[SegmentState] = []
        return sum(
            errors.run_step(f"drain {s.name}", lambda name=s.name: self._drain(name, store), 0)  # type: ignore[misc]
            for s in errors.run_step("list the spool", self._reader.segments, empty)
        )

    def _drain(self, name: str, store: Store) -> int:
        """Move a batch. Entries and read position are stored in one transaction, so that each entry arrives once."""
        if store.is_shared or store is not self._store:
            self._offsets = store.traces.segment_offsets()
        # After an error, it is not known what is stored.
        self._store = None
        batch = self._reader.read(name, self._offsets.get(name, 0), max_entries=_BATCH)
        if batch.entries:
            store.traces.ingest(name, batch.next_offset, batch.entries)
            self._offsets[name] = batch.next_offset
        elif batch.at_end and store.checkpoint():
            # The checkpoint must come first: otherwise a power failure could lose the drained entries and the file.
            self._reader.remove(name)
            store.traces.forget_segment(name)
        self._store = store
        return len(batch.entries)
