"""Reading of a store's ledger, with or without a running owner."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from ragstone.errors import SpoolError, StoreNotFoundError, StoreNotReadyError
from ragstone.schema import Captured, Dropped, Ledger, LedgerRow, SampledOut, ScoringPlan
from ragstone.spool import SpoolReader
from ragstone.store import Store, applies_since, is_database_url, open_store
from ragstone.worker._intake import spool_directory

_TRIES = 20


def read_ledger(store: str | os.PathLike[str]) -> Ledger:
    """Read the ledger of a store, including spooled requests that are not yet in the store.

    This only reads and does not need a lock, so the owner can be running or not. For a database, the spool of the
    current host and user is included. Spools of other hosts are not. Raise StoreNotFoundError if neither a store nor a
    spool exists. Raise StoreError if the store cannot be read.
    """
    spool = spool_directory(store)
    if not _store_may_exist(store) and not spool.is_dir():
        raise StoreNotFoundError(
            f"store not found: {str(Path(store).absolute())!r}. Give the same path as in Monitor(store=...)."
        )
    for _ in range(_TRIES):
        before, ledger = _stored(store, spool)
        try:
            tail, plans = _spooled(spool, before)
        except SpoolError:
            if _offsets(store, spool) == before:
                raise
            continue  # the owner drained and removed a segment meanwhile
        if _offsets(store, spool) == before:
            return _with_tail(ledger, tail, plans)
    # The owner keeps moving entries between the reads. The store's own ledger is consistent.
    return ledger


def _store_may_exist(store: str | os.PathLike[str]) -> bool:
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
    local = {segment.name for segment in SpoolReader(spool).segments()}
    return {name: offset for name, offset in opened.traces.segment_offsets().items() if name in local}


@contextmanager
def _opened(store: str | os.PathLike[str]) -> Iterator[Store | None]:
    """Open the store for reading. Yields None if nothing was written yet."""
    try:
        opened = open_store(store, mode="read") if _store_may_exist(store) else None
    except StoreNotReadyError:
        opened = None
    with opened or nullcontext():
        yield opened


def _spooled(spool: Path, offsets: dict[str, int]) -> tuple[LedgerRow, dict[str, list[float]]]:
    """Count the requests of a spool. Also returns the times of the captured ones, by the text of their plan."""
    pending = sampled_out = dropped = 0
    plans: dict[str, list[float]] = {}
    for entry in (entry for batch in SpoolReader(spool).batches(offsets) for entry in batch.entries):
        if isinstance(entry, Captured):
            pending += 1
            plans.setdefault(json.dumps(entry.plan, sort_keys=True), []).append(entry.trace.started_at)
        elif isinstance(entry, SampledOut):
            sampled_out += 1
        elif isinstance(entry, Dropped):
            dropped += entry.n
    captured = pending + sampled_out + dropped
    return LedgerRow(captured=captured, pending=pending, sampled_out=sampled_out, dropped=dropped), plans


def _with_tail(ledger: Ledger, tail: LedgerRow, spooled: dict[str, list[float]]) -> Ledger:
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
            "plans": _with_spooled(ledger.plans, spooled),
        }
    )


def _with_spooled(stored: Sequence[ScoringPlan], spooled: dict[str, list[float]]) -> tuple[ScoringPlan, ...]:
    """Add requests of a spool to the plans, as the store will."""
    plans = {plan.id: plan for plan in stored}
    without = len(spooled.pop("null", ()))
    for text, times in sorted(spooled.items()):
        made = ScoringPlan.of_settings(json.loads(text), since=max(times))
        plan = plans.get(made.id, made).model_copy(update={"since": applies_since(plans.values(), made)})
        plan = plans.get(plan.replaced_by or "", plan)
        plans[plan.id] = plan.model_copy(update={"pending": plan.pending + len(times)})
    ordered = sorted(plans.values(), key=lambda plan: (plan.replaced_by is None, plan.since, plan.id))
    if ordered:
        ordered[-1] = ordered[-1].model_copy(update={"pending": ordered[-1].pending + without})
    return tuple(ordered)


def _add(row: LedgerRow, tail: LedgerRow) -> LedgerRow:
    return row.model_copy(
        update={
            field: getattr(row, field) + getattr(tail, field)
            for field in ("captured", "pending", "sampled_out", "dropped")
        }
    )
