"""Labels in a store file: saved by readers while an owner writes, taken by the owner, never lost and never twice."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

import pytest

from live_store import make_store
from ragstone.errors import StoreError
from ragstone.store import DrawnRequest, SqliteStore, StoredLabel, StoredTrial, open_for_labels, settle_labels

ANN = StoredLabel("t1", "ann", 1.0, 10.0)
BOB = StoredLabel("t1", "bob", 0.0, 11.0)


def stored(path: Path) -> list[tuple[str, str, float]]:
    """The rows of the table itself."""
    db = sqlite3.connect(path)
    found = db.execute("SELECT trace_id, author, value FROM labels ORDER BY seq").fetchall()
    db.close()
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of three requests."""
    return make_store(tmp_path / "s.db", 3)


def test_labels_are_replaced_and_removed_by_author(path: Path):
    """One label for each request and author, the last one."""
    with SqliteStore.open(path, mode="own") as store:
        store.labels.save([ANN, BOB])
        store.labels.save([ANN._replace(value=0.5, labeled_at=12.0)])
        assert [BOB, ANN._replace(value=0.5, labeled_at=12.0)] == store.labels.read()
        store.labels.save([BOB._replace(value=None)])
        assert [ANN._replace(value=0.5, labeled_at=12.0)] == store.labels.read()
    assert [("t1", "ann", 0.5)] == stored(path)


def test_a_reader_saves_while_the_owner_runs(path: Path):
    """All see the label at once; the owner stores it with its next claim."""
    with SqliteStore.open(path, mode="own") as owner, open_for_labels(path) as reader:
        reader.labels.save([ANN])
        reader.labels.save([BOB])
        reader.labels.save([BOB._replace(value=None)])
        reader.labels.save([DrawnRequest("t2", 0.5, None), DrawnRequest("t1", 0.25, 0)])
        reader.labels.save([StoredTrial("b", "{}")])
        reader.labels.save([StoredTrial("b", "[]")])
        assert [] == stored(path)
        for store in (reader, owner):
            assert [StoredTrial("b", "[]")] == store.labels.trials()
            assert [ANN] == store.labels.read()
            assert [("t1", 0.25, 0), ("t2", 0.5, None)] == store.labels.drawn()
        owner.leases.claim("w", 1, lease_s=10)
        assert [("t1", "ann", 1.0)] == stored(path)
        assert 0 == (path.parent / "s.db.labels").stat().st_size
        assert [ANN] == reader.labels.read()
        assert [StoredTrial("b", "[]")] == reader.labels.trials()
        reader.labels.save([StoredTrial("b", "[1]")])
        assert [StoredTrial("b", "[1]")] == reader.labels.trials()
        assert [("t1", 0.25, 0), ("t2", 0.5, None)] == reader.labels.drawn()
        reader.labels.save([DrawnRequest("t1", 0.75, 0)])
        assert [("t1", 0.75, 0), ("t2", 0.5, None)] == reader.labels.drawn() == owner.labels.drawn()


def test_retention_keeps_texts_and_removes_requests_of_what_was_just_labeled(path: Path):
    """Also if the label still waits for the owner. Labeled requests alone would not represent what was captured."""
    with SqliteStore.open(path, mode="own") as owner, open_for_labels(path) as reader:
        ids = {trace.trace_id for trace in owner.traces.read()}
        reader.labels.save([StoredLabel(trace_id, "ann", 1.0, 10.0) for trace_id in ids])
        assert 0 == owner.upkeep.remove_texts(before=1e12)
        assert ids == {trace.trace_id for trace in owner.traces.read()}
        reader.labels.save([StoredLabel(trace_id, "ben", 1.0, 10.0) for trace_id in ids])
        assert 2 * len(ids) == owner.upkeep.count_requests(before=1e12).labels
        assert len(ids) == owner.upkeep.remove_requests(before=1e12)
        assert [] == reader.labels.read()


def test_a_reader_writes_to_the_store_file_never(path: Path):
    """Only its inbox changes."""
    before = path.read_bytes()
    with open_for_labels(path) as reader:
        reader.labels.save([ANN])
        with pytest.raises(StoreError, match="open for reading only"):
            reader.leases.release_all()
    assert before == path.read_bytes()
    assert 0o600 == (path.parent / "s.db.labels").stat().st_mode & 0o777


def test_a_crash_between_storing_and_emptying_changes_nothing(path: Path):
    """The same lines are stored again."""
    inbox = path.parent / "s.db.labels"
    with open_for_labels(path) as reader:
        reader.labels.save([ANN])
        reader.labels.save([DrawnRequest("t1", 0.25, 0)])
    lines = inbox.read_bytes()
    with SqliteStore.open(path, mode="own") as owner:
        owner.leases.claim("w", 0, lease_s=10)
        inbox.write_bytes(lines)
        assert [ANN] == owner.labels.read()
        owner.leases.claim("w", 0, lease_s=10)
        assert [ANN] == owner.labels.read()
        assert [("t1", 0.25, 0)] == owner.labels.drawn()


def test_a_failed_transaction_keeps_the_inbox(path: Path):
    """A label that the table refuses stays where it is, and so do the others."""
    with SqliteStore.open(path, mode="own") as owner, open_for_labels(path) as reader:
        reader.labels.save([ANN, BOB._replace(value=7.0)])
        with pytest.raises(StoreError):
            owner.leases.claim("w", 0, lease_s=10)
    assert [] == stored(path)
    assert (path.parent / "s.db.labels").stat().st_size > 0


def damaged_lines(path: Path) -> list[str]:
    """What the owner moved aside."""
    db = sqlite3.connect(path)
    found = [line for (line,) in db.execute("SELECT line FROM damaged_labels ORDER BY seq")]
    db.close()
    return found


def test_a_line_that_was_cut_is_counted(path: Path, caplog: pytest.LogCaptureFixture):
    """What a full disk or a lost power supply left behind does not damage the next label, and is not silent."""
    with open_for_labels(path) as reader:
        reader.labels.save([ANN])
        with (path.parent / "s.db.labels").open("ab") as file:
            file.write(b'["label", "t2", "a')
        assert [ANN] == reader.labels.read()
        assert "1 damaged lines of" in caplog.text
        reader.labels.save([BOB])
        assert [ANN, BOB] == reader.labels.read()
        assert ["1 lines of the labels that wait for the owner are damaged"] == reader.upkeep.verify().file
    settle_labels(path)
    assert "moved to the table damaged_labels. Save these labels again" in caplog.text
    assert ['["label", "t2", "a'] == damaged_lines(path)
    with open_for_labels(path) as reader:
        assert reader.upkeep.verify().ok


@pytest.mark.parametrize("end", [b"\n", b""])
def test_any_changed_byte_of_a_line_is_seen(path: Path, end: bytes):
    """A label is as it was saved, or its line is counted."""
    inbox = path.parent / "s.db.labels"
    with open_for_labels(path) as reader:
        reader.labels.save([ANN])
        line = inbox.read_bytes().removesuffix(b"\n")
        for at in range(len(line)):
            for bit in range(8):
                inbox.write_bytes(line[:at] + bytes([line[at] ^ 1 << bit]) + line[at + 1 :] + end)
                assert [] == reader.labels.read(), (at, bit)
                assert reader._database.inbox.read().damaged  # type: ignore[attr-defined]


def test_a_label_that_waits_and_is_replaced_is_the_newest(path: Path):
    """Labels are read oldest first, also after the owner has stored them."""
    with open_for_labels(path) as reader:
        reader.labels.save([ANN, BOB])
        reader.labels.save([ANN._replace(value=0.5)])
        assert [BOB, ANN._replace(value=0.5)] == reader.labels.read()
    settle_labels(path)
    with open_for_labels(path) as reader:
        assert [BOB, ANN._replace(value=0.5)] == reader.labels.read()


def test_labels_that_do_not_reach_the_disk_are_not_saved(path: Path, monkeypatch: pytest.MonkeyPatch):
    """None of them is read later, after the person was told to save them again."""

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with open_for_labels(path) as reader:
        reader.labels.save([ANN])
        with monkeypatch.context() as patch:
            patch.setattr("ragstone.store._label_inbox.os.fsync", fail)
            with pytest.raises(StoreError, match="None of them is stored"):
                reader.labels.save([BOB])
        assert [ANN] == reader.labels.read()


def test_a_folder_that_cannot_be_written(path: Path):
    """Named, with the way out."""
    (path.parent / "s.db.labels").mkdir()
    with (
        open_for_labels(path) as reader,
        pytest.raises(StoreError, match=r"labels cannot be written .*write permission"),
    ):
        reader.labels.save([ANN])


def test_labels_are_settled_unless_somebody_owns_the_store(path: Path):
    """By a process that owns the store for a moment, or by its owner."""
    with SqliteStore.open(path, mode="own"), open_for_labels(path) as reader:
        reader.labels.save([ANN])
        settle_labels(path)
        assert [] == stored(path)
    settle_labels(path)
    assert [("t1", "ann", 1.0)] == stored(path)
    SqliteStore.open(path, mode="own").close()  # the lock was released


@pytest.mark.skipif(os.name == "nt", reason="needs flock")
def test_two_writers_wait_for_each_other(path: Path, monkeypatch: pytest.MonkeyPatch):
    """A lock that is never released is an error after a while, not a hang."""
    import fcntl

    monkeypatch.setattr("ragstone.store._label_inbox._LOCK_S", 0.05)
    inbox = path.parent / "s.db.labels"
    with inbox.open("wb") as other, open_for_labels(path) as reader:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(StoreError, match="locked by another process"):
            reader.labels.save([ANN])
        fcntl.flock(other, fcntl.LOCK_UN)
        reader.labels.save([ANN])
        assert [ANN] == reader.labels.read()
