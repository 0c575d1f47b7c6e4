"""Storing outcomes: single transactions, groups, and the same rows with nothing around them, as ratios of interleaved rounds."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest

from completions import complete
from postgres_server import serve_postgres
from ragstone.schema import Captured, Score, Trace
from ragstone.store import Completion, PlannedMetric, SqliteStore, Store, open_store
from ragstone.store._bodies import to_body
from ragstone.store._checksums import sum_checksums

pytestmark = pytest.mark.bench

METRICS = [PlannedMetric(name=f"m{i}", version="1", judge_hash="j") for i in range(5)]
SINKS = ["a", "b"]
GROUP = 30
"""Traces that gather while a group is stored, at a concurrency of 64."""
ROUNDS = 7
PER_ROUND = 10 * GROUP


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of the store."""
    return request.param


@pytest.fixture
def place(kind: str, tmp_path: Path) -> Iterator[Path | str]:
    """A file, or the URL of an empty database of a server that keeps nothing else."""
    if kind == "sqlite":
        yield tmp_path / "s.db"
        return
    with serve_postgres() as server:
        yield server.new_database()


def outcomes(trace_id: str) -> list[Score]:
    """Five scores with an explanation."""
    return [
        Score(sample_id=trace_id, metric=m.name, metric_version=m.version, judge_hash=m.judge_hash, value=0.5,
              method="expected", explanation="The answer follows from the second passage. " * 4)
        for m in METRICS
    ]  # fmt: skip


def fill(store: Store, name: str) -> list[Completion]:
    """Store pending traces, and return what completes them."""
    ids = [f"{name}-{i}" for i in range(PER_ROUND)]
    store.traces.ingest(name, 1, [Captured(trace=Trace(trace_id=i, started_at=1.0, query="q" * 200)) for i in ids])
    return [Completion(trace_id=i, outcomes=outcomes(i)) for i in ids]


def one_by_one(store: Store, completions: list[Completion]) -> None:
    """A transaction for each trace, as before groups."""
    for each in completions:
        assert complete(store, each.trace_id, each.outcomes)


def grouped(store: Store, completions: list[Completion]) -> None:
    """A transaction for each group."""
    for start in range(0, len(completions), GROUP):
        assert all(store.outcomes.complete_many(completions[start : start + GROUP]))


def per_trace(step: Callable[[], None]) -> tuple[float, float]:
    """Milliseconds and processor milliseconds for each trace."""
    wall, cpu = time.perf_counter(), time.process_time()
    step()
    return (time.perf_counter() - wall) / PER_ROUND * 1e3, (time.process_time() - cpu) / PER_ROUND * 1e3


def sqlite_floor(path: Path, closing: ExitStack) -> Callable[[list[Completion]], None]:
    """The rows of a group in two statements, without any check."""
    db = sqlite3.connect(path)
    closing.callback(db.close)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("CREATE TABLE o (id TEXT PRIMARY KEY, trace TEXT, metric TEXT, value REAL)")
    db.execute("CREATE TABLE b (id TEXT PRIMARY KEY, body TEXT)")
    db.commit()

    def store(completions: list[Completion]) -> None:
        for start in range(0, len(completions), GROUP):
            rows = [o for each in completions[start : start + GROUP] for o in each.outcomes]
            db.executemany("INSERT INTO o VALUES (?, ?, ?, ?)", [(o.id, o.sample_id, o.metric, o.value) for o in rows])
            db.executemany("INSERT INTO b VALUES (?, ?)", [(o.id, o.model_dump_json()) for o in rows])
            db.commit()

    return store


def postgres_floor(url: str, closing: ExitStack) -> Callable[[list[Completion]], None]:
    """The rows of a group in two statements, without any check."""
    import psycopg

    db = psycopg.connect(url)
    closing.callback(db.close)
    db.execute("DROP TABLE IF EXISTS o, b")
    db.execute("CREATE TABLE o (id TEXT PRIMARY KEY, trace TEXT, metric TEXT, value FLOAT8)")
    db.execute("CREATE TABLE b (id TEXT PRIMARY KEY, body TEXT)")
    db.commit()

    def store(completions: list[Completion]) -> None:
        for start in range(0, len(completions), GROUP):
            rows = [o for each in completions[start : start + GROUP] for o in each.outcomes]
            cursor = db.cursor()
            cursor.executemany(
                "INSERT INTO o VALUES (%s, %s, %s, %s)", [(o.id, o.sample_id, o.metric, o.value) for o in rows]
            )
            cursor.executemany("INSERT INTO b VALUES (%s, %s)", [(o.id, o.model_dump_json()) for o in rows])
            db.commit()

    return store


@pytest.mark.timeout(900)
def test_groups_against_single_transactions(kind, place, tmp_path, record_property):
    """A group costs less than half of its traces one by one."""
    walls: dict[str, list[float]] = {"one by one": [], "groups": [], "floor": []}
    cpus: dict[str, list[float]] = {name: [] for name in walls}
    with ExitStack() as closing, open_store(place, mode="own") as store:
        floor = sqlite_floor(tmp_path / "floor.db", closing) if kind == "sqlite" else postgres_floor(place, closing)
        ways: dict[str, Callable[[Store, list[Completion]], None]] = {
            "one by one": one_by_one,
            "groups": grouped,
            "floor": lambda _, completions: floor(completions),
        }
        store.plan.set(METRICS, SINKS)
        for round_ in range(ROUNDS):
            for name, way in ways.items():
                completions = fill(store, f"{name}-{round_}-{time.time_ns()}")
                wall, cpu = per_trace(lambda way=way, completions=completions: way(store, completions))
                walls[name].append(wall)
                cpus[name].append(cpu)
        assert [] == store.upkeep.recount()
    for name, times in walls.items():
        figures = f"{kind}, {name}: {median(times):.2f} ms, {median(cpus[name]):.2f} ms of processor a trace"
        print(figures)
        record_property(name, figures)
    gained = median(a / b for a, b in zip(walls["one by one"], walls["groups"], strict=True))
    above = median(a / b for a, b in zip(walls["groups"], walls["floor"], strict=True))
    cpu = median(b / a for a, b in zip(cpus["one by one"], cpus["groups"], strict=True))
    print(
        f"{kind}: groups are {gained:.1f} times as fast, with {cpu:.2f} of the processor time; floor: 1 / {above:.1f}"
    )
    assert gained > (2.5 if kind == "postgres" else 1.2)
    assert cpu < (0.6 if kind == "postgres" else 1.0)


@pytest.mark.timeout(900)
def test_sinks_cost_a_completion_nothing(kind, place, record_property):
    """Two sinks add no row to a trace; and its ten deliveries cost about as much as its completion."""
    cpus: dict[str, list[float]] = {"no sinks": [], "two sinks": [], "delivery": []}

    def deliver(store: Store) -> int:
        n = 0
        for sink in SINKS:
            while batch := store.deliveries.due(sink, limit=200):
                store.deliveries.mark(sink, [item.id for item in batch], "sent")
                n += len(batch)
        return n

    with open_store(place, mode="own") as store:
        for round_ in range(ROUNDS):
            for name, sinks in (("no sinks", []), ("two sinks", SINKS)):
                store.plan.set(METRICS, sinks)
                completions = fill(store, f"{name}-{round_}-{time.time_ns()}")
                cpus[name].append(per_trace(lambda completions=completions: grouped(store, completions))[1])
            delivered: list[int] = []
            cpus["delivery"].append(per_trace(lambda delivered=delivered: delivered.append(deliver(store)))[1])
            assert [PER_ROUND * len(METRICS) * len(SINKS)] == delivered
        assert [] == store.upkeep.recount()
        with store._database.read() as db:  # type: ignore[attr-defined] - the statement is of no use to anyone else
            assert 0 == db.execute("SELECT COUNT(*) FROM outbox").fetchone()[0]
    figures = (
        f"{kind}, milliseconds of processor a trace: { ({name: round(median(c), 3) for name, c in cpus.items()}) }"
    )
    print(figures)
    record_property("sinks", figures)
    assert median(b / a for a, b in zip(cpus["no sinks"], cpus["two sinks"], strict=True)) < 1.2


def many_outcomes(path: Path, n: int) -> None:
    """A store with `n` scored traces of one metric, made by statements, so that a million takes seconds."""
    with SqliteStore.open(path, mode="own") as store:
        store.plan.set([METRICS[0]], [])
    db = sqlite3.connect(path)
    db.executescript(
        f"""
        PRAGMA synchronous = OFF;
        WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < {n})
        INSERT INTO traces (seq, trace_id, state, status, started_at, received_at, inclusion_probability, checksum)
        SELECT n, 't' || n, 'scored', 'ok', n, n, 1.0, 0 FROM i;
        INSERT INTO outcomes (seq, outcome_id, sample_id, metric, metric_version, judge_hash, kind, value, stored_at)
        SELECT seq, 'o' || seq, trace_id, 'm0', '1', 'j', 'score', (seq % 1000) / 1000.0, 1.0 FROM traces;
        INSERT OR REPLACE INTO counters VALUES ('captured', {n}), ('state:scored', {n});
        """  # noqa: S608 - a number
    )
    first = outcomes("t1")[0]
    db.execute("UPDATE outcomes SET outcome_id = ?, value = ? WHERE seq = 1", (first.id, first.value))
    db.execute("INSERT INTO outcome_bodies VALUES (1, ?)", (to_body(first),))
    values = [value for (value,) in db.execute("SELECT value FROM outcomes")]
    counts = ("m0", "1", "j", "score", n, sum_checksums(values, [1] * n))
    db.execute("INSERT INTO outcome_counts VALUES (?, ?, ?, ?, ?, ?)", counts)
    db.commit()
    db.close()


@pytest.mark.timeout(900)
def test_a_ledger_of_a_million_outcomes(tmp_path, record_property):
    """It takes as long as one of ten thousand, because it reads counters."""
    for n in (10_000, 1_000_000):
        many_outcomes(tmp_path / f"{n}.db", n)
    costs: dict[int, list[float]] = {10_000: [], 1_000_000: []}
    with (
        SqliteStore.open(tmp_path / "10000.db", mode="read") as small,
        SqliteStore.open(tmp_path / "1000000.db", mode="read") as large,
    ):
        for _ in range(21):
            for n, store in ((10_000, small), (1_000_000, large)):
                started = time.process_time()
                assert n == store.ledger().total.scored
                costs[n].append(time.process_time() - started)
        started = time.process_time()
        large.outcomes.count()
        counting = time.process_time() - started
    ratio = median(b / a for a, b in zip(costs[10_000], costs[1_000_000], strict=True))
    figures = (
        f"ledger: {median(costs[10_000]) * 1e3:.2f} ms at 10,000 outcomes, {median(costs[1_000_000]) * 1e3:.2f} ms at "
        f"1,000,000; values of the metric: {counting:.2f} s"
    )
    print(figures)
    record_property("ledger", figures)
    assert ratio < 2
