"""Opening, owning and recognizing a store file."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from ragstone.errors import (
    ConfigurationError,
    StoreCorruptError,
    StoreError,
    StoreNotReadyError,
    StoreOwnedError,
)
from ragstone.schema import SCHEMA_VERSION, Captured, LedgerRow, Trace
from ragstone.store import PlannedMetric, SqliteStore


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
        store.traces.ingest("a", n, [Captured(trace=Trace(trace_id=f"t{i}", started_at=0.0)) for i in range(n)])
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
                store.plan.set([], [])
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

        assert ([int.from_bytes(b"RGST"), SCHEMA_VERSION], "wal") == (found, mode)

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


def test_a_row_without_its_request_is_refused(path: Path):
    """The database itself refuses it, as PostgreSQL does, so that no step can leave texts of a removed request."""
    with own(path) as store, pytest.raises(StoreError, match="FOREIGN KEY"), store._database.write() as db:
        db.execute("INSERT INTO trace_bodies VALUES (7, 'x')")


class TestOwning:
    """One writing process a file."""

    def test_a_second_owner_is_sent_away(self, path: Path):
        """Also in the same process; with the way out, and without harm to the first."""
        with own(path) as store:
            with pytest.raises(StoreOwnedError, match=r"owned by this process already.*ragstone status"):
                own(path)
            store.plan.set([], [])

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

            store.plan.set([], ["jsonl"])
            with pytest.raises(StoreOwnedError):
                own(path)

    def test_threads_wait_for_each_other(self, path: Path):
        """A status page may ask while the worker writes."""
        with own(path) as store:

            def write(name: str) -> None:
                for i in range(50):
                    store.traces.ingest(name, i + 1, [Captured(trace=Trace(trace_id=f"{name}{i}", started_at=0.0))])
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
            store.traces.ingest("a", 1, [Captured(trace=Trace(trace_id="t1", started_at=0.0))])
            assert 1 == reader.ledger().total.pending

            store.traces.ingest("a", 2, [Captured(trace=Trace(trace_id="t2", started_at=0.0))])
            assert ["t1", "t2"] == [t.trace_id for t in reader.traces.read()]

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

    def test_a_change_whose_process_was_killed_is_undone(self, path: Path):
        """A new or restored file gets its log in a change of the whole file. A kill then leaves a journal to be played back."""
        alter(filled(path, 3), "PRAGMA journal_mode = DELETE")
        killed = path.with_name("killed.db")
        db = sqlite3.connect(path, isolation_level=None)
        for statement in (
            "PRAGMA cache_size = 1",
            "BEGIN IMMEDIATE",
            (
                "WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 2000) "
                "INSERT INTO meta SELECT 'lost' || n, n FROM i"
            ),
        ):
            db.execute(statement)
        for end in ("", "-journal"):
            shutil.copy(f"{path}{end}", f"{killed}{end}")
        db.close()
        with read(killed) as store:
            assert 3 == store.ledger().total.pending
        assert (False, 3) == (Path(f"{killed}-journal").exists(), own(killed).ledger().total.captured)

    def test_a_reader_cannot_write(self, path: Path):
        """Neither by a method nor by a checkpoint."""
        filled(path)

        with read(path) as reader:
            for write in (reader.leases.release_all, reader.checkpoint, lambda: reader.plan.set([], [])):
                with pytest.raises(StoreError, match="open for reading only"):
                    write()

    def test_a_long_read_does_not_block_a_checkpoint_for_long(self, path: Path):
        """A reader that holds a snapshot makes the checkpoint partial, and says so at once; the next one does it."""
        with own(path) as store, read(path) as reader:
            with reader._database.read() as db:
                db.execute("SELECT count(*) FROM traces").fetchone()
                store.plan.set([PlannedMetric(name="m", version="1")], [])
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

    @pytest.mark.parametrize("table", ["meta", "outbox"])
    @pytest.mark.parametrize("open_store", [own, read])
    def test_a_store_without_a_table_is_damaged(self, path: Path, open_store, table: str):
        """The message names what is missing."""
        alter(filled(path), f"DROP TABLE {table}")

        with pytest.raises(StoreCorruptError, match=rf"tables are missing \({table}\)"):
            open_store(path)

    def test_damage_found_later_is_damage_too(self, path: Path):
        """A page in the middle that no longer is what it was."""
        filled(path, 500)
        with path.open("r+b") as file:
            file.seek(60 * 4096)
            file.write(b"\xff" * (path.stat().st_size - 61 * 4096))

        with read(path) as store, pytest.raises(StoreCorruptError, match="is damaged"):
            list(store.traces.read())


@pytest.mark.parametrize(
    ("n_words", "n_copies", "share"), [(1, 1, 60.0), (500, 1, 0.6), (900, 1, 0.6), (2_000, 4, 0.2), (80_000, 1, 0.6)]
)
def test_bodies_of_any_length_are_compressed_and_read_as_they_were_written(tmp_path, n_words, n_copies, share):
    """A long body has a larger window than a short one, so that texts far apart that are equal are stored once."""
    words = " ".join([str(number * 7919 % 104_729) for number in range(n_words)] * n_copies)
    trace = Trace(trace_id="t", started_at=1.0, query="Why?", response=words)
    with SqliteStore.open(tmp_path / "a.db", mode="own") as store:
        store.traces.ingest("a", 1, [Captured(trace=trace)])
        assert trace == store.traces.get("t")
    with closing(sqlite3.connect(tmp_path / "a.db")) as db:
        (size,) = db.execute("SELECT length(body) FROM trace_bodies").fetchone()
    assert size < share * len(words)
