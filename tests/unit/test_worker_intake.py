"""Entries move from the spool to the store: a segment stays until the store has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragstone.errors import StoreError
from ragstone.schema import Captured, Trace, spool_entry_adapter
from ragstone.spool import SpoolReader, SpoolWriter
from ragstone.store import SqliteStore
from ragstone.worker import StepErrors
from ragstone.worker._intake import SpoolTraceSource


def transfer(source: SpoolTraceSource, store: SqliteStore) -> None:
    """Move everything, in as many batches as it takes, and one that finds nothing."""
    errors = StepErrors()
    for _ in range(6):
        source.transfer_batch(store, errors)


@pytest.mark.parametrize("failing", ["ingest", "checkpoint"])
def test_a_segment_stays_until_its_entries_are_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """A worker may be killed, or its disk be full, between any two steps. Afterwards nothing is lost or doubled."""
    spool = tmp_path / "spool"
    for start in (0, 5):
        writer = SpoolWriter(spool)
        writer.append(
            [
                spool_entry_adapter.dump_json(
                    Captured(trace=Trace(trace_id=f"r{n}", query="Why?", response="So.", started_at=1e9))
                )
                for n in range(start, start + 5)
            ]
        )
        writer.close()
    source = SpoolTraceSource(spool)
    with SqliteStore.open(tmp_path / "s.db", mode="own") as store:
        with monkeypatch.context() as patch:

            def fail(*_: object) -> bool:
                if failing == "checkpoint":
                    return False
                raise StoreError("the disk is full")

            patch.setattr(store.traces if failing == "ingest" else store, failing, fail)
            transfer(source, store)
            assert len(list(spool.glob("*.seg"))) == 2
        # The next worker.
        transfer(SpoolTraceSource(spool), store)
        assert sorted(trace.trace_id for trace in store.traces.read()) == [f"r{n}" for n in range(10)]
        total = store.ledger().total
        assert (total.captured, total.dropped) == (10, 0)
        assert store.traces.segment_offsets() == {}
    assert SpoolReader(spool).segments() == []
