"""The ledger of a store as a reader sees it, whoever owns the store and whether anybody does."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from ragstone.errors import SpoolError, StoreError, StoreNotReadyError
from ragstone.schema import Captured, Dropped, Ledger, LedgerRow, SampledOut
from ragstone.spool import SpoolReader
from ragstone.store import Store, describe_store, is_database_url, open_store
from ragstone.worker._intake import spool_directory

__all__ = ["pending_message", "read_ledger"]

_TRIES = 20
_BATCH = 1000


def read_ledger(store: str | os.PathLike[str]) -> Ledger:
    """Read the ledger of a store, with what is spooled and not yet in the store counted as it is.

    Reads only, and needs no lock: the owner may be alive, dead, or absent. Of a database, the spool of this host and
    user is seen; what other hosts have not brought in yet is not.

    Raises:
        StoreError: There is neither a store nor a spool, or the store cannot be read.
    """
    spool = spool_directory(store)
    if not _store_or_spool_exists(store) and not spool.is_dir():
        raise StoreError(
            f"there is no store {str(Path(store).absolute())!r}; give what was given to Monitor(store=...)"
        )
    for _ in range(_TRIES):
        before, ledger = _stored(store, spool)
        try:
            tail = _spooled(spool, before)
        except SpoolError:
            if _offsets(store, spool) == before:
                raise
            continue  # the owner removed a segment that it had drained meanwhile: look again
        if _offsets(store, spool) == before:
            return _with_tail(ledger, tail)
    # The owner is faster than we can look: what it holds in this moment is as true as what it held in the last.
    return ledger


def _store_or_spool_exists(store: str | os.PathLike[str]) -> bool:
    return is_database_url(store) or Path(store).exists()


def _stored(store: str | os.PathLike[str], spool: Path) -> tuple[dict[str, int], Ledger]:
    with _opened(store) as opened:
        if opened is None:
            return {}, Ledger(total=LedgerRow())
        # The offsets come first: what is drained between the two reads shows as a changed offset afterwards.
        return _offsets_in(opened, spool), opened.ledger()


def _offsets(store: str | os.PathLike[str], spool: Path) -> dict[str, int]:
    with _opened(store) as opened:
        return {} if opened is None else _offsets_in(opened, spool)


def _offsets_in(opened: Store, spool: Path) -> dict[str, int]:
    """How far the segments of this host were drained; those of other hosts change independently."""
    here = {segment.name for segment in SpoolReader(spool).segments()} if spool.is_dir() else set[str]()
    return {name: offset for name, offset in opened.segment_offsets().items() if name in here}


@contextmanager
def _opened(store: str | os.PathLike[str]) -> Iterator[Store | None]:
    """The store for reading, or None if nothing was written yet."""
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


def pending_message(store: str | os.PathLike[str], ledger: Ledger, options: Sequence[str] | None = None) -> str | None:
    """Say how many requests are pending, and which command scores them; None if no request is pending.

    Args:
        store: Path of a store file, or URL of a database.
        ledger: The ledger of this store.
        options: Options of `ragstone worker`, from `ScoringSetup.command_options`. By default the metrics of the ledger,
            and a judge that is left open unless `RAGSTONE_JUDGE` names it.
    """
    n = ledger.total.pending
    if not n:
        return None
    if options is None:
        options = [f"--metrics={','.join(ledger.metrics)}"] if ledger.metrics else []
        if not os.environ.get("RAGSTONE_JUDGE"):
            options = [*options, "--judge=JUDGE"]
    command = shlex.join(["ragstone", "worker", describe_store(store), "--until-idle", *options])
    requests = "1 request is" if n == 1 else f"{n} requests are"
    return f"{requests} pending. Score with: {command}"
