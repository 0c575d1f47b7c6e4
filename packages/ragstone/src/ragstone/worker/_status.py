"""Reading of a store's ledger, with or without a running owner."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

from ragstone.errors import SpoolError, StoreNotFoundError, StoreNotReadyError
from ragstone.schema import Captured, Dropped, Ledger, LedgerRow, SampledOut
from ragstone.spool import SpoolReader
from ragstone.store import Store, describe_store, is_database_url, is_owned, open_store
from ragstone.worker._intake import spool_directory

_TRIES = 20
_BATCH = 1000
_FORMS: Final = {"JUDGE": " (http://HOST:PORT/v1, openai:MODEL, or lexical to try the setup)"}
"""What a placeholder of a command stands for."""


def read_ledger(store: str | os.PathLike[str]) -> Ledger:
    """Read the ledger of a store, including spooled requests that are not yet in the store.

    This only reads and does not need a lock, so the owner can be running or not. For a database, the spool of the current
    host and user is included. Spools of other hosts are not.

    Raises:
        StoreNotFoundError: If neither a store nor a spool exists.
        StoreError: If the store cannot be read.
    """
    spool = spool_directory(store)
    if not _store_or_spool_exists(store) and not spool.is_dir():
        raise StoreNotFoundError(
            f"store not found: {str(Path(store).absolute())!r}. Give the same path as in Monitor(store=...)."
        )
    for _ in range(_TRIES):
        before, ledger = _stored(store, spool)
        try:
            tail = _spooled(spool, before)
        except SpoolError:
            if _offsets(store, spool) == before:
                raise
            continue  # the owner drained and removed a segment meanwhile
        if _offsets(store, spool) == before:
            return _with_tail(ledger, tail)
    # The owner keeps moving entries between the reads. The store's own ledger is consistent.
    return ledger


def _store_or_spool_exists(store: str | os.PathLike[str]) -> bool:
    return is_database_url(store) or Path(store).exists()


def _stored(store: str | os.PathLike[str], spool: Path) -> tuple[dict[str, int], Ledger]:
    with _opened(store) as opened:
        if opened is None:
            return {}, Ledger(total=LedgerRow())
        # The offsets are read first, so that entries drained between the two reads show as a changed offset.
        return _offsets_in(opened, spool), opened.ledger()


def _offsets(store: str | os.PathLike[str], spool: Path) -> dict[str, int]:
    with _opened(store) as opened:
        return {} if opened is None else _offsets_in(opened, spool)


def _offsets_in(opened: Store, spool: Path) -> dict[str, int]:
    """Return the read positions of this host's segments. Those of other hosts change independently."""
    local = {segment.name for segment in SpoolReader(spool).segments()} if spool.is_dir() else set[str]()
    return {name: offset for name, offset in opened.segment_offsets().items() if name in local}


@contextmanager
def _opened(store: str | os.PathLike[str]) -> Iterator[Store | None]:
    """Open the store for reading. Yields None if nothing was written yet."""
    try:
        opened = open_store(store, mode="read") if _store_or_spool_exists(store) else None
    except StoreNotReadyError:
        opened = None
    with opened or nullcontext():
        yield opened


def _spooled(spool: Path, offsets: dict[str, int]) -> LedgerRow:
    pending = sampled_out = dropped = 0
    if not spool.is_dir():
        return LedgerRow()
    reader = SpoolReader(spool)
    for segment in reader.segments():
        offset = offsets.get(segment.name, 0)
        while True:
            batch = reader.read(segment.name, offset, max_entries=_BATCH)
            for entry in batch.entries:
                if isinstance(entry, Captured):
                    pending += 1
                elif isinstance(entry, SampledOut):
                    sampled_out += 1
                elif isinstance(entry, Dropped):
                    dropped += entry.n
            if batch.next_offset == offset:
                break
            offset = batch.next_offset
    return LedgerRow(
        captured=pending + sampled_out + dropped, pending=pending, sampled_out=sampled_out, dropped=dropped
    )


def _with_tail(ledger: Ledger, tail: LedgerRow) -> Ledger:
    if not tail.captured:
        return ledger
    reasons = dict(ledger.dropped_by_reason)
    if tail.dropped:
        reasons["not yet in the store"] = reasons.get("not yet in the store", 0) + tail.dropped
    return ledger.model_copy(
        update={
            "total": _add(ledger.total, tail),
            "metrics": {name: _add(row, tail) for name, row in ledger.metrics.items()},
            "dropped_by_reason": reasons,
        }
    )


def _add(row: LedgerRow, tail: LedgerRow) -> LedgerRow:
    return row.model_copy(
        update={
            field: getattr(row, field) + getattr(tail, field)
            for field in ("captured", "pending", "sampled_out", "dropped")
        }
    )


def pending_message(
    store: str | os.PathLike[str], ledger: Ledger, options: Mapping[str, Any] | None = None
) -> str | None:
    """Return the number of pending requests and the command that scores them, or None if no request is pending.

    Every advice to start a worker for a store is this text.

    Args:
        store: Path of a store file, or URL of a database.
        ledger: The ledger of this store.
        options: The `command_options` of a setup that does not score anymore. None: what the store has on record, or no
            command if a process owns the store, and scores them.
    """
    n = ledger.total.pending
    if not n:
        return None
    requests = "1 request is" if n == 1 else f"{n:,} requests are"
    if options is None and is_owned(store):
        return f"{requests} pending. The process that owns the store scores them."
    # Without a record, the metrics of the plan are known. The judge is not.
    known: dict[str, Any] = {"metrics": ",".join(ledger.metrics)} if ledger.metrics else {}
    options = options or ledger.scoring or known | {"judge": None}
    unknown = [key.upper() for key, value in options.items() if value is None]
    unknown += [sink for sink in options.get("sink", ()) if sink == "SINK" or sink.endswith(":URL")]
    replace = "".join(f" Replace {name}{_FORMS.get(name, '')}: it is not on record." for name in unknown)
    return f"{requests} pending.{replace} Score with: {worker_command(store, options, '--until-idle')}"


def worker_command(store: str | os.PathLike[str], options: Mapping[str, Any], *flags: str) -> str:
    """Return a command of a worker, quoted for a shell. JUDGE stands for a judge that is not known."""
    parts = ["ragstone", "worker", describe_store(store), *flags]
    for key, value in options.items():
        values = value if isinstance(value, list | tuple) else [key.upper() if value is None else value]
        parts += [f"--{key}={each}" for each in values]
    return shlex.join(parts)
