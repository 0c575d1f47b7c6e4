"""A disk that fills up or fails, a file that turns read-only, a row that rots, a process that is killed."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from command_line import run_command
from completions import complete
from ragstone.errors import StoreCorruptError, StoreError
from ragstone.schema import Captured, LedgerRow, Score, Trace
from ragstone.store import PlannedMetric, SqliteStore
from stored_bodies import rewrite_bodies

METRIC = PlannedMetric(name="m", version="1")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the store will be."""
    return tmp_path / "store.db"


def batch(first: int, n: int = 50) -> list[Captured]:
    """Entries of about a kilobyte each."""
    return [Captured(trace=Trace(trace_id=f"t{i}", query="q" * 1000, started_at=0.0)) for i in range(first, first + n)]


def test_an_interrupted_step_stores_nothing_and_the_next_one_succeeds(path: Path):
    """Ctrl-C in a transaction."""
    with SqliteStore.open(path, mode="own") as store:
        with pytest.raises(KeyboardInterrupt), store.watch.change() as tables:
            tables.save_budget({"n": 1})
            raise KeyboardInterrupt
        with store.watch.read() as tables:
            assert tables.budget() is None


def test_a_store_waits_for_another_program_also_after_a_checkpoint(path: Path):
    """A checkpoint itself waits for nobody, because the next one can do its work."""
    with SqliteStore.open(path, mode="own") as store:
        store.checkpoint()
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.2, other.rollback)
        release.start()
        store.plan.set([], [])
        release.join()
        other.close()


def score(trace_id: str) -> Score:
    """An outcome of the planned metric."""
    return Score(sample_id=trace_id, metric="m", metric_version="1", value=0.5, method="exact")


def alter(store: SqliteStore, statement: str) -> None:
    """Change the file under an open store."""
    store._database._connection.execute(statement)


class TestDisk:
    """Nothing is half stored, the error says what to do, and the store continues when the disk does."""

    def test_a_full_disk_loses_nothing_that_was_stored(self, path: Path):
        """The batch that did not fit is not there at all; with space again it is taken."""
        with SqliteStore.open(path, mode="own", clock=lambda: 0.0) as store:
            store.plan.set([METRIC], ["jsonl"])
            store.traces.ingest("a", 50, batch(0))
            before = store.ledger()
            alter(store, "PRAGMA max_page_count = 40")

            with pytest.raises(StoreError, match="no space left for the store"):
                store.traces.ingest("a", 1050, batch(50, 1000))
            assert before == store.ledger()
            assert {"a": 50} == store.traces.segment_offsets()

            alter(store, "PRAGMA max_page_count = 100000")
            assert 1000 == store.traces.ingest("a", 1050, batch(50, 1000))

    def test_a_file_that_turns_read_only_says_so(self, path: Path):
        """Reading continues, and writing does when it may again."""
        with SqliteStore.open(path, mode="own") as store:
            store.traces.ingest("a", 50, batch(0))
            alter(store, "PRAGMA query_only = 1")

            with pytest.raises(StoreError, match=r"cannot be written.*write permission"):
                complete(store, "t1", [score("t1")])
            assert 50 == store.ledger().total.pending

            alter(store, "PRAGMA query_only = 0")
            assert complete(store, "t1", [])

    def test_a_write_that_the_system_refuses_leaves_a_good_store(self, path: Path):
        """A real refusal by the kernel, here at a file-size limit, inside a commit."""
        code = """
import resource, signal, sys
from ragstone.errors import StoreError
from ragstone.schema import Captured, Trace
from ragstone.store import SqliteStore

def batch(n):
    return [Captured(trace=Trace(trace_id=f"t{n}-{i}", query="q" * 1000, started_at=0.0)) for i in range(50)]

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with SqliteStore.open(sys.argv[1], mode="own") as store:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
    n = 0
    while True:
        try:
            store.traces.ingest("a", n + 1, batch(n))
        except StoreError as error:
            assert "disk error for the store" in str(error), error
            break
        n += 1
    assert 1 < n, n
    assert (50 * n, {"a": n}) == (store.ledger().total.pending, store.traces.segment_offsets())
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert 50 == store.traces.ingest("a", n + 1, batch(n))
    assert store.ledger().total.balanced
print(n + 1)
"""
        done = subprocess.run(
            [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False, timeout=240
        )

        assert ("", 0) == (done.stderr, done.returncode)
        assert 50 * int(done.stdout) == check(path).captured

    def test_another_program_that_holds_the_file_is_named_as_the_reason(self, path: Path):
        """A database browser with an open transaction, say."""
        with SqliteStore.open(path, mode="own") as store:
            alter(store, "PRAGMA busy_timeout = 0")
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")

            with pytest.raises(StoreError, match="has been locked by another process"):
                store.leases.release_all()

            other.execute("ROLLBACK")
            other.close()
            assert 0 == store.leases.release_all()


class TestRot:
    """A row that cannot be read is told, and does not stop the others."""

    def test_a_trace_that_cannot_be_read_is_not_claimed_for_ever(self, path: Path):
        """It ends as a failure with its reason, and the next trace gets its turn."""
        with SqliteStore.open(path, mode="own") as store:
            store.plan.set([METRIC], [])
            store.traces.ingest("a", 3, batch(0, 3))
            alter(store, "UPDATE trace_bodies SET body = replace(body, 'started_at', 'stopped_at') WHERE seq = 1")
            alter(store, "DELETE FROM trace_bodies WHERE seq = 2")

            assert ["t2"] == [trace.trace_id for trace in store.leases.claim("me", 3, lease_s=60)]

            assert LedgerRow(captured=3, failed=2, pending=1) == store.ledger().total
            (failure, _) = store.outcomes.read(metric="m")
            assert ("bug", True) == (failure.kind, "differs from its checksum" in failure.reason)
            with pytest.raises(
                StoreCorruptError,
                match=r"store\.db' is damaged: the row of trace_bodies 't0' is damaged: .* `ragstone store verify ",
            ):
                store.traces.get("t0")

    def test_what_cannot_be_read_is_not_quoted(self, path: Path):
        """An error message goes into logs; what a user asked does not."""
        with SqliteStore.open(path, mode="own") as store:
            store.traces.ingest("a", 1, [Captured(trace=Trace(trace_id="t0", query="my secret", started_at=0.0))])
            with store._database.write() as db:
                rewrite_bodies(db, "trace_bodies", lambda text: text.replace('"my secret"', '["my secret"]'))

            with pytest.raises(StoreCorruptError, match="wrong at query") as caught:
                store.traces.get("t0")

            assert "my secret" not in str(caught.value)

    def test_an_outcome_that_cannot_be_read_is_damage(self, path: Path):
        """Not a crash of pydantic."""
        with SqliteStore.open(path, mode="own") as store:
            store.plan.set([METRIC], [])
            store.traces.ingest("a", 1, batch(0, 1))
            complete(store, "t0", [score("t0")])
            alter(store, "UPDATE outcome_bodies SET body = '{}'")

            with pytest.raises(StoreCorruptError, match=r"outcome_bodies .* differs from its checksum"):
                list(store.outcomes.read())

    def test_a_recount_finds_a_lost_row(self, path: Path):
        """The counter of its state does not change with it."""
        with SqliteStore.open(path, mode="own") as store:
            store.plan.set([METRIC], [])
            store.traces.ingest("a", 3, batch(0, 3))
            alter(store, "DELETE FROM trace_bodies WHERE seq = 2")
            alter(store, "DELETE FROM traces WHERE seq = 2")

            assert [("traces pending", 3, 2)] == store.upkeep.recount()

    def test_planning_again_does_not_hide_a_lost_outcome(self, path: Path):
        """What a metric owes is fixed when it joins the plan, not made to fit at each start."""
        with SqliteStore.open(path, mode="own") as store:
            store.plan.set([METRIC], [])
            store.traces.ingest("a", 2, batch(0, 2))
            complete(store, "t0", [score("t0")])
            alter(store, "DELETE FROM outcome_bodies")
            alter(store, "DELETE FROM outcomes")

            store.plan.set([METRIC], [])

            assert [("m score (version '1', judge '')", 1, 0)] == store.upkeep.recount()


WRITER = """
import sys
from ragstone.schema import Captured, Dropped, Score, Trace
from ragstone.store import Completion, PlannedMetric, SqliteStore

with SqliteStore.open(sys.argv[1], mode="own") as store:
    store.leases.release_all()
    store.plan.set([PlannedMetric(name="m", version="1")], ["jsonl"])
    n = store.traces.segment_offsets().get("a", 0)
    while True:
        entries = [Captured(trace=Trace(trace_id=f"t{i}", query="q" * 1000, started_at=0.0)) for i in range(n, n + 50)]
        store.traces.ingest("a", n + 50, [*entries, Dropped(reason="test", n=1, at=0.0)])
        n += 50
        for trace in store.leases.claim("me", 20, lease_s=60):
            score = Score(sample_id=trace.trace_id, metric="m", metric_version="1", value=0.5, method="exact")
            [done] = store.outcomes.complete_many([Completion(trace_id=trace.trace_id, outcomes=[score], owner="me")])
            assert done is True
            print(n, trace.trace_id, flush=True)
"""


def check(path: Path) -> LedgerRow:
    """The total of a store that must be whole: SQLite finds no fault, the ledger adds up."""
    db = sqlite3.connect(path)
    assert [("ok",)] == db.execute("PRAGMA integrity_check").fetchall()
    assert [] == db.execute("PRAGMA foreign_key_check").fetchall()
    db.close()
    with SqliteStore.open(path, mode="read") as store:
        ledger = store.ledger()
    assert ledger.total.balanced
    assert all(row.balanced for row in ledger.metrics.values())
    return ledger.total


class TestKill:
    """`kill -9` in the middle of writing."""

    def test_what_was_acknowledged_is_there_and_batches_are_whole(self, path: Path):
        """Five owners in a row are killed; each time the next finds all that was promised, and continues."""
        acknowledged: list[str] = []
        for acknowledgements in (1, 7, 20, 33, 64):
            with subprocess.Popen(
                [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
            ) as child:
                lines = [child.stdout.readline().split() for _ in range(acknowledgements)]
                child.send_signal(signal.SIGKILL)
                # What it managed to say before the signal counts too; a torn last line does not.
                lines += [line.split() for line in child.stdout.read().split("\n")[:-1]]
            acknowledged += [trace_id for _, trace_id in lines]
            offset = max(int(n) for n, _ in lines)

            with SqliteStore.open(path, mode="read") as reader:
                stored = reader.traces.segment_offsets()["a"]
                traces = [trace.trace_id for trace in reader.traces.read()]
                outcomes = [outcome.sample_id for outcome in reader.outcomes.read()]
                queued = [item.trace_id for item in reader.deliveries.due("jsonl", limit=10**6)]

            total = check(path)
            assert stored >= offset
            assert [f"t{i}" for i in range(stored)] == traces
            assert (stored // 50, stored + stored // 50) == (total.dropped, total.captured)
            assert outcomes == queued
            assert len(outcomes) == len(set(outcomes)) == total.scored
            assert set(acknowledged) <= set(outcomes)


@pytest.mark.parametrize(
    "command", [("traces", "t0"), ("compare", "OTHER"), ("status",), ("view", "--listen", "127.0.0.1:0")]
)
def test_a_command_names_the_store_that_another_program_has_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """Exit code 3, one line with the store once and the way out, and no traceback."""
    stores = [tmp_path / "a.db", tmp_path / "b.db"]
    for path in stores:
        with SqliteStore.open(path, mode="own"):
            pass
    monkeypatch.setattr("ragstone.store.sqlite.BUSY_TIMEOUT_S", 0.1)
    other = sqlite3.connect(stores[0], isolation_level=None)
    # With a log, readers do not wait for a writer.
    other.execute("PRAGMA journal_mode = DELETE")
    other.execute("BEGIN EXCLUSIVE")
    name, *arguments = (str(stores[1]) if word == "OTHER" else word for word in command)
    result = run_command(name, stores[0], *arguments)
    other.close()
    assert result.returncode == 3
    assert 1 == result.stderr.count(repr(str(stores[0]))), result.stderr
    assert "has been locked by another process" in result.stderr
    assert "Close other programs that have it open" in result.stderr
    assert "Traceback" not in result.stderr
