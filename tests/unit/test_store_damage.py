"""Damage of a store: a changed text, score, id or label is seen when it is read, and named."""

from __future__ import annotations

import itertools
import re
import sqlite3
from pathlib import Path

import pytest

from completions import complete
from ragstone.errors import StoreCorruptError
from ragstone.schema import Captured, Feedback, Passage, Retrieval, Score, Trace
from ragstone.store import Completion, DrawnRequest, PlannedMetric, SqliteStore, StoredLabel, StoredTrial
from ragstone.store._sql import PAGE
from stored_bodies import body_texts, rewrite_bodies

METRIC = PlannedMetric(name="m", version="1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three scored requests, labels and feedback."""
    path = tmp_path / "store.db"
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([METRIC], [])
        passages = [Passage(text=f"Passage {n} about the ferry.", id=f"p{n}") for n in range(4)]
        entries = [
            Captured(
                trace=Trace(
                    trace_id=f"t{n}",
                    query=f"Question {n}?",
                    response=f"Answer {n}.",
                    retrievals=[Retrieval(query="q", passages=passages)],
                    started_at=100.0 + n,
                    session_id="null \0 here",
                )
            )
            for n in range(3)
        ]
        feedback = Feedback(request_id="t0", value=1.0, comment="good", given_at=5.0)
        store.traces.ingest("a", 4, [*entries, feedback])
        for n in range(3):
            complete(
                store, f"t{n}", [Score(sample_id=f"t{n}", metric="m", metric_version="1", value=n / 4, method="exact")]
            )
        store.labels.save([StoredLabel("t0", "ann", 1.0, 7.0)])
        store.labels.save([DrawnRequest("t0", 0.5, 1)])
        store.labels.save([StoredTrial("trial", "{}")])
    return path


def read_all(path: Path) -> None:
    """Use everything that reads bodies or checked columns."""
    with SqliteStore.open(path, mode="read") as store:
        list(store.traces.read())
        list(store.outcomes.read())
        store.outcomes.count()
        list(store.outcomes.export(include_text=True))
        store.labels.read()
        store.labels.drawn()
        store.labels.trials()
        for n in range(3):
            store.traces.explain(f"t{n}")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("UPDATE outcomes SET value = 0.9 WHERE seq = 2", "outcomes"),
        ("UPDATE outcomes SET outcome_id = 'x' WHERE seq = 2", "outcome_bodies 'x'"),
        ("UPDATE traces SET inclusion_probability = 0.25 WHERE seq = 2", "traces 't1'"),
        ("UPDATE traces SET session_id = 's' WHERE seq = 2", "traces 't1'"),
        ("UPDATE traces SET trace_id = 'tt' WHERE seq = 2", "trace_bodies 'tt'"),
        ("UPDATE trace_bodies SET body = (SELECT body FROM trace_bodies WHERE seq = 1) WHERE seq = 2", "'t1'"),
        ("UPDATE outcome_bodies SET body = (SELECT body FROM outcome_bodies WHERE seq = 1) WHERE seq = 2", "belongs"),
        ("UPDATE trace_bodies SET body = CAST(body AS TEXT) WHERE seq = 2", "trace_bodies 't1'"),
        ("UPDATE trace_bodies SET body = substr(body, 1, 60) WHERE seq = 2", "trace_bodies 't1'"),
        ("UPDATE trace_bodies SET body = CAST(body || x'00' AS BLOB) WHERE seq = 2", "right length"),
        ("UPDATE trace_bodies SET body = 7 WHERE seq = 2", "trace_bodies 't1'"),
        ("UPDATE outcome_bodies SET body = x'' WHERE seq = 2", "outcome_bodies"),
        ("DELETE FROM outcome_bodies WHERE seq = 2", "outcome_bodies"),
        ("UPDATE outcomes SET metric = 'n' WHERE seq = 2", "outcomes 'm'"),
        ("UPDATE labels SET value = 0.5", "labels 't0'"),
        ("UPDATE label_frame SET probability = 0.25", "label_frame 't0'"),
        ("UPDATE trials SET body = '[]'", "trials 'trial'"),
        ("UPDATE feedback SET comment = 'bad'", "feedback 't0'"),
        ("UPDATE feedback SET value = 'bad'", "feedback 't0'"),
    ],
)
def test_a_changed_row_is_seen(path: Path, change: str, named: str) -> None:
    """The error names the table, the row and the command that lists the others."""
    read_all(path)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA ignore_check_constraints = ON")
    db.execute(change)
    db.close()
    with pytest.raises(StoreCorruptError) as caught:
        read_all(path)
    assert named in str(caught.value)
    assert f"ragstone store verify {path}" in str(caught.value)


def test_a_body_that_another_program_wrote_is_not_quoted(path: Path) -> None:
    """A right checksum is not enough: the record must be valid, and the value of its row."""
    db = sqlite3.connect(path, isolation_level=None)
    rewrite_bodies(db, "outcome_bodies", lambda text: text.replace('"value":0.0', '"value":0.125'))
    db.close()
    with pytest.raises(StoreCorruptError, match=r"its value 0\.0 differs from that of its body"):
        read_all(path)


def test_an_export_shows_nothing_that_has_no_checksum(path: Path) -> None:
    """Whether an outcome was backfilled has none."""
    with SqliteStore.open(path, mode="read") as store:
        before = list(store.outcomes.export())
    db = sqlite3.connect(path)
    db.execute("UPDATE outcomes SET backfilled = 0.5")
    db.commit()
    db.close()
    with SqliteStore.open(path, mode="read") as store:
        assert before == list(store.outcomes.export())


def test_an_outcome_is_not_shown_at_another_request(path: Path) -> None:
    """The column that names its request has no checksum, so it is compared with the body."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("DELETE FROM outcomes WHERE seq = 1")
    db.execute("UPDATE outcomes SET sample_id = 't0' WHERE seq = 2")
    db.close()
    with SqliteStore.open(path, mode="read") as store:
        reads = (
            lambda: list(store.outcomes.export()),
            lambda: store.traces.explain("t0"),
            lambda: store.traces.answers(["t0"]),
        )
        for read in reads:
            with pytest.raises(StoreCorruptError, match="its request is not that of its body"):
                read()


def test_each_bit_of_a_body_counts(path: Path) -> None:
    """No single changed bit of a compressed body changes the outcome unseen. Those that pad its last byte have no meaning."""
    db = sqlite3.connect(path, isolation_level=None)
    (body,) = db.execute("SELECT body FROM outcome_bodies WHERE seq = 1").fetchone()
    db.close()
    unseen = 0
    with SqliteStore.open(path, mode="own") as store:
        before = list(store.outcomes.read())
        for place in range(8 * len(body)):
            changed = bytearray(body)
            changed[place // 8] ^= 1 << place % 8
            with store._database.write() as db:
                db.execute("UPDATE outcome_bodies SET body = ? WHERE seq = 1", (bytes(changed),))
            try:
                assert before == list(store.outcomes.read())
                unseen += 1
            except StoreCorruptError:
                pass
    assert unseen < 8


def test_bodies_are_compressed_and_text_again(path: Path) -> None:
    """The file holds less than the JSON, and what is read equals what was written."""
    db = sqlite3.connect(path)
    (stored,) = db.execute("SELECT sum(length(body)) FROM trace_bodies").fetchone()
    texts = body_texts(db, "trace_bodies")
    db.close()
    assert stored < 0.4 * sum(map(len, texts))
    with SqliteStore.open(path, mode="read") as store:
        assert texts == [trace.model_dump_json() for trace in store.traces.read()]


def test_a_damaged_page_is_an_error_of_the_store(path: Path) -> None:
    """Zeros in each page of the file: an error of Ragstone or the same answer, and nothing else."""
    original = path.read_bytes()
    with SqliteStore.open(path, mode="read") as store:
        before = [list(store.traces.read()), list(store.outcomes.read()), store.labels.read()]
    seen = 0
    for start in range(0, len(original), 4096):
        path.write_bytes(original[:start] + bytes(4096) + original[start + 4096 :])
        try:
            with SqliteStore.open(path, mode="read") as store:
                after = [list(store.traces.read()), list(store.outcomes.read()), store.labels.read()]
        except StoreCorruptError:
            seen += 1
            continue
        assert all(found in before[0] for found in after[0])
        assert all(found in before[1] for found in after[1])
    assert seen > 3


def test_reading_ends_if_the_order_of_rows_is_damaged(tmp_path: Path) -> None:
    """A row with the key of the last row of the page before would be found again and again."""
    n, place, key = 2 * PAGE + 10, 2 * PAGE, PAGE
    path = tmp_path / "s.db"
    with SqliteStore.open(path, mode="own") as store:
        store.traces.ingest(
            "a", n, [Captured(trace=Trace(trace_id=f"t{k}", started_at=100.0 + k)) for k in range(1, n + 1)]
        )
        scores = [
            Score(sample_id=f"t{k}", metric="m", metric_version="1", value=0.5, method="exact") for k in range(1, n + 1)
        ]
        store.outcomes.complete_many([Completion(trace_id=score.sample_id, outcomes=[score]) for score in scores])
        store.checkpoint()
    data = path.read_bytes()
    # A cell is the length of its record, the key, and the record: the length of its header, types, and then the id.
    ids = [found.start() for found in re.finditer(scores[place - 1].id.encode(), data)]
    [start] = {
        at - size - 2
        for at in ids
        for size in range(5, 40)
        if data[at - size] == size and varint(place) == data[at - size - 2 : at - size]
    }
    path.write_bytes(data[:start] + varint(key) + data[start + 2 :])
    with SqliteStore.open(path, mode="read") as store:
        with pytest.raises(StoreCorruptError, match="the order of the rows is damaged"):
            list(itertools.islice(store.outcomes.read(), 3 * n))
        with pytest.raises(StoreCorruptError, match="the order of the rows is damaged"):
            list(itertools.islice(store.outcomes.export(include_text=False), 3 * n))
        found = store.upkeep.verify()
    assert found.damaged["outcomes"]
    assert any("the order of the rows is damaged" in row.problem for row in found.rows)
    assert PAGE <= found.checked["outcomes"] < n


def varint(number: int) -> bytes:
    """A number from 128 to 16,383 as SQLite writes it."""
    return bytes([0x80 | number >> 7, number & 0x7F])


def test_a_report_sees_a_changed_score(path: Path) -> None:
    """It reads scores from an index, without the bodies, and compares them with the sum of their checksums."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("UPDATE outcomes SET value = 0.9 WHERE seq = 2")
    db.close()
    with SqliteStore.open(path, mode="read") as store:
        for by_trace in (False, True):
            with pytest.raises(StoreCorruptError, match="differ from their counters"):
                store.outcomes.count(by_trace=by_trace)


def test_feedback_of_another_request_is_not_shown(path: Path) -> None:
    """Its own checksum does not have the request that it was matched to."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("UPDATE feedback SET trace_id = 't1'")
    db.close()
    with SqliteStore.open(path, mode="read") as store:
        report = store.traces.explain("t1")
    assert report is not None
    assert not report.feedback
