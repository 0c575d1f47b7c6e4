"""Opening, owning and recognizing a store file."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ragstone.errors import (
    ConfigurationError,
    StoreCorruptError,
    StoreError,
    StoreNotReadyError,
    StoreOwnedError,
    StoreVersionError,
)
from ragstone.schema import Captured, LedgerRow, Score, Trace
from ragstone.store import PlannedMetric, SqliteStore, _sqlite_tables

_NOW = _sqlite_tables.VERSION


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store will be."""
    return tmp_path / "store.db"


def own(path: Path) -> SqliteStore:
    """Open it to write."""
    return SqliteStore.open(path, mode="own")


def read(path: Path) -> SqliteStore:
    """Open it to look."""
    return SqliteStore.open(path, mode="read")


def filled(path: Path, n: int = 1) -> Path:
    """A store with `n` traces, closed."""
    with own(path) as store:
        store.ingest("a", n, [Captured(trace=Trace(trace_id=f"t{i}", started_at=0.0)) for i in range(n)])
    return path


def alter(path: Path, *statements: str) -> None:
    """Change a file behind the store's back."""
    db = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        db.execute(statement)
    db.close()


class TestMaking:
    """A new store."""

    def test_only_its_user_may_read_it(self, path: Path):
        """Questions and documents of strangers are in it, and in the files SQLite keeps beside it."""
        previous = os.umask(0o022)
        try:
            with own(path) as store:
                store.set_plan([], [])
                modes = {p.name: p.stat().st_mode & 0o777 for p in path.parent.iterdir() if p.suffix != ".lock"}
        finally:
            os.umask(previous)

        assert {"store.db": 0o600, "store.db-wal": 0o600, "store.db-shm": 0o600} == modes

    def test_access_somebody_chose_is_left_alone(self, path: Path):
        """Whoever opened the file to a group meant it."""
        filled(path).chmod(0o640)
        own(path).close()

        assert 0o640 == path.stat().st_mode & 0o777

    def test_the_file_says_what_it_is(self, path: Path):
        """`file` and other tools can tell a store from any other SQLite file; it is in WAL mode."""
        filled(path)
        db = sqlite3.connect(path)
        found = [db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        mode = db.execute("PRAGMA journal_mode").fetchone()[0]
        db.close()

        assert ([int.from_bytes(b"RGST"), _sqlite_tables.VERSION], "wal") == (found, mode)

    def test_an_empty_file_becomes_a_store_with_a_warning(self, path: Path, caplog: pytest.LogCaptureFixture):
        """A process that died between making the file and its tables must not be in the way for ever. Or the content is lost."""
        path.touch()

        with own(path) as store:
            assert LedgerRow() == store.ledger().total
        assert "was an empty file. If it had content before" in caplog.text
        caplog.clear()
        with own(path), own(path.with_name("new.db")):
            assert "" == caplog.text

    def test_odd_names_are_only_names(self, tmp_path: Path):
        """Characters that mean something in a URI are part of the file name."""
        path = tmp_path / "50% off?mode=memory#a b.db"

        with own(path), read(path) as reader:
            assert LedgerRow() == reader.ledger().total
        assert path.is_file()

    def test_the_directory_must_be_there(self, tmp_path: Path):
        """We make a file where we are told to, and no directories by surprise."""
        with pytest.raises(StoreError, match="Check that the directory exists"):
            own(tmp_path / "missing" / "store.db")

    def test_a_directory_is_no_store(self, tmp_path: Path):
        """The message says so."""
        (tmp_path / "folder").mkdir()

        with pytest.raises(StoreError, match="it is not a file"):
            own(tmp_path / "folder")
        with pytest.raises(StoreError, match="store not found"):
            read(tmp_path / "folder")

    @pytest.mark.parametrize(
        ("options", "message"),
        [({"mode": "write"}, "got 'write'"), ({"mode": "own", "max_attempts": 0}, "at least 1, got 0")],
    )
    def test_options_are_checked(self, path: Path, options, message: str):
        """Before anything is made."""
        with pytest.raises(ConfigurationError, match=message):
            SqliteStore.open(path, **options)

        assert [] == list(path.parent.iterdir())


class TestOwning:
    """One writing process a file."""

    def test_a_second_owner_is_sent_away(self, path: Path):
        """Also in the same process; with the way out, and without harm to the first."""
        with own(path) as store:
            with pytest.raises(StoreOwnedError, match=r"owned by this process already.*ragstone status"):
                own(path)
            store.set_plan([], [])

        own(path).close()

    def test_the_message_names_the_other_process(self, path: Path):
        """So that someone can go and stop it."""
        code = (
            "import sys; from ragstone.store import SqliteStore\n"
            "with SqliteStore.open(sys.argv[1], mode='own'):\n"
            "    print('ready', flush=True); sys.stdin.read()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as child:
            assert b"ready\n" == child.stdout.readline()
            with pytest.raises(StoreOwnedError, match=f"owned by process {child.pid},"):
                own(path)
            child.stdin.close()
            assert 0 == child.wait()

        own(path).close()

    def test_an_owner_nobody_knows_is_another_process(self, path: Path):
        """The lock counts, not what is written in it."""
        with own(path):
            path.with_name("store.db.lock").write_bytes(b"")
            with pytest.raises(StoreOwnedError, match="owned by another process,"):
                own(path)

    def test_a_failed_opening_leaves_no_lock(self, path: Path):
        """Once the file is repaired it can be opened, by this process or another."""
        path.write_bytes(b"not a database" * 100)
        with pytest.raises(StoreCorruptError):
            own(path)
        path.unlink()

        own(path).close()

    def test_a_lock_that_cannot_be_made_is_a_store_error(self, path: Path):
        """Whatever the file system says, with the way out."""
        path.with_name("store.db.lock").mkdir()

        with pytest.raises(StoreError, match=r"cannot be locked: Is a directory"):
            own(path)

    def test_a_forked_child_keeps_its_hands_off(self, path: Path):
        """It is told to open its own, and its closing takes nothing from the parent."""
        with own(path) as store:
            pid = os.fork()
            if pid == 0:  # pragma: no cover - another process
                try:
                    store.ledger()
                except StoreError as error:
                    store.close()
                    os._exit(0 if "cannot be used after a fork" in str(error) else 2)
                os._exit(1)
            assert 0 == os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

            store.set_plan([], ["jsonl"])
            with pytest.raises(StoreOwnedError):
                own(path)

    def test_threads_wait_for_each_other(self, path: Path):
        """A status page may ask while the worker writes."""
        with own(path) as store:

            def write(name: str) -> None:
                for i in range(50):
                    store.ingest(name, i + 1, [Captured(trace=Trace(trace_id=f"{name}{i}", started_at=0.0))])
                    balanced.append(store.ledger().total.balanced)

            balanced: list[bool] = []
            threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

            assert [True] * 200 == balanced
            assert 200 == store.ledger().total.captured


class TestReading:
    """Looking without owning."""

    def test_a_reader_sees_what_a_living_owner_stores(self, path: Path):
        """Each look is at the newest state."""
        with own(path) as store, read(path) as reader:
            store.ingest("a", 1, [Captured(trace=Trace(trace_id="t1", started_at=0.0))])
            assert 1 == reader.ledger().total.pending

            store.ingest("a", 2, [Captured(trace=Trace(trace_id="t2", started_at=0.0))])
            assert ["t1", "t2"] == [t.trace_id for t in reader.traces()]

    def test_a_reader_works_after_its_owner_has_closed(self, path: Path):
        """The usual case of a report, and it takes no ownership."""
        filled(path)

        with read(path) as reader, own(path):
            assert 1 == reader.ledger().total.pending

    def test_a_reader_makes_nothing(self, path: Path):
        """A mistyped path must not leave an empty store behind."""
        with pytest.raises(StoreError, match="store not found"):
            read(path)

        assert [] == list(path.parent.iterdir())

    @pytest.mark.parametrize("open_store", [own, read])
    def test_a_companion_file_that_cannot_be_made_is_explained(self, path: Path, open_store):
        """SQLite's own message names neither the file nor the reason."""
        filled(path)
        path.with_name("store.db-wal").mkdir()

        with pytest.raises(StoreError, match="where SQLite keeps two small files even for readers"):
            open_store(path)

    def test_a_store_that_is_not_set_up_yet(self, path: Path):
        """The owner has made the file and not yet its tables."""
        path.touch()

        with pytest.raises(StoreNotReadyError, match="has not initialized it yet"):
            read(path)

    def test_a_reader_cannot_write(self, path: Path):
        """Neither by a method nor by a checkpoint."""
        filled(path)

        with read(path) as reader:
            for write in (reader.release_all, reader.checkpoint, lambda: reader.set_plan([], [])):
                with pytest.raises(StoreError, match="open for reading only"):
                    write()

    def test_a_long_read_does_not_block_a_checkpoint_for_long(self, path: Path):
        """A reader that holds a snapshot makes the checkpoint partial, and says so at once; the next one does it."""
        with own(path) as store, read(path) as reader:
            with reader._database.read() as db:
                db.execute("SELECT count(*) FROM traces").fetchone()
                store.set_plan([PlannedMetric(name="m", version="1")], [])
                assert not store.checkpoint()
            assert store.checkpoint()


class TestRecognising:
    """Files that are not ours are left as they are; damage is told from absence."""

    @pytest.mark.parametrize("open_store", [own, read])
    def test_text_is_no_store(self, path: Path, open_store):
        """A JSONL file, say."""
        path.write_text('{"query": "Why?"}\n' * 200)

        with pytest.raises(StoreCorruptError, match="it is not a SQLite file"):
            open_store(path)

        assert path.read_text().startswith('{"query": "Why?"}')

    @pytest.mark.parametrize("open_store", [own, read])
    def test_a_file_of_another_program_is_left_alone(self, path: Path, open_store):
        """Not a byte changes, not even its journal mode."""
        alter(path, "CREATE TABLE cookies (name)", "INSERT INTO cookies VALUES ('a')")
        before = path.read_bytes()

        with pytest.raises(StoreCorruptError, match="of another program"):
            open_store(path)

        assert before == path.read_bytes()

    @pytest.mark.parametrize("open_store", [own, read])
    def test_a_store_cut_short_is_damaged(self, path: Path, open_store):
        """A copy that was interrupted, a disk that lost its end."""
        filled(path, 500)
        os.truncate(path, path.stat().st_size // 2)

        with pytest.raises(StoreCorruptError, match=r"is damaged.*ragstone store verify"):
            open_store(path)

    @pytest.mark.parametrize("open_store", [own, read])
    def test_a_store_without_a_table_is_damaged(self, path: Path, open_store):
        """The message names what is missing."""
        alter(filled(path), "DROP TABLE outbox")

        with pytest.raises(StoreCorruptError, match=r"tables are missing \(outbox\)"):
            open_store(path)

    @pytest.mark.parametrize("open_store", [own, read])
    def test_a_store_without_its_meta_table_is_damaged(self, path: Path, open_store):
        """The first table that is looked at is no exception."""
        alter(filled(path), "DROP TABLE meta")

        with pytest.raises(StoreCorruptError, match=r"is damaged: no such table: meta"):
            open_store(path)

    def test_damage_found_later_is_damage_too(self, path: Path):
        """A page in the middle that no longer is what it was."""
        filled(path, 500)
        with path.open("r+b") as file:
            file.seek(60 * 4096)
            file.write(b"\xff" * (path.stat().st_size - 61 * 4096))

        with read(path) as store, pytest.raises(StoreCorruptError, match="is damaged"):
            list(store.traces())

    @pytest.mark.parametrize(
        ("statement", "message"),
        [
            ("PRAGMA user_version = 99", f"has version 99, and this version of Ragstone reads versions up to {_NOW}"),
            ("UPDATE meta SET value = '9' WHERE key = 'schema_version'", "contains records of version 9"),
        ],
    )
    @pytest.mark.parametrize("open_store", [own, read])
    def test_a_newer_store_asks_for_a_newer_ragstone(self, path: Path, open_store, statement: str, message: str):
        """Tables and records have versions of their own."""
        alter(filled(path), statement)

        with pytest.raises(StoreVersionError, match=rf"{message}.*pip install --upgrade ragstone"):
            open_store(path)


class TestMigrating:
    """An older store is brought up to date by its owner, step by step."""

    @pytest.fixture
    def old(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A store two versions behind: this code plays one two versions on."""
        filled(path)
        monkeypatch.setattr(_sqlite_tables, "VERSION", _NOW + 2)
        return path

    def test_the_owner_takes_every_step(self, old: Path, monkeypatch: pytest.MonkeyPatch):
        """From each version to the next, in order, and what is stored stays."""
        monkeypatch.setitem(_sqlite_tables.MIGRATIONS, _NOW, lambda db: db.execute("CREATE TABLE second (a)"))
        monkeypatch.setitem(_sqlite_tables.MIGRATIONS, _NOW + 1, lambda db: db.execute("INSERT INTO second VALUES (2)"))

        with own(old) as store:
            assert 1 == store.ledger().total.pending
        with read(old) as store, store._database.read() as db:
            assert (_NOW + 2, 2) == (
                *db.execute("PRAGMA user_version").fetchone(),
                *db.execute("SELECT a FROM second").fetchone(),
            )

    def test_a_step_that_fails_changes_nothing(self, old: Path, monkeypatch: pytest.MonkeyPatch):
        """The steps before it are done, it is not, and the next start takes it up again."""

        def second(db: sqlite3.Connection) -> None:
            db.execute("CREATE TABLE half_done (a)")
            db.execute("SELECT no_such_function()")

        monkeypatch.setitem(_sqlite_tables.MIGRATIONS, _NOW, lambda db: db.execute("CREATE TABLE first (a)"))
        monkeypatch.setitem(_sqlite_tables.MIGRATIONS, _NOW + 1, second)
        with pytest.raises(StoreError, match="no_such_function"):
            own(old)

        db = sqlite3.connect(old)
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        assert (_NOW + 1, True, False) == (
            db.execute("PRAGMA user_version").fetchone()[0],
            "first" in tables,
            "half_done" in tables,
        )
        db.close()

    def test_without_a_way_the_message_says_so(self, old: Path):
        """A gap in the steps is told, not jumped."""
        with pytest.raises(StoreError, match=f"cannot be upgraded to version {_NOW + 2}"):
            own(old)

    def test_a_reader_waits_for_the_owner(self, old: Path):
        """Readers never write, so they cannot migrate."""
        with pytest.raises(StoreError, match=rf"older version {_NOW}.*start its Monitor or `ragstone worker`"):
            read(old)

    def test_a_store_of_version_1_is_brought_here(self, path: Path):
        """Deliveries keep their places and states, and get the time from which they wait; requests keep all they had."""
        filled(path)
        with own(path) as store:
            before = list(store.traces())
        _as_version_1(path)

        with own(path) as store:
            found = store.ledger()
            assert before == list(store.traces())
            assert (1, 1) == (found.outbox["jsonl"].pending, found.outbox["jsonl"].sent)
            assert [50.0, 50.0] == [row[0] for row in store._database._connection.execute("SELECT since FROM outbox")]
        fresh = path.with_name("fresh.db")
        own(fresh).close()
        assert _shape(fresh) == _shape(path)


def test_a_store_of_version_7_keeps_its_outcomes(path: Path):
    """Outcomes, queued ones and deliveries are those of before, and none is marked as backfilled."""
    filled(path)
    with own(path) as store:
        store.set_plan([PlannedMetric(name="m", version="1")], ["jsonl"])
        (trace,) = store.claim("w", 1, lease_s=60)
        score = Score(sample_id=trace.trace_id, metric="m", metric_version="1", value=0.5, method="exact")
        assert store.complete(trace.trace_id, [score])
        ledger = store.ledger()
    db = sqlite3.connect(path)
    db.executescript(
        """
        DROP TABLE sink_ranges;
        INSERT INTO outbox (kind, item_id, sink, since, next_try)
        SELECT 'outcome', outcome_id, 'jsonl', stored_at, stored_at FROM outcomes;
        DROP TABLE damaged_rows;
        DROP INDEX watch_queue_by_time;
        DROP TABLE feedback_rates;
        ALTER TABLE traces DROP COLUMN stream_probability;
        DROP TABLE feedback;
        DROP TABLE spend;
        DROP TABLE canaries;
        DROP TABLE canary_scores;
        ALTER TABLE traces DROP COLUMN slices;
        DROP TABLE outcome_counts;
        DROP INDEX traces_by_otel_id;
        DROP INDEX traces_sampled;
        ALTER TABLE outcomes DROP COLUMN backfilled;
        ALTER TABLE watch_queue DROP COLUMN backfilled;
        PRAGMA user_version = 7;
        """
    )
    db.close()
    with own(path) as store:
        assert [score] == list(store.outcomes())
        assert (ledger.total, ledger.metrics) == (store.ledger().total, store.ledger().metrics)
        connection = store._database._connection
        assert [(None,)] == connection.execute("SELECT backfilled FROM outcomes").fetchall()
        assert [(0.5, 0)] == connection.execute("SELECT value, backfilled FROM watch_queue").fetchall()
        assert 1 == len(store.deliveries(sink="jsonl", state="pending"))
    fresh = path.with_name("fresh.db")
    own(fresh).close()
    assert _shape(fresh) == _shape(path)


def _as_version_1(path: Path) -> None:
    """Turn a store back into what version 1 wrote, with two outcomes, one of which was delivered."""
    db = sqlite3.connect(path)
    db.executescript(
        """
        DROP TABLE sink_ranges;
        DROP TABLE damaged_rows;
        DROP INDEX watch_queue_by_time;
        DROP TABLE feedback_rates;
        ALTER TABLE traces DROP COLUMN stream_probability;
        DROP TABLE feedback;
        DROP TABLE spend;
        DROP TABLE canaries;
        DROP TABLE canary_scores;
        ALTER TABLE traces DROP COLUMN slices;
        DROP TABLE outcome_counts;
        DROP INDEX traces_by_otel_id;
        DROP INDEX traces_sampled;
        ALTER TABLE outcomes DROP COLUMN backfilled;
        DROP TABLE labels;
        DROP TABLE label_frame;
        ALTER TABLE sinks DROP COLUMN stopped;
        DROP INDEX traces_by_app;
        ALTER TABLE traces DROP COLUMN app;
        ALTER TABLE traces DROP COLUMN release;
        ALTER TABLE traces DROP COLUMN environment;
        ALTER TABLE traces DROP COLUMN otel_sampled;
        DROP INDEX traces_by_time;
        DROP INDEX traces_with_text;
        ALTER TABLE traces DROP COLUMN text_removed_at;
        DROP INDEX sessions_pending;
        DROP TABLE watch_queue;
        DROP TABLE watch_units;
        DROP TABLE streams;
        DROP TABLE alarms;
        DROP TABLE outbox;
        CREATE TABLE outbox (
            seq INTEGER PRIMARY KEY,
            outcome_id TEXT NOT NULL REFERENCES outcomes (outcome_id),
            sink TEXT NOT NULL,
            state TEXT NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'sent', 'failed')),
            attempts INTEGER NOT NULL DEFAULT 0,
            next_try REAL NOT NULL,
            last_error TEXT,
            UNIQUE (outcome_id, sink)
        );
        CREATE INDEX due_deliveries ON outbox (sink, next_try) WHERE state = 'pending';
        CREATE INDEX outbox_by_state ON outbox (sink, state);
        INSERT INTO outcomes (outcome_id, sample_id, metric, metric_version, judge_hash, kind, value, stored_at)
        SELECT 'a', trace_id, 'm', '1', '', 'failure', NULL, 50.0 FROM traces LIMIT 1;
        INSERT INTO outcomes (outcome_id, sample_id, metric, metric_version, judge_hash, kind, value, stored_at)
        SELECT 'b', trace_id, 'n', '1', '', 'failure', NULL, 50.0 FROM traces LIMIT 1;
        INSERT INTO outbox VALUES (1, 'a', 'jsonl', 'sent', 1, 50.0, NULL), (2, 'b', 'jsonl', 'pending', 2, 60.0, 'x');
        PRAGMA user_version = 1;
        """
    )
    db.close()


def _shape(path: Path) -> list[tuple[str, str, object]]:
    """The tables with their columns, and the indexes, of a store."""
    db = sqlite3.connect(path)
    found = sorted(db.execute("SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"))
    shape = [
        (t, n, sorted(row[1:4] for row in db.execute(f"PRAGMA table_info({n})")) if t == "table" else None)
        for t, n in found
    ]
    db.close()
    return shape
