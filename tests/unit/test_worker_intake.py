"""Entries move from the spool to the store: a segment stays until the store has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragstone.errors import StoreError, StoreUnavailableError
from ragstone.schema import Captured, Dropped, LedgerRow, SampledOut, Trace, get_skip_reason, spool_entry_adapter
from ragstone.spool import SpoolReader, SpoolWriter
from ragstone.store import SqliteStore
from ragstone.worker import StepErrors, read_ledger
from ragstone.worker._intake import SpoolTraceSource

DROPPED = spool_entry_adapter.dump_json(Dropped(reason="queue full", n=7, at=1e9))


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


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """A spool that says three times that seven requests were dropped."""
    directory = tmp_path / "spool"
    writer = SpoolWriter(directory)
    for _ in range(3):
        writer.append([DROPPED])
    writer.close()
    return directory


def test_entries_of_a_spool_are_counted_before_they_are_stored(tmp_path: Path) -> None:
    """Each in its column, and drops with a reason of their own."""
    writer = SpoolWriter(tmp_path / "s.db.spool")
    entries = [
        Captured(trace=Trace(trace_id="r", query="Why?", started_at=1e9)),
        SampledOut(trace_id="out", started_at=1e9, inclusion_probability=0.5),
    ]
    writer.append([*map(spool_entry_adapter.dump_json, entries), DROPPED])
    writer.close()

    ledger = read_ledger(tmp_path / "s.db")

    assert ledger.total == LedgerRow(captured=9, pending=1, sampled_out=1, dropped=7)
    assert ledger.dropped_by_reason == {"not yet in the store": 7}


def test_entries_that_were_stored_before_an_error_are_not_stored_again(
    tmp_path: Path, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an error, the read position is that of the store."""
    with SqliteStore.open(tmp_path / "s.db", mode="own") as store:
        ingest, errors = store.traces.ingest, iter([StoreError("the connection was lost")] * 2)

        def ingest_and_fail(*arguments: Any) -> object:
            stored = ingest(*arguments)
            for error in errors:
                raise error
            return stored

        monkeypatch.setattr(store.traces, "ingest", ingest_and_fail)
        source, writer = SpoolTraceSource(spool), SpoolWriter(spool)
        writer.append([DROPPED])
        source.transfer_batch(store, StepErrors())
        # The next batch would have the first one in it.
        writer.append([DROPPED])
        transfer(source, store)
        writer.close()
        assert store.ledger().dropped_by_reason == {"queue full": 35}


def test_a_source_follows_the_store_that_it_gets(tmp_path: Path, spool: Path) -> None:
    """Read positions of one store are not those of another one."""
    source = SpoolTraceSource(spool)
    for name in ("a.db", "b.db"):
        with SqliteStore.open(tmp_path / name, mode="own") as store:
            # The segment stays, as after a kill.
            store.checkpoint = lambda: False  # type: ignore[method-assign]
            transfer(source, store)
            assert store.ledger().dropped_by_reason == {"queue full": 21}


def test_steps_with_one_cause_are_one_error() -> None:
    """A full disk stops several steps: each is named, and the disk once."""
    errors = StepErrors()

    def fail() -> int:
        raise StoreError("the disk is full")

    for name in ("drain a", "store outcomes"):
        errors.run_step(name, fail, 0)

    assert ("cannot drain a, store outcomes: StoreError: the disk is full",) == errors.current


def test_an_outage_of_the_database_is_one_error() -> None:
    """Many steps fail for one cause, whose text changes: the last text stands once, until a step succeeds again."""
    errors = StepErrors()

    def fail(error: StoreError) -> int:
        raise error

    for name, text in (
        ("claim traces", "it shuts down"),
        ("read leases", "it refuses"),
        ("claim traces", "it refuses"),
    ):
        assert 0 == errors.run_step(name, lambda text=text: fail(StoreUnavailableError(text)), 0)
    errors.run_step("drain a", lambda: fail(StoreError("a.seg is damaged")), 0)
    assert ("StoreUnavailableError: it refuses", "cannot drain a: StoreError: a.seg is damaged") == errors.current

    assert 7 == errors.run_step("claim traces", lambda: 7, 0)

    assert ("cannot drain a: StoreError: a.seg is damaged",) == errors.current
    assert 7 == errors.run_step("drain a", lambda: 7, 0)
    assert () == errors.current
    # It has not succeeded yet, so a worker that runs until it is idle has not finished.
    assert errors
    errors.run_step("read leases", lambda: 7, 0)
    assert not errors


def test_an_outage_ends_if_its_last_step_fails_for_another_reason() -> None:
    """The other reason is shown, and nothing after the step has succeeded."""
    errors = StepErrors()

    def fail(error: StoreError) -> int:
        raise error

    errors.run_step("claim traces", lambda: fail(StoreUnavailableError("it shuts down")), 0)
    errors.run_step("claim traces", lambda: fail(StoreError("the disk is full")), 0)
    assert (None, ("cannot claim traces: StoreError: the disk is full",)) == (errors.outage, errors.current)
    errors.run_step("claim traces", lambda: 7, 0)
    assert () == errors.current


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"query": "Why?", "response": "So."}, None),
        ({"query": "Why?"}, None),
        ({"response": "So."}, None),
        ({}, "neither a query nor a response was captured"),
        ({"query": "Why?", "status": "error"}, "the request ended as 'error'"),
        ({"query": "Why?", "status": "error", "error": "no model"}, "the request ended as 'error': no model"),
        (
            {"query": "Why?", "response": "So.", "inner_errors": ["no index", "no cache"]},
            "something failed inside the request: no index",
        ),
    ],
)
def test_requests_that_failed_or_are_empty_are_not_scored(fields: dict[str, Any], reason: str | None) -> None:
    """The reason is that of their outcomes, which are not applicable."""
    assert get_skip_reason(Trace(trace_id="t", started_at=1e9, **fields)) == reason
