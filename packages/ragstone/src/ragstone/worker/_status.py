"""The ledger of a store as a reader sees it, whoever owns the store and whether anybody does."""

from __future__ import annotations

from pathlib import Path

from ragstone.errors import SpoolError, StoreError, StoreNotReadyError
from ragstone.schema import Captured, Dropped, Ledger, LedgerRow, SampledOut
from ragstone.spool import SpoolReader
from ragstone.store import SqliteStore
from ragstone.worker._spool import spool_directory

__all__ = ["read_ledger"]

_TRIES = 20
_BATCH = 1000


def read_ledger(store: str | Path) -> Ledger:
    """Read the ledger of a store, with what is spooled and not yet in the store counted as it is.

    Reads only, and needs no lock: the owner may be alive, dead, or absent.

    Raises:
        StoreError: There is neither a store nor a spool, or the store cannot be read.
    """
    path = Path(store).absolute()
    spool = spool_directory(path)
    if not path.exists() and not spool.is_dir():
        msg = f"there is no store {str(path)!r}; give the path that was given to Monitor(store=...)"
        raise StoreError(msg)
    for _ in range(_TRIES):
        before, ledger = _stored(path)
        try:
            tail = _spooled(spool, before)
        except SpoolError:
            if _stored(path)[0] == before:
                raise
            continue  # the owner removed a segment that it had drained meanwhile: look again
        if _stored(path)[0] == before:
            return _with_tail(ledger, tail)
    # The owner is faster than we can look: what it holds in this moment is as true as what it held in the last.
    return ledger


def _stored(path: Path) -> tuple[dict[str, int], Ledger]:
    nothing: tuple[dict[str, int], Ledger] = {}, Ledger(total=LedgerRow())
    if not path.exists():
        return nothing
    try:
        with SqliteStore.open(path, mode="read") as store:
            # The offsets come first: what is drained between the two reads shows as a changed offset afterwards.
            return store.segment_offsets(), store.ledger()
    except StoreNotReadyError:
        return nothing


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
