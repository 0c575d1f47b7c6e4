"""PostgreSQL as a sink: what is in the table, and that killing the worker and cutting the line lose and double nothing."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from ragstone.errors import ConfigurationError, SinkDeniedError, SinkRejectedError, SinkUnavailableError
from ragstone.monitor import Monitor
from ragstone.requests import PassageDraft, RetrievalDraft, TraceDraft
from ragstone.schema import Failure, Interval, NotApplicable, Score, Usage
from ragstone.sinks import Delivery, PostgresqlSink, sink_from
from ragstone.store import open_store
from ragstone.testing import SinkOutageContract
from ragstone.worker import read_ledger

pytestmark = pytest.mark.servers

_PATH = Path(__file__).parent / "tracing" / "test_servers_outbox.py"
_spec = importlib.util.spec_from_file_location("ragstone_servers_outbox", _PATH)
faults = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(faults)


@pytest.fixture
def sink(database):
    """A sink for an empty database, in an event loop of its own."""
    made = PostgresqlSink(database)
    yield made
    asyncio.run(made.aclose())


def rows(url, columns="*"):
    """What is in the table."""
    with psycopg.connect(url) as db:
        return db.execute(f"SELECT {columns} FROM ragstone_outcomes ORDER BY id").fetchall()  # noqa: S608


def execute(url, *statements):
    """Change something in a database."""
    with psycopg.connect(url, autocommit=True) as db:
        for statement in statements:
            db.execute(statement)


def score(trace_id="t", value=0.5, **fields):
    """A delivery."""
    outcome = Score(sample_id=trace_id, metric="m", metric_version="1", value=value, method="exact", **fields)
    return Delivery(outcome=outcome, trace_id=trace_id)


class TestContract(SinkOutageContract):
    """What every sink promises; down means that the database takes no connections."""

    @pytest.fixture(autouse=True)
    def _database(self, database, postgres):
        self.url, self.admin, self.database = database, postgres.url(), urlsplit(database).path[1:]

    def open(self, where):
        return PostgresqlSink(self.url)

    def delivered(self, sink, where):
        with psycopg.connect(self.url) as db:
            if db.execute("SELECT to_regclass('ragstone_outcomes')").fetchone() == (None,):
                return []
            return [str(key) for (key,) in db.execute("SELECT id FROM ragstone_outcomes ORDER BY ctid")]

    def take_down(self, sink, where):
        execute(
            self.admin,
            f"ALTER DATABASE {self.database} ALLOW_CONNECTIONS false",
            f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{self.database}'",  # noqa: S608
        )

    def bring_up(self, sink, where):
        execute(self.admin, f"ALTER DATABASE {self.database} ALLOW_CONNECTIONS true")


class TestRows:
    """One a row."""

    def test_a_score_fills_its_columns(self, sink, database):
        """Ids, the value and what it is worth; times as times; no text."""
        outcome = Score(
            sample_id="t", metric="m", metric_version="2", judge="somebody", judge_hash="j", prompt_hash="p",
            value=0.25, interval=Interval(low=0.1, high=0.4, method="wilson"), method="draws", n=7,
            explanation="quotes the answer", usage=Usage(input_tokens=3, output_tokens=4, calls=6, cost_usd=0.5, priced_calls=5),
            created_at=1_700_000_000.0, duration_s=1.5,
        )  # fmt: skip
        delivery = Delivery(
            outcome=outcome, trace_id="t", run_id="r", otel_trace_id="ab" * 16, otel_span_id="cd" * 8,
            session_id="s", user_id="u", app="app", release="2.4", environment="test", name="chain", requested_at=1_600_000_000.5, inclusion_probability=0.5,
        )  # fmt: skip

        asyncio.run(sink.write([delivery]))

        ((first, *rest),) = rows(database)
        assert outcome.id == str(first)
        assert [
            "t", "r", "ab" * 16, "cd" * 8, "s", "u", "app", "2.4", "test", "chain", "m", "2", "score", 0.25, 0.1, 0.4, 0.95, "draws", 7, None,
            "somebody", "j", "p", 3, 4, 6, 0.5, 5, 6, 1.5, 0.5, datetime.fromtimestamp(1_600_000_000.5, UTC),
            datetime.fromtimestamp(1_700_000_000, UTC), None, None, None,
        ] == rest  # fmt: skip

    def test_every_kind_of_outcome_has_a_row(self, database):
        """Reasons, like explanations, are written on request only."""
        batch = [
            Delivery(outcome=outcome, trace_id="t")
            for outcome in (
                score(explanation="because").outcome,
                NotApplicable(sample_id="t", metric="n", metric_version="1", reason="no reference"),
                Failure(sample_id="t", metric="f", metric_version="1", kind="timeout", reason="60 s"),
            )
        ]
        sink = sink_from(database.replace("postgresql:", "postgres+text:"))

        async def write():
            await sink.write(batch)
            await sink.aclose()

        asyncio.run(write())

        assert {
            ("m", "score", None, "because", None),
            ("n", "not_applicable", None, None, "no reference"),
            ("f", "failure", "timeout", None, "60 s"),
        } == set(rows(database, "metric, outcome, kind, explanation, reason"))

    def test_the_documented_query_weights_two_sampling_rates(self, sink, database):
        """Ten good answers kept at 10% and ten bad ones kept at 100%: 100 of 110 requests are good."""
        page = Path(__file__).parents[2] / "docs" / "how-to" / "sinks.md"
        (query,) = re.findall(r"^```postgresql\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        kept = [(f"good{i}", 1.0, 0.1) for i in range(10)] + [(f"bad{i}", 0.0, 1.0) for i in range(10)]
        rows_ = [
            replace(score(id_, value), inclusion_probability=p, requested_at=1_600_000_000.0) for id_, value, p in kept
        ]
        asyncio.run(sink.write(rows_))
        with psycopg.connect(database) as db:
            ((metric, _, mean, n, failed),) = db.execute(query).fetchall()
        assert ("m", 20, 0) == (metric, n, failed)
        assert 100 / 110 == pytest.approx(mean)

    def test_what_comes_again_changes_nothing(self, sink, database):
        """The id is the key, within a batch and after a restart."""
        asyncio.run(sink.write([score(), score(), score("u")]))
        again = PostgresqlSink(database)

        async def write():
            await again.write([score(value=0.9), score("v")])
            await again.aclose()

        asyncio.run(write())

        assert [0.5] * 3 == [value for (value,) in rows(database, "value")]

    def test_text_that_the_server_does_not_take_is_written(self, sink, database):
        """Captured names may hold NUL or half characters."""
        delivery = Delivery(outcome=score().outcome, trace_id="t", app="a\0b\udc80'; DROP TABLE x; --")

        asyncio.run(sink.write([delivery]))

        assert [("a\N{REPLACEMENT CHARACTER}b?'; DROP TABLE x; --",)] == rows(database, "app")


class TestTrouble:
    """What the server says, and what becomes of the batch."""

    def test_two_that_come_first_make_one_table(self, database):
        """The table is made under a lock."""
        sinks = [PostgresqlSink(database) for _ in range(6)]

        async def write():
            await asyncio.gather(*(sink.write([score(f"t{i}")]) for i, sink in enumerate(sinks)))
            for sink in sinks:
                await sink.aclose()

        asyncio.run(write())
        assert 6 == len(rows(database))

    def test_a_lost_connection_is_unavailable_and_the_next_batch_arrives(self, sink, database):
        """The server has restarted, say."""
        asyncio.run(sink.write([score()]))
        execute(database, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                          " AND datname = current_database()")  # fmt: skip

        with pytest.raises(SinkUnavailableError):
            asyncio.run(sink.write([score("u")]))
        asyncio.run(sink.write([score("u")]))

        assert 2 == len(rows(database))

    def test_a_table_that_was_dropped_is_made_again(self, sink, database):
        """The batch that found it missing comes again: no row of it is at fault."""
        asyncio.run(sink.write([score()]))
        execute(database, "DROP TABLE ragstone_outcomes")

        with pytest.raises(SinkUnavailableError):
            asyncio.run(sink.write([score("u")]))
        asyncio.run(sink.write([score("u")]))

        assert 1 == len(rows(database))

    def test_a_refused_password_stops_the_sink(self, database):
        """Neither the right nor the wrong one is shown."""
        wrong = PostgresqlSink(database.replace("s3cret", "wr0ng"))

        with pytest.raises(SinkDeniedError, match="Check user, password") as told:
            asyncio.run(wrong.write([score()]))
        assert "wr0ng" not in str(told.value)
        assert "wr0ng" not in wrong.name
        assert "admin" not in wrong.name

    def test_a_user_who_may_not_write_stops_the_sink(self, sink, database):
        """An administrator has to repair that."""
        asyncio.run(sink.write([score()]))
        execute(database, "CREATE ROLE reader LOGIN PASSWORD 'pw'", "GRANT SELECT ON ragstone_outcomes TO reader")
        place = urlsplit(database)
        reader = PostgresqlSink(f"postgresql://reader:pw@{place.hostname}:{place.port}{place.path}")

        with pytest.raises(SinkDeniedError, match="permission denied"):
            asyncio.run(reader.write([score("u")]))

    def test_a_row_that_a_rule_of_the_table_forbids_is_rejected(self, sink, database):
        """The owner of the database may have added one; nothing of the batch is stored."""
        asyncio.run(sink.write([score()]))
        execute(database, "ALTER TABLE ragstone_outcomes ADD CHECK (value <= 1)")

        with pytest.raises(SinkRejectedError):
            asyncio.run(sink.write([score("u"), score("v", value=2.0)]))
        assert 1 == len(rows(database))

    def test_nobody_there_is_unavailable(self, port):
        """No server listens."""
        with pytest.raises(SinkUnavailableError):
            asyncio.run(PostgresqlSink(f"postgresql://u:pw@127.0.0.1:{port()}/d").write([score()]))

    def test_a_closed_sink_refuses(self, sink):
        """And may be closed twice."""
        asyncio.run(sink.aclose())
        with pytest.raises(SinkUnavailableError, match="is closed"):
            asyncio.run(sink.write([score()]))

    @pytest.mark.parametrize("spec", ["postgresql", "postgresql:", "postgres:scores", "postgresql://u:se@cret@h/d"])
    def test_a_url_that_cannot_be_read_is_refused(self, spec):
        """Without being shown."""
        with pytest.raises(ConfigurationError) as told:
            sink_from(spec)
        assert "cret" not in str(told.value)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_each_score_arrives_exactly_once(database, tmp_path):
    """The worker is killed, and the line to the server cut, at any moment: between commit and its answer as well."""
    rng = random.Random(11)
    n_traces = faults.SCORES // faults.METRICS_A_TRACE
    store = tmp_path / "s.db"
    with contextlib.closing(Monitor(judge="lexical", store=store, scoring="none", queue_size=100_000)) as monitor:
        for i in range(n_traces):
            draft = TraceDraft(
                trace_id=f"t{i}", query=f"What colour is stone {i}?", response=f"Stone {i} is grey.",
                retrievals=[RetrievalDraft(passages=[PassageDraft(text=f"Stone {i} is grey.")])],
                reference=[f"Stone {i} is grey."],
            )  # fmt: skip
            assert monitor.record(draft)

    planned = ["outage", "kill"] * faults.FAULTS
    rng.shuffle(planned)
    workers: list[subprocess.Popen[bytes]] = []
    place = urlsplit(database)
    # A connection and a batch take about nine answers. Most rounds end before the commit, so that there are batches left
    # for all faults; each fourth about where the commit is.
    ends = itertools.cycle([(2, 7), (2, 7), (2, 7), (7, 11)])
    line = faults.Proxy(
        f"http://{place.hostname}:{place.port}", faults.plan(planned, spare=lambda: rng.randrange(*next(ends))),
        lambda: workers[-1].kill(), rng,  # noqa: PLW0108 - there is none yet
    )  # fmt: skip
    port = urlsplit(line.url).port
    url = f"postgresql://{place.username}:{place.password}@{place.hostname}:{port}{place.path}?sslmode=disable"
    command = ["worker", str(store), "--judge", "lexical", "--metrics", "ccrs", "--sink", url]
    started = time.monotonic()

    def delivered():
        ledger = read_ledger(store)
        return ledger.outbox and not ledger.total.pending and not any(b.pending for b in ledger.outbox.values())

    try:
        while not workers or not delivered() or workers[-1].poll() is not None:
            assert time.monotonic() - started < faults.PATIENCE_S, read_ledger(store).outbox
            if not workers or workers[-1].poll() is not None:
                code = "import sys; from ragstone.cli import main; main(sys.argv[1:])"
                workers.append(subprocess.Popen([sys.executable, "-c", code, *command], stderr=subprocess.DEVNULL))
            time.sleep(0.1)
        workers[-1].terminate()
        assert 0 == workers[-1].wait(60)
    finally:
        for each in workers:
            each.kill()
            each.wait()
        line.close()
    print(f"\n{faults.SCORES} scores in {time.monotonic() - started:.0f} s")

    assert Counter(planned) == line.happened
    assert [-signal.SIGKILL] * faults.FAULTS == [each.returncode for each in workers[:-1]]
    with open_store(store, mode="read") as opened:
        stored = {outcome.id: outcome.value for outcome in opened.outcomes.read()}
    assert n_traces * faults.METRICS_A_TRACE == len(stored)
    assert stored == {str(id_): value for id_, value in rows(database, "id, value")}
    (books,) = read_ledger(store).outbox.values()
    assert (len(stored), 0, 0, 0) == (books.sent, books.pending, books.skipped, books.failed)
    assert os.fspath(database) not in str(books)
