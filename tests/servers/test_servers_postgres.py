"""PostgreSQL as the store of several workers: shared, killed, restarted; and what its messages do not say."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from urllib.parse import urlsplit

import pytest

from command_line import run_command
from completions import complete
from fake_servers import FakeJudgeServer
from pending_requests import N_REQUESTS, capture, check_outage, check_parts, follow
from ragstone.errors import (
    ConfigurationError,
    StoreCorruptError,
    StoreError,
    StoreNotReadyError,
    StoreVersionError,
)
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft
from ragstone.schema import Captured, Dropped, Feedback, LedgerRow, Score, Trace, Usage
from ragstone.settings import Watch
from ragstone.store import (
    Completion,
    DrawnRequest,
    PlannedMetric,
    StoredLabel,
    open_for_labels,
    open_store,
)
from ragstone.store import postgres as postgres_store
from ragstone.watch import Scale, fold
from ragstone.worker import read_ledger
from stored_bodies import count_duplicates

pytestmark = pytest.mark.servers

EXACT = PlannedMetric(name="exact", version="1")
DEADLINE_S = 120


@pytest.fixture
def own(database):
    """Opens the same database as another worker would."""
    opened = []

    def open_one(**options):
        store = open_store(database, mode="own", **options)
        opened.append(store)
        return store

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def spool(tmp_path, monkeypatch):
    """Where the captures of this test wait."""
    folder = tmp_path / "spool"
    monkeypatch.setenv("RAGSTONE_SPOOL", str(folder))
    return folder


def sql(url, statement, *parameters):
    """Ask the database itself."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as db:
        cursor = db.execute(statement, parameters)
        return cursor.fetchall() if cursor.description else []


def captured(*trace_ids, **fields):
    """Entries of a spool."""
    return [Captured(trace=Trace(trace_id=trace_id, started_at=1.0, query="q", **fields)) for trace_id in trace_ids]


def score(trace_id):
    """The outcome of the only planned metric."""
    return Score(sample_id=trace_id, metric="exact", metric_version="1", value=1.0, method="exact")


def eventually(condition):
    """Wait for a condition, within reason."""
    deadline = time.monotonic() + DEADLINE_S
    while not (result := condition()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)
    return result


class TestSharing:
    """Several workers, each with a connection of its own."""

    @pytest.mark.usefixtures("spool")
    @pytest.mark.parametrize("waits_for", ["worker", "drain"])
    def test_what_a_killed_worker_has_leased_is_not_finished(self, own, database, waits_for):
        """Whoever waits for all work waits until these leases expire, and scores the requests."""
        store = own()
        store.traces.ingest("a", 3, captured("t0", "t1", "t2", response="r"))
        assert len(store.leases.claim("killed", 2, lease_s=4)) == 2
        if waits_for == "worker":
            assert (
                0
                == run_command(
                    "worker", database, "--judge", "lexical", "--metrics", "ccrs.qr", "--until-idle"
                ).returncode
            )
        else:
            with Monitor(judge="lexical", metrics=["ccrs.qr"], store=database) as monitor:
                assert monitor.drain(DEADLINE_S)
        assert (3, 0) == (store.ledger().total.scored, store.ledger().total.pending)

    @pytest.mark.usefixtures("spool")
    def test_nobody_waits_for_what_another_worker_gets_later(self, own, database):
        """A worker that is busy all the time does not prevent the end of a script on another host."""
        store = own()
        store.traces.ingest("a", 1, captured("before", response="r"))
        assert len(store.leases.claim("busy", 1, lease_s=3600)) == 1
        with Monitor(judge="lexical", metrics=["ccrs.qr"], store=database) as monitor:
            assert monitor.record(TraceDraft(query="q", response="r", contexts=[]))
            eventually(lambda: store.ledger().total.scored == 1)
            with ThreadPoolExecutor() as pool:
                drained = pool.submit(monitor.drain, DEADLINE_S)
                time.sleep(1)
                # The monitor may be faster and score some of these.
                for n in range(1000):
                    store.traces.ingest("a", 2 + n, captured(f"later{n}", response="r"))
                    if store.leases.claim("busy", 1, lease_s=3600):
                        break
                assert not drained.done()
                complete(store, "before", [score("before")])
                assert drained.result()
        assert store.ledger().total.pending == 1

    def test_claims_pass_each_other(self, own):
        """Eight that claim at once get different traces, and between them all of them."""
        own().traces.ingest("a", 1, captured(*(f"t{i}" for i in range(200))))
        stores = [own() for _ in range(8)]

        with ThreadPoolExecutor(8) as pool:
            claims = list(pool.map(lambda pair: pair[1].leases.claim(str(pair[0]), 25, lease_s=60), enumerate(stores)))

        assert sorted(f"t{i}" for i in range(200)) == sorted(t.trace_id for claim in claims for t in claim)

    def test_a_claim_does_not_wait_for_rows_that_another_holds(self, own, database):
        """A worker that is stopped in the middle of a transaction holds up its own rows and no one else's."""
        import psycopg

        store = own()
        store.traces.ingest("a", 1, captured("held", "free"))
        with psycopg.connect(database) as other:
            other.execute("SELECT 1 FROM ragstone.traces WHERE trace_id = 'held' FOR UPDATE")

            assert ["free"] == [t.trace_id for t in store.leases.claim("me", 2, lease_s=60)]

    def test_two_that_finish_one_trace_agree_on_who_was_first(self, own):
        """Whoever comes second is told so, and its outcomes are not stored."""
        first = own()
        first.plan.set([EXACT], ["s"])
        first.traces.ingest("a", 1, captured(*(f"t{i}" for i in range(50))))
        stores = [first, own(), own(), own()]

        def finish(store):
            return [complete(store, f"t{i}", [score(f"t{i}")]) for i in range(50)]

        with ThreadPoolExecutor(4) as pool:
            told = list(pool.map(finish, stores))

        assert [1] * 50 == [sum(by_trace) for by_trace in zip(*told, strict=True)]
        ledger = first.ledger()
        assert (50, 50, True) == (ledger.total.scored, ledger.outbox["s"].pending, ledger.total.balanced)

    def test_captures_that_meet_are_counted_once(self, own):
        """Two hosts bring in the same traces at the same time: each is new to one of them, and a duplicate to the other."""
        stores = [own() for _ in range(4)]
        batches = [[f"t{i}" for i in range(k, k + 40)] for k in range(0, 160, 20)]

        def bring(pair):
            number, store = pair
            new = 0
            for offset, batch in enumerate(batches, start=1):
                try:
                    new += store.traces.ingest(f"host {number}", offset, captured(*batch))
                except StoreError:
                    # Two that wait for each other: one is told, and comes again.
                    new += store.traces.ingest(f"host {number}", offset, captured(*batch))
            return new

        with ThreadPoolExecutor(4) as pool:
            new = list(pool.map(bring, enumerate(stores)))

        ledger = stores[0].ledger()
        assert (180, 180, True) == (sum(new), ledger.total.captured, ledger.total.balanced)
        assert 4 * 8 * 40 - 180 == count_duplicates(stores[0])

    def test_a_sink_has_one_deliverer_at_a_time(self, own):
        """The first that looks delivers; when its connection ends, another one does."""
        first, second = own(), own()
        first.plan.set([EXACT], ["s"])
        second.plan.set([EXACT], ["s"])
        first.traces.ingest("a", 1, captured("t"))
        complete(first, "t", [score("t")])

        assert 1 == len(first.deliveries.due("s", limit=9))
        assert 1 == len(first.deliveries.due("s", limit=9))
        assert [] == second.deliveries.due("s", limit=9)
        first.close()
        assert 1 == len(second.deliveries.due("s", limit=9))

    def test_a_deliverer_that_is_refused_makes_room(self, own):
        """Another worker may have better credentials."""
        first, second = own(), own()
        first.plan.set([EXACT], ["s"])
        second.plan.set([EXACT], ["s"])
        first.traces.ingest("a", 1, captured("t"))
        complete(first, "t", [score("t")])
        first.deliveries.due("s", limit=9)

        first.deliveries.stop_sink("s", reason="401")

        assert 1 == len(second.deliveries.due("s", limit=9))

    def test_a_deliverer_that_was_cut_off_has_lost_its_place(self, own, database):
        """While it connects again another one delivers, and only that one."""
        first, second = own(), own()
        first.plan.set([EXACT], ["s"])
        first.traces.ingest("a", 1, captured("t"))
        complete(first, "t", [score("t")])
        assert 1 == len(first.deliveries.due("s", limit=9))
        sql(database, "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE objid = 3 AND locktype = 'advisory'")

        assert 1 == len(second.deliveries.due("s", limit=9))
        with pytest.raises(StoreError):
            first.deliveries.due("s", limit=9)
        assert [] == first.deliveries.due("s", limit=9)

    def test_workers_that_start_together_agree_on_a_plan(self, own):
        """None of them is refused, and none finds the plan half made."""
        stores = [own() for _ in range(6)]

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(lambda store: store.plan.set([EXACT], ["s"]), stores))

        assert ["exact"] == list(stores[0].ledger().metrics)

    def test_another_plan_waits_until_the_others_are_gone(self, own):
        """Two plans in one store would undo each other's work for ever."""
        first, second = own(), own()
        first.plan.set([EXACT], ["s"])

        with pytest.raises(StoreError, match="with another plan"):
            second.plan.set([EXACT, PlannedMetric(name="more", version="1")], ["s"])
        assert ["exact"] == list(first.ledger().metrics)

        first.close()
        second.plan.set([PlannedMetric(name="more", version="1")], ["s"])
        assert ["more"] == list(second.ledger().metrics)

    def test_a_plan_that_changed_during_an_outage_stops_the_old_worker(self, own, database):
        """It would score by the old plan what the new one waits for."""
        old, new = own(), own()
        old.plan.set([EXACT], ["s"])
        sql(database, "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE objid = 3")
        new.plan.set([PlannedMetric(name="more", version="1")], ["s"])

        old.check_not_replaced()
        with pytest.raises(StoreError):
            old.ledger()
        with pytest.raises(StoreError, match="with another plan"):
            old.ledger()
        with pytest.raises(StoreError, match="with another plan"):
            old.check_not_replaced()

    def test_a_store_of_another_version_after_an_outage_stops_the_worker(self, own, database):
        """A worker that connects again does not use a store that was replaced by one of another version."""
        store = own()
        store.plan.set([EXACT], ["s"])
        sql(database, "SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE objid = 3")
        sql(database, "UPDATE ragstone.meta SET value = '99' WHERE key = 'version'")

        with pytest.raises(StoreError):
            store.ledger()
        for use in (store.ledger, store.check_not_replaced):
            with pytest.raises(StoreError, match="has format version 99"):
                use()

    def test_the_books_are_of_one_moment(self, own):
        """While others bring in and finish, every ledger that anybody sees adds up."""
        busy, looking = own(), own()
        busy.plan.set([EXACT], [])

        def work():
            for i in range(120):
                busy.traces.ingest("a", i + 1, [*captured(f"t{i}"), Dropped(reason="full", n=1, at=0.0)])
                complete(busy, f"t{i}", [score(f"t{i}")])

        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(work)
            seen = [looking.ledger()]
            while not running.done():
                seen.append(looking.ledger())
            running.result()

        assert all(ledger.total.balanced and ledger.metrics["exact"].balanced for ledger in seen)
        assert 240 == looking.ledger().total.captured


class TestTime:
    """Leases are by the server's clock."""

    def test_hosts_whose_clocks_differ_agree(self, own, monkeypatch):
        """A host an hour ahead does not take what another one holds."""
        slow = own()
        slow.traces.ingest("a", 1, captured("t"))
        slow.leases.claim("slow", 1, lease_s=60)

        truth = time.time
        monkeypatch.setattr("ragstone.store.postgres.time.time", lambda: truth() + 3600)
        ahead = own(clock=time.time)

        assert [] == ahead.leases.claim("ahead", 1, lease_s=60)


class TestOutage:
    """The server goes away and comes back."""

    def test_a_restart_costs_one_call(self, own, postgres):
        """Calls fail in words while it is down; after it is up the next one works, and nothing is lost."""
        store = own()
        store.plan.set([EXACT], ["s"])
        store.traces.ingest("a", 1, captured("t"))
        postgres.stop()
        try:
            for _ in range(2):
                with pytest.raises(StoreError, match="cannot be used now"):
                    store.ledger()
        finally:
            postgres.start()

        def ledger():
            try:
                return store.ledger()
            except StoreError:
                return None

        assert 1 == eventually(ledger).total.pending
        assert complete(store, "t", [score("t")])
        assert 1 == len(store.deliveries.due("s", limit=9))

    def test_what_was_under_way_is_not_stored_in_part(self, own, database):
        """The connection ends between two statements of one call."""
        store, entries = own(), captured("t1", "t2")

        class Cut(list):
            def __iter__(self):
                yield entries[0]
                sql(
                    database, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE state LIKE 'idle in%'"
                )
                yield entries[1]

        with pytest.raises(StoreError):
            store.traces.ingest("a", 1, Cut(entries))

        assert ({}, 0) == (store.traces.segment_offsets(), store.ledger().total.captured)
        assert 2 == store.traces.ingest("a", 1, entries)


class TestOpening:
    """Tables appear once, whoever comes; what cannot be used says why, and never with a password."""

    def test_many_that_come_first_make_one_store(self, database):
        """The tables are made under a lock."""
        with ThreadPoolExecutor(8) as pool:
            stores = list(pool.map(lambda _: open_store(database, mode="own"), range(8)))
        assert 0 == stores[0].ledger().total.captured
        for store in stores:
            store.close()

    @pytest.mark.parametrize("limit", ["of the server", "of this process"])
    def test_a_statement_that_takes_too_long_fails(self, database, monkeypatch, limit):
        """A statement is ended after the limit of the server or of this process."""
        if limit == "of the server":
            settings = [*postgres_store._SETTINGS, "SET statement_timeout TO '1s'"]
            monkeypatch.setattr(postgres_store, "_SETTINGS", settings)
        else:
            monkeypatch.setattr(postgres_store, "_ANSWER_S", 1.0)
        with (
            open_store(database, mode="own") as store,
            pytest.raises(StoreError, match="cannot be used now"),
            store._database.write() as db,
        ):
            db.execute("SELECT pg_sleep(2)")

    def test_the_application_s_own_tables_are_left_alone(self, own, database):
        """Ours are in a schema of their own."""
        sql(database, "CREATE TABLE traces (x int)")

        own().traces.ingest("a", 1, captured("t"))

        assert [] == sql(database, "SELECT * FROM public.traces")

    def test_reading_makes_nothing(self, database):
        """An empty database stays empty."""
        with pytest.raises(StoreNotReadyError, match=r"the store in postgresql://127.* does not exist yet"):
            open_store(database, mode="read")
        assert [] == sql(database, "SELECT 1 FROM pg_namespace WHERE nspname = 'ragstone'")

    def test_a_reader_does_not_write(self, own, database):
        """It is refused by us, and would be by the server."""
        own()
        with (
            open_store(database, mode="read") as reader,
            pytest.raises(StoreError, match="open for reading only"),
        ):
            reader.traces.ingest("a", 1, captured("t"))

    def test_labels_are_saved_while_a_worker_runs(self, own, database):
        """By whoever may write, without an inbox; a reader is refused."""
        label = StoredLabel("t", "ann", 0.5, 10.0)
        worker = own()
        with open_for_labels(database) as store:
            store.labels.save([label._replace(value=1.0), StoredLabel("t", "bob", 0.0, 11.0)])
            store.labels.save([label, StoredLabel("t", "bob", None, 12.0)])
            store.labels.save([DrawnRequest("u", 0.5, None), DrawnRequest("t", 0.25, 0)])
            store.labels.save([DrawnRequest("u", 0.75, 1)])
        assert [label] == worker.labels.read()
        assert [("t", 0.25, 0), ("u", 0.75, 1)] == worker.labels.drawn()
        with open_store(database, mode="read") as reader, pytest.raises(StoreError, match="open for reading only"):
            reader.labels.save([label])

    def test_backfill_beside_workers(self, own):
        """Another process adds outcomes of a metric, each once, while a worker has the plan; the ledger stays balanced."""
        worker, other = own(), own()
        new = PlannedMetric(name="new", version="1")
        worker.plan.set([], [])
        worker.traces.ingest("a", 2, [*captured("t", "u", app="bot")])
        for trace in worker.leases.claim("w", 2, lease_s=60):
            assert complete(worker, trace.trace_id, [])
        worker.plan.set([new], ["sink"])
        assert (2, 0) == other.outcomes.count_backfill([new], since=0.0, until=2e9)[:2]
        page = other.outcomes.unscored([new], since=0.0, before=(2e9, 2**62), limit=10)
        assert [("new",), ("new",)] == [item.missing for item in page.traces]
        score = Score(sample_id="t", metric="new", metric_version="1", value=0.5, method="exact")
        assert [1, 0] == [store.outcomes.add_backfilled("t", [score], sample=0.5) for store in (other, worker)]
        assert (1, 1, True) == (
            worker.ledger().metrics["new"].captured,
            worker.ledger().metrics["new"].scored,
            worker.ledger().metrics["new"].balanced,
        )
        other.outcomes.save_backfill(
            {"id": "b", "metrics": [["new", "1", ""]], "since": 0.0, "state": "done", "started_at": 1.0}
        )
        with worker.watch.change() as tables:
            fold(tables, now=2e9, options=Watch(), scales={"new": Scale(low=0.0, high=1.0)})
        assert [True] == [each["learned"] for each in worker.outcomes.backfills()]
        with worker.watch.read() as tables:
            assert [("bot", "new")] * 2 == [(row.key.app, row.key.metric) for row in tables.streams()]

    def test_spend_and_feedback(self, own):
        """Workers share the spend of a day, and feedback joins its request by either id."""
        worker, other = own(), own()
        unknown = Usage(calls=1, input_tokens=3)
        worker.plan.add_spend(unknown)
        assert unknown == other.plan.spent_today()
        for store in (worker, other):
            store.plan.add_spend(Usage(calls=2, input_tokens=10, cost_usd=0.5))
        worker.plan.add_spend(unknown)
        worker.plan.set_record("daily_budget", {"calls": 3.0})
        assert Usage(calls=6, input_tokens=26, cost_usd=1.0, priced_calls=4) == other.plan.spent_today()
        assert {"calls": 3.0} == other.ledger().daily_budget
        said = [Feedback(request_id=name, value=0.0, comment="bad", given_at=1.0) for name in ("t", "nothing")]
        other.traces.ingest("b", 1, said)
        worker.traces.ingest("a", 1, captured("t", app="bot"))
        assert [(0.0, "bad", 1.0)] == list(worker.traces.explain("t").feedback)
        assert {"received": 2, "waiting": 1, "unknown": 0} == worker.ledger().feedback.model_dump()

    def test_feedback_and_request_at_the_same_time(self, own):
        """Stored by two workers at the same moment, they find each other."""
        worker, other, n = own(), own(), 150
        start = Barrier(2)

        def store_each(store, segment, entries):
            for i, entry in enumerate(entries):
                start.wait()
                store.traces.ingest(segment, i + 1, entry)

        requests = [captured(f"t{i}", app="bot") for i in range(n)]
        said = [[Feedback(request_id=f"t{i}", value=0.0, comment=None, given_at=1.0)] for i in range(n)]
        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(store_each, *args) for args in ((worker, "a", requests), (other, "b", said))]:
                done.result()
        assert {"received": n, "waiting": 0, "unknown": 0} == worker.ledger().feedback.model_dump()

    def test_each_outcome_is_delivered_once_while_workers_write(self, own, database):
        """Overlapping groups of four workers: the cursor of a sink never passes an outcome that is not committed."""
        worker = own()
        worker.plan.set([EXACT], ["s"])
        ids = [f"t{i}" for i in range(800)]
        worker.traces.ingest("a", 1, captured(*ids))
        stores = [own() for _ in range(4)]

        def finish(place):
            mine = ids[place::4]
            for start in range(0, len(mine), 5):
                group = [Completion(trace_id=t, outcomes=[score(t)]) for t in mine[start : start + 5]]
                assert all(stores[place].outcomes.complete_many(group))

        delivered = []
        with ThreadPoolExecutor(4) as pool:
            writing = [pool.submit(finish, place) for place in range(4)]
            while not all(each.done() for each in writing) or worker.deliveries.due("s", limit=1):
                batch = worker.deliveries.due("s", limit=7)
                worker.deliveries.mark("s", [item.id for item in batch], "sent")
                delivered += [item.trace_id for item in batch]
            for each in writing:
                each.result()

        assert sorted(ids) == sorted(delivered)
        assert [] == worker.upkeep.recount()
        assert [] == sql(database, "SELECT * FROM ragstone.outbox")

    def test_counters_are_right_while_workers_write(self, own, database):
        """Overlapping groups of four workers and a concurrent recount: nothing waits in a circle, nothing is counted twice."""
        first = own()
        first.plan.set([EXACT], [])
        ids = [f"t{i}" for i in range(300)]
        first.traces.ingest("a", 1, captured(*ids))
        stores = [own() for _ in range(4)]

        def finish(place):
            done = 0
            mine = ids if place % 2 else ids[::-1]
            for start in range(0, 300, 30):
                group = [Completion(trace_id=t, outcomes=[score(t)]) for t in mine[start : start + 60]]
                done += sum(stores[place].outcomes.complete_many(group))
            return done

        def count():
            for _ in range(20):
                assert [] == first.upkeep.recount()

        with ThreadPoolExecutor(5) as pool:
            counting = pool.submit(count)
            assert 300 == sum(pool.map(finish, range(4)))
            counting.result()

        assert [] == first.upkeep.recount()
        assert LedgerRow(captured=300, scored=300) == first.ledger().total
        assert 300 == len({o.sample_id for o in first.outcomes.read()}) == len(list(first.outcomes.read()))

    @pytest.mark.parametrize("version", ["0", "2", "99", "next", None])
    def test_a_store_of_another_version_is_refused(self, own, database, version):
        """Whoever opens it gets the sentence of a store file, and no row changes."""
        own()
        sql(database, "DELETE FROM ragstone.meta WHERE key = 'version'")
        if version is not None:
            sql(database, "INSERT INTO ragstone.meta VALUES ('version', %s)", version)
        before = sql(database, "SELECT xmin::text, key, value FROM ragstone.meta ORDER BY key")
        stored = {"next": "format version 'next'", None: "an unknown format version"}.get(
            version, f"format version {version}"
        )

        for mode in ("own", "read"):
            with pytest.raises(StoreVersionError) as error:
                open_store(database, mode=mode)
            assert (
                f"has {stored}, and this version of Ragstone reads version 1: "
                "use the version of Ragstone that wrote it, or start with a new one"
            ) in str(error.value)
            assert f"the store in postgresql://{urlsplit(database).hostname}" in str(error.value)
        assert before == sql(database, "SELECT xmin::text, key, value FROM ragstone.meta ORDER BY key")

    def test_a_schema_of_somebody_else_is_left_alone(self, database):
        """It has our name and not our tables."""
        sql(database, "CREATE SCHEMA ragstone CREATE TABLE traces (x int)")

        with pytest.raises(StoreCorruptError, match="not a Ragstone store"):
            open_store(database, mode="own")
        assert [("traces",)] == sql(database, "SELECT tablename FROM pg_tables WHERE schemaname = 'ragstone'")

    def test_a_wrong_password_is_not_shown(self, database):
        """Nor is the right one."""
        with pytest.raises(StoreError, match="authentication failed") as told:
            open_store(database.replace("s3cret", "wr0ng"), mode="own")
        assert "wr0ng" not in str(told.value)

    @pytest.mark.parametrize(
        "url",
        ["postgresql://u:se@cret@h/d", "postgresql://u:se/cret@h/d", "postgresql://u:se%zzcret@h/d",
         "postgresql://u:se?cret@h/d", "postgresql://u:secret@h:sesame/d", "postgresql://[secret/d"],
    )  # fmt: skip
    def test_a_url_that_cannot_be_read_is_not_shown(self, url):
        """The password may be anywhere in it."""
        with pytest.raises(ConfigurationError, match="percent-encoding") as told:
            open_store(url, mode="own")
        assert not any(part in str(told.value) for part in ("se@", "cret@", "secret", "sesame", "zz"))

    def test_text_that_the_server_does_not_take_is_stored(self, own):
        """NUL has no place in its text; a captured name may have one all the same."""
        store = own()
        assert 1 == store.traces.ingest("a", 1, captured("t", name="a\0b", session_id="\0"))
        assert [1, 0] == [store.traces.ingest("a", offset, captured("nul\0")) for offset in (2, 3)]
        assert store.ledger().total.balanced
        store.plan.set([EXACT], ["s"])
        complete(store, "t", [score("t")])

        (item,) = store.deliveries.due("s", limit=1)
        assert ("a\N{REPLACEMENT CHARACTER}b", "a\0b") == (item.name, store.traces.get("t").name)

    def test_a_connection_does_not_cross_a_fork(self, own):
        """The child is refused, and leaves the parent's connection alone."""
        store = own()
        child = os.fork()
        if child == 0:
            try:
                store.ledger()
            except StoreError as error:
                os._exit(0 if "after a fork" in str(error) else 2)
            os._exit(1)
        assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert 0 == store.ledger().total.captured


WORKER = "import sys; from ragstone.cli import main; main(sys.argv[1:])"


def worker(database, sink, *, slow=False):
    """`ragstone worker` in a process of its own; a slow one holds each trace for long."""
    code = WORKER
    if slow:
        # Traces that are in work when it is killed.
        code = (
            "import asyncio, ragstone.worker._parts as p\n"
            "async def late(self, sample, **rest): await asyncio.sleep(3600)\n"
            "p.MetricGroups.score = late\n" + WORKER
        )
    command = ["worker", database, "--judge", "lexical", "--metrics", "ccrs", "--sink", sink]
    return subprocess.Popen([sys.executable, "-c", code, *command])


@pytest.mark.slow
@pytest.mark.timeout(420)
class TestWorkers:
    """Real processes."""

    def test_a_killed_worker_s_traces_come_back(self, database, spool, tmp_path):
        """One of two workers is killed with traces in work: each trace has one outcome a metric, within two minutes."""
        sink = f"jsonl:{tmp_path}/out.jsonl"
        with Monitor(store=database, scoring="none", judge="lexical") as monitor:
            for i in range(300):
                assert monitor.record(TraceDraft(trace_id=f"t{i}", query=f"What is {i}?", response=f"{i} is it."))
            assert monitor.flush(30)
        doomed = worker(database, sink, slow=True)

        def leased():
            try:
                found = sql(database, "SELECT count(*) FROM ragstone.traces WHERE lease_owner IS NOT NULL")
            except Exception:  # noqa: BLE001 - no tables yet
                return 0
            return found[0][0]

        held = eventually(leased)
        good = worker(database, sink)
        try:
            eventually(lambda: read_ledger(database).total.scored > 50)
            doomed.send_signal(signal.SIGKILL)
            doomed.wait()
            eventually(lambda: read_ledger(database).total.pending == 0)
            eventually(lambda: not any(b.pending for b in read_ledger(database).outbox.values()))
        finally:
            for process in (doomed, good):
                process.terminate()
                process.wait()

        ledger = read_ledger(database)
        assert held > 0
        assert (300, True) == (ledger.total.captured, ledger.total.balanced)
        assert all(row.balanced and row.pending == 0 for row in ledger.metrics.values())
        lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        expected = {(f"t{i}", metric) for i in range(300) for metric in ledger.metrics}
        assert expected == {(line["trace_id"], line["metric"]) for line in lines}
        assert len(expected) == len(lines)

    def test_a_living_worker_keeps_what_takes_long(self, own, database, spool, tmp_path):
        """Its leases are short and renewed: long after the first would have ended no one else can claim."""
        with Monitor(store=database, scoring="none", judge="lexical") as monitor:
            monitor.record(TraceDraft(trace_id="t", query="q", response="r"))
        slow = worker(database, f"jsonl:{tmp_path}/out.jsonl", slow=True)
        try:

            def until():
                try:
                    found = sql(database, "SELECT lease_until FROM ragstone.traces WHERE lease_owner IS NOT NULL")
                except Exception:  # noqa: BLE001 - no tables yet
                    return 0
                return found[0][0] if found else 0

            first = eventually(until)
            assert first - time.time() < 120
            eventually(lambda: until() > first)
            assert [] == own().leases.claim("other", 1, lease_s=60)
        finally:
            slow.kill()
            slow.wait()

    def test_monitors_of_one_host_share_a_spool(self, database, spool):
        """Each process drains and scores; what is in the spool comes in once, drops included."""
        monitors = [Monitor(store=database, judge="lexical") for _ in range(3)]
        for i in range(150):
            monitors[i % 3].record(TraceDraft(trace_id=f"t{i}", query="q", response="r"))

        assert all(monitor.drain(DEADLINE_S) for monitor in monitors)
        eventually(lambda: monitors[0].ledger().total.pending == 0)
        ledger = monitors[0].ledger()
        for monitor in monitors:
            monitor.close()

        assert (150, 150, True) == (ledger.total.captured, ledger.total.scored, ledger.total.balanced)
        with open_store(database, mode="read") as store:
            assert 0 == count_duplicates(store)

    def test_status_shows_a_database_and_no_password(self, database, spool):
        """`ragstone status` takes the URL."""
        with Monitor(store=database, judge="lexical") as monitor:
            monitor.record(TraceDraft(trace_id="t", query="q", response="r"))
            assert monitor.drain(DEADLINE_S)

        def command(name, *arguments):
            return run_command(name, database, *arguments, RAGSTONE_SPOOL=str(spool))

        assert 1 == json.loads(command("status", "--json").stdout)["total"]["scored"]
        assert "The scores, and why" in command("traces", "t").stdout
        missing = command("traces", "no such trace")
        assert "no such trace" in missing.stderr
        assert urlsplit(database).password not in missing.stderr + missing.stdout


@pytest.mark.parametrize("command", [None, "status", "report"])
def test_each_printed_command_scores_with_the_judge_of_the_application(database, command):
    """A printed command scores everything with the named judge, if the environment has the credentials of the database."""
    with FakeJudgeServer() as server:
        pass
    text = capture(database, judge=server.url)
    if command is not None:
        done = run_command(command, database)
        text = done.stdout + done.stderr
    url = urlsplit(database)
    assert url.password not in text

    with server:
        done = follow(text, PGUSER=url.username, PGPASSWORD=url.password)

    assert 0 == done.returncode, done.stderr
    with open_store(database, mode="read") as store:
        ledger, outcomes = store.ledger(), list(store.outcomes.read())
    assert (N_REQUESTS, 0) == (ledger.total.scored, ledger.total.pending)
    assert {"fake-judge"} == {str(outcome.judge).partition(" ")[0] for outcome in outcomes}


def test_no_hint_lets_another_judge_score_the_requests_of_a_database(database):
    """If the judge of an application is down, each printed command, followed literally, leaves all scores to this judge."""
    with FakeJudgeServer() as server:
        pass
    url = urlsplit(database)
    check_outage(database, server, PGUSER=url.username, PGPASSWORD=url.password)


def test_only_the_missing_metrics_are_scored_when_a_judge_appears(database):
    """A monitor without a judge scores metrics that need none in a database. A worker with a judge adds only the others."""
    with FakeJudgeServer() as server:
        pass
    url = urlsplit(database)
    check_parts(database, server, PGUSER=url.username, PGPASSWORD=url.password)


def test_a_command_without_the_password_names_the_variable_for_it(database):
    """A printed command has no password. Followed literally, it says that PGPASSWORD can hold it."""
    url = urlsplit(database)
    printed = f"postgresql://{url.hostname}:{url.port}{url.path}"
    done = run_command(
        "worker", printed, "--until-idle", "--metrics", "exact_match", PGUSER=url.username, PGPASSWORD=""
    )
    assert (3, True) == (done.returncode, "PGPASSWORD" in done.stderr), done.stderr
    done = run_command("worker", printed, "--until-idle", "--metrics", "exact_match", PGUSER=url.username, PGPASSWORD=url.password)  # fmt: skip
    assert 0 == done.returncode, done.stderr


def test_a_worker_without_a_judge_does_not_change_a_database(database):
    """A worker that nobody has given a judge exits with 2, makes no tables, and keeps the requests of a store pending."""
    for n_tables in (0, 1):
        done = run_command("worker", database, "--until-idle")
        assert (2, True) == (done.returncode, "need a judge" in done.stderr), done.stderr
        if not n_tables:
            with pytest.raises(StoreNotReadyError):
                open_store(database, mode="read")
            with open_store(database, mode="own") as store:
                store.traces.ingest(
                    "a", 1, [Captured(trace=Trace(trace_id="t", started_at=1.0, query="?", response="!"))]
                )
    with open_store(database, mode="read") as store:
        assert (1, (), []) == ((found := store.ledger()).total.pending, found.plans, store.plan.metrics())


def test_a_monitor_without_a_judge_leaves_requests_to_a_worker_of_another_host(database, spool, monkeypatch, tmp_path):
    """A monitor without a judge moves its requests into the database, where a worker with one scores them meanwhile."""
    monkeypatch.delenv("RAGSTONE_JUDGE", raising=False)

    def pending():
        try:
            with open_store(database, mode="read") as store:
                return store.ledger().total.pending
        except StoreNotReadyError:
            return 0

    with Monitor(store=database, metrics=["ccrs.qr"]) as monitor:
        for number in range(N_REQUESTS):
            assert monitor.record(TraceDraft(query=f"Why {number}?", response="Because."))
        eventually(lambda: N_REQUESTS == pending())
        options = ("--judge", "lexical", "--until-idle")
        done = run_command("worker", database, *options, RAGSTONE_SPOOL=str(tmp_path / "other"))
        assert 0 == done.returncode, done.stderr
        assert 0 == pending()
