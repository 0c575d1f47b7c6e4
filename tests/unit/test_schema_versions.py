"""Records and stores of older versions: read as they were, with today's names, and no outcome changed."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from ragstone.experiments import compare
from ragstone.replay import replay_traces
from ragstone.schema import (
    SCHEMA_VERSION,
    Captured,
    LedgerRow,
    Score,
    Trace,
    migrate,
    outcome_adapter,
    spool_entry_adapter,
)
from ragstone.store import SqliteStore, StoredLabel
from stored_bodies import body_texts

DATA = Path(__file__).parent / "data" / "version_1"
NEW_FIELDS = ("evidence", "standalone_query", "app", "release", "environment", "history")
"""Fields of a trace that records of version 2 do not have."""


def lines(name: str) -> list[dict]:
    """The records of a file, as they were written."""
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of version 2 with records of version 1."""
    path = tmp_path / "store.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript((DATA / "store-version-2.sql").read_text(encoding="utf-8"))
    db.close()
    SqliteStore.open(path, mode="own").close()
    return path


def test_a_trace_keeps_its_retrievals():
    """`searches` is read as `retrievals`, also among the fields that were cut."""
    old = lines("traces.jsonl")[0]

    trace = Trace.model_validate(migrate(old))

    assert SCHEMA_VERSION == trace.schema_version
    assert [search["query"] for search in old["searches"]] == [retrieval.query for retrieval in trace.retrievals]
    assert ("retrievals.passages.text",) == trace.truncated_fields
    assert not trace.model_extra


def test_traces_of_version_2_have_no_evidence():
    """They keep their contexts, and nothing about them is in doubt."""
    for line in (DATA.parent / "version_2" / "traces.jsonl").read_text(encoding="utf-8").splitlines():
        old = json.loads(line)

        trace = Trace.model_validate(old)

        assert (2, SCHEMA_VERSION) == (old["schema_version"], trace.schema_version)
        assert trace.evidence is None
        assert old == trace.model_dump(mode="json", exclude=set(NEW_FIELDS)) | {
            "schema_version": 2,
            "retrievals": [r.model_dump(mode="json", exclude={"stages"}) for r in trace.retrievals],
        }


@pytest.mark.parametrize("old", lines("outcomes.jsonl"))
def test_an_outcome_keeps_its_id(old: dict):
    """Value, key and id are what they were; only fields inside have other names."""
    outcome = outcome_adapter.validate_python(migrate(old))

    assert (old["sample_id"], old["metric"], old["metric_version"], old["judge_hash"]) == outcome.key
    assert not outcome.model_extra
    if isinstance(outcome, Score):
        assert old["value"] == outcome.value
        if old["interval"] is not None:
            assert old["interval"]["level"] == outcome.interval.confidence_level
        assert old["details"].get("borne_out") == outcome.details.get("supported")


def test_a_store_upgrades_records_when_it_reads_them(store: Path):
    """Bodies stay as they are on disk; ids, values and deliveries stay the same."""
    db = sqlite3.connect(store)
    bodies = [json.loads(body) for body in body_texts(db, "outcome_bodies")]
    ids = [outcome_id for (outcome_id,) in db.execute("SELECT outcome_id FROM outcomes ORDER BY seq")]
    db.close()
    assert all(body["schema_version"] == 1 for body in bodies)

    with SqliteStore.open(store, mode="read") as opened:
        outcomes = list(opened.outcomes())
        trace = opened.explain("t0").trace
        ledger = opened.ledger()

    assert lines("outcomes.jsonl") == bodies
    assert ids == [outcome.id for outcome in outcomes]
    assert [body.get("value") for body in bodies] == [getattr(outcome, "value", None) for outcome in outcomes]
    assert 2 == len(trace.retrievals)
    # 0.9 would be lost if the field were read as an unknown one.
    assert 0.9 in [o.interval.confidence_level for o in outcomes if isinstance(o, Score) and o.interval]
    assert {"jsonl:a": 1, "otlp": 2} == {sink: counts.failed for sink, counts in ledger.outbox.items()}


def test_a_store_of_version_3_keeps_outcomes_and_deliveries(tmp_path: Path):
    """Deliveries of outcomes stay what they are, and requests have no application."""
    path = tmp_path / "store.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript((DATA.parent / "version_2" / "store-version-3.sql").read_text(encoding="utf-8"))
    queued = db.execute("SELECT outcome_id, sink, state, attempts, next_try, last_error FROM outbox").fetchall()
    bodies = db.execute("SELECT body FROM outcome_bodies ORDER BY seq").fetchall()
    db.close()

    with SqliteStore.open(path, mode="own") as opened:
        rows = opened.deliveries()
        due = opened.due_deliveries("jsonl:a", limit=10, now=2e9)
        ledger = opened.ledger()
        outcomes = [outcome.model_dump_json() for outcome in opened.outcomes()]

    assert len(rows) == len(queued) == 14
    assert {"outcome"} == {row.kind for row in rows}
    assert sorted(queued, key=str) == sorted(
        ((r.item_id, r.sink, r.state, r.attempts, r.next_try, r.last_error) for r in rows), key=str
    )
    assert [body for (body,) in bodies] == outcomes
    assert 3 == len(due)
    assert {None} == {delivery.app for delivery in due}
    counts = ledger.outbox["jsonl:a"]
    assert (3, 2, 1, 1) == (counts.pending, counts.sent, counts.skipped, counts.failed)
    assert "401" == ledger.outbox["otlp"].stopped


def test_failed_deliveries_can_be_tried_again(store: Path):
    """A state that had another name is found by its new one."""
    with SqliteStore.open(store, mode="own") as opened:
        assert 2 == opened.requeue_deliveries(sink="otlp", state="failed")


def test_the_spool_takes_records_of_version_1():
    """A segment that an older application wrote."""
    old = {"entry": "captured", "schema_version": 1, "trace": lines("traces.jsonl")[0]}
    old["trace"] = migrate(old["trace"])

    entry = spool_entry_adapter.validate_python(migrate(old))

    assert isinstance(entry, Captured)
    assert 2 == len(entry.trace.retrievals)


def test_old_traces_are_replayed(tmp_path: Path):
    """A file that an older version exported."""
    report = replay_traces([str(DATA / "traces.jsonl")], "ranking", store=str(tmp_path / "s.db"), judge="lexical")

    assert 3 == report.files[0].n_new


def test_old_outcomes_are_compared(tmp_path: Path):
    """Files of `evaluate --output`, of this and of an older version, have the same values."""
    old = tmp_path / "old.jsonl"
    old.write_text((DATA / "outcomes.jsonl").read_text(encoding="utf-8"), encoding="utf-8")
    new = tmp_path / "new.jsonl"
    new.write_text(
        "".join(
            outcome_adapter.validate_python(migrate(line)).model_dump_json() + "\n" for line in lines("outcomes.jsonl")
        ),
        encoding="utf-8",
    )

    result = compare({"old": old, "new": new}, metrics=["ccrs.cc"])

    assert 0.0 == result.metrics[0].pairs[0].difference


def test_a_store_of_version_4_keeps_everything_and_has_no_labels(tmp_path: Path):
    """Outcomes and deliveries stay what they are, and labels can be saved."""
    path = tmp_path / "store.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript((DATA.parent / "version_2" / "store-version-4.sql").read_text(encoding="utf-8"))
    queued = db.execute("SELECT kind, item_id, sink, state, attempts FROM outbox ORDER BY seq").fetchall()
    bodies = db.execute("SELECT body FROM outcome_bodies ORDER BY seq").fetchall()
    db.close()
    label = StoredLabel("with-app", "ann", 0.5, 60.0)

    with SqliteStore.open(path, mode="own") as opened:
        assert bodies == [(outcome.model_dump_json(),) for outcome in opened.outcomes()]
        assert sorted(queued) == sorted((r.kind, r.item_id, r.sink, r.state, r.attempts) for r in opened.deliveries())
        assert {"with-app": "bot"} == opened.request_labels("app")
        assert [] == opened.labels() == opened.drawn_requests()
        opened.save_labels([label])
        assert [label] == opened.labels()


def test_a_store_of_version_7_keeps_its_ledger(tmp_path: Path):
    """Outcomes, deliveries, labels and alarms stay what they are, and the counters equal the rows."""
    path = tmp_path / "store.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript((DATA.parent / "version_3" / "store-version-7.sql").read_text(encoding="utf-8"))
    bodies = db.execute("SELECT body FROM outcome_bodies ORDER BY seq").fetchall()
    db.close()

    with SqliteStore.open(path, mode="own", clock=lambda: 1_790_000_030.0) as opened:
        ledger = opened.ledger()
        assert bodies == [(outcome.model_dump_json(),) for outcome in opened.outcomes()]
        assert [] == opened.recount(correct=False)
        assert ["scored"] == [label.trace_id for label in opened.labels()]
        assert ["before"] == [removed.trace_id for removed in opened.removed_texts()]
        assert ["2:opened"] == [alarm.id for alarm in opened.due_alarms("jsonl:a", limit=9)]
        assert 7 == len(opened.due_deliveries("jsonl:a", limit=99, now=2e9))
        assert opened.complete("partial", [])

    assert LedgerRow(
        captured=11, scored=2, sampled_out=1, not_applicable=1, failed=2, dropped=3, pending=2
    ) == ledger.total  # fmt: skip
    assert {
        "grounded": LedgerRow(captured=9, scored=2, sampled_out=1, not_applicable=1, failed=1, dropped=3, pending=1),
        "recall": LedgerRow(captured=11, scored=1, sampled_out=1, not_applicable=4, failed=0, dropped=3, pending=2),
    } == ledger.metrics
    counts = {sink: (c.pending, c.sent, c.skipped, c.failed) for sink, c in ledger.outbox.items()}
    assert {"jsonl:a": (8, 4, 0, 1), "otlp": (6, 0, 1, 0), "gone": (2, 2, 0, 0)} == counts
    assert "401" == ledger.outbox["otlp"].stopped


def test_a_store_of_version_8_delivers_each_outcome_once(tmp_path: Path):
    """Deliveries keep their states; those that were sent need no row, except before the sink received everything."""
    path = tmp_path / "store.db"
    db = sqlite3.connect(path, isolation_level=None)
    db.executescript((DATA.parent / "version_3" / "store-version-8.sql").read_text(encoding="utf-8"))
    queued = db.execute("SELECT kind, item_id, sink, state, last_error FROM outbox").fetchall()
    bodies = db.execute("SELECT body FROM outcome_bodies ORDER BY seq").fetchall()
    db.close()

    with SqliteStore.open(path, mode="own", clock=lambda: 1_790_000_030.0) as opened:
        assert bodies == [(outcome.model_dump_json(),) for outcome in opened.outcomes()]
        assert [] == opened.recount(correct=False)
        rows = opened.deliveries()
        assert sorted(queued, key=str) == sorted(
            ((r.kind, r.item_id, r.sink, r.state, r.last_error) for r in rows), key=str
        )
        counts = {sink: (c.pending, c.sent, c.skipped, c.failed) for sink, c in opened.ledger().outbox.items()}
        assert {"jsonl": (4, 4, 1, 1), "otlp": (4, 6, 0, 0), "gone": (1, 1, 0, 0)} == counts
        assert opened.ledger().outbox["otlp"].stopped == "401"
        assert 2 == len(opened.due_deliveries("jsonl", limit=99))
        due = opened.due_deliveries("jsonl", limit=99, now=2e9)
        assert 3 == len(due)
        opened.mark_sent("jsonl", [item.id for item in due])
        assert [] == opened.due_deliveries("jsonl", limit=99, now=2e9)
        assert ["2:opened"] == [alarm.id for alarm in opened.due_alarms("jsonl", limit=9)]
        # The outcomes before the sink joined were not sent to it.
        assert 2 == opened.deliver_again("jsonl", since=0, until=2e9)
        assert 0 == opened.deliver_again("otlp", since=0, until=2e9)
        assert 6 == opened.requeue_deliveries(sink="otlp", state="sent")
        assert 10 == len(opened.due_deliveries("otlp", limit=99, now=2e9))
        assert [] == opened.recount(correct=False)
        left = opened._database._connection.execute("SELECT sink, state, count(*) FROM outbox GROUP BY 1, 2").fetchall()
    assert {
        ("gone", "pending", 1), ("gone", "sent", 1), ("jsonl", "failed", 1), ("jsonl", "pending", 3), ("jsonl", "sent", 1),
        ("jsonl", "skipped", 1), ("otlp", "pending", 4),
    } == set(left)  # fmt: skip
