"""Redis as a message broker: its promises, its start-up checks, and kills of one of two workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from broker_contract import BrokerContract, OtherVersionsContract, captured, line
from command_line import MAIN, run_command
from fake_servers import FakeJudgeServer
from pending_requests import N_REQUESTS, check_broker
from ragstone.brokers import read_broker_status
from ragstone.brokers._address import parse_broker_url
from ragstone.errors import BrokerError
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft
from ragstone.schema import SampledOut
from ragstone.store import open_store
from stored_bodies import count_duplicates
from tls_brokers import check_tls
from waiting import wait_until

pytestmark = [pytest.mark.servers, pytest.mark.timeout(3600)]


@pytest.fixture
def queue(redis_server, request):
    """The URL of an empty queue."""
    with redis_server.client() as client:
        client.flushall()
    return redis_server.url("test")


def connect_to(url, *, take_over_s=60.0):
    """A connection with another time until entries of other workers are taken over."""
    from ragstone.brokers._redis import RedisBroker

    return RedisBroker(parse_broker_url(url), take_over_s=take_over_s)


class TestRedisBroker(BrokerContract, OtherVersionsContract):
    """Redis keeps the promises of a broker."""

    module = "ragstone.brokers._redis"

    @pytest.fixture
    def connect(self, queue):
        """Connections to one queue."""
        return lambda: connect_to(queue)


def test_entries_of_a_worker_that_ended_are_taken_over(queue):
    """Another worker receives what a worker has not acknowledged for a while, and removes the dead one when it is empty."""
    application, dead, living = connect_to(queue), connect_to(queue), connect_to(queue, take_over_s=3.0)
    lines = [line(captured(f"t{i}")) for i in range(5)]
    application.publish("a.seg", 0, 9, lines)
    dead.join("store")
    living.join("store")
    assert len(dead.receive(10, again=False)) == 5
    assert living.receive(10, again=False) == []
    found = []
    wait_until(lambda: found.extend(living.receive(10, again=False)) or len(found) == 5)
    assert [message.data for message in found] == lines
    living.acknowledge(found)
    assert living.status().in_progress == 0


def test_memory_is_bounded(queue, redis_server):
    """Stored entries are removed, so that an empty queue costs nothing, and a full one makes applications wait."""
    broker = connect_to(queue + "?max_entries=20")
    broker.join("store")
    broker.publish("a.seg", 0, 10, [line(captured(f"t{i}")) for i in range(20)])
    with pytest.raises(BrokerError, match="20 entries or more that no worker has stored"):
        broker.publish("a.seg", 10, 20, [line(captured("more"))])
    assert broker.position("a.seg") == 10
    broker.acknowledge(broker.receive(100, again=False))
    with redis_server.client() as client:
        assert client.xlen("ragstone:{test}:entries") == 0
    assert broker.publish("a.seg", 10, 20, [line(captured("more"))]) == 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--appendonly", "no"), "does not write an append-only file"),
        (("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"), "maxmemory-policy is allkeys-lru"),
    ],
)
def test_a_redis_that_may_lose_entries_is_refused(start_redis, tmp_path, options, message):
    """The worker ends before any work, and says what to change. The loss can be accepted."""
    server = start_redis(*options)
    command = ["worker", tmp_path / "s.db", "--judge", "lexical", "--until-idle", "--from"]
    refused = run_command(*command, server.url())
    assert refused.returncode == 2
    assert message in refused.stderr
    assert "accept_loss=1" in refused.stderr
    assert run_command(*command, server.url(options="?accept_loss=1")).returncode == 0


def test_tls(start_redis, certificate, port, tmp_path, monkeypatch):
    """Both sides show certificates. A server with an unknown one gets no request, and a client without one is refused."""
    encrypted = port()
    files = ("cert", "ssl_certfile"), ("key", "ssl_keyfile"), ("ca-cert", "ssl_ca_certs")
    options = [part for name, key in files for part in (f"--tls-{name}-file", certificate[key])]
    start_redis("--tls-port", encrypted, *options)
    check_tls(f"rediss://127.0.0.1:{encrypted}/app", certificate, tmp_path, monkeypatch)


def test_two_deployments_with_one_name_are_refused(queue, tmp_path):
    """The worker of a second store ends, and names the ways out."""
    command = ["--judge", "lexical", "--until-idle", "--from", queue]
    assert run_command("worker", tmp_path / "one.db", *command).returncode == 0
    refused = run_command("worker", tmp_path / "two.db", *command)
    assert refused.returncode == 2
    assert "belong to another store. Choose another name" in refused.stderr
    # The first one is not affected.
    assert run_command("worker", tmp_path / "one.db", *command).returncode == 0


def test_a_queue_of_another_version_is_refused(queue, redis_server, tmp_path):
    """A worker that finds a queue of another format version ends, and changes nothing in it."""
    worker = ["worker", tmp_path / "s.db", "--judge", "lexical", "--until-idle", "--from", queue]
    with redis_server.client() as client:
        name = connect_to(queue)._meta
        client.hset(name, "format", "2")
        before = client.hgetall(name)
        refused = run_command(*worker)
        assert before == client.hgetall(name)
    assert refused.returncode == 2
    assert "has format version '2', and this version of Ragstone reads version 1: use the version" in refused.stderr


def test_passwords_are_not_shown(start_redis, tmp_path, caplog, monkeypatch):
    """Neither messages nor status contain the password of the URL, also if it is wrong."""
    monkeypatch.setenv("RAGSTONE_SPOOL", str(tmp_path / "spool"))
    server = start_redis("--requirepass", "s3cret-word", "--user", "app", "on", ">s3cret-word", "~*", "+@all")
    good = f"redis://:s3cret-word@127.0.0.1:{server.port}/app"
    bad = f"redis://app:wr0ng-word@127.0.0.1:{server.port}/app"
    shown = [run_command("status", good, RAGSTONE_SPOOL=str(tmp_path / "spool")), run_command("status", bad)]
    assert [done.returncode for done in shown] == [0, 3]
    shown.append(run_command("worker", tmp_path / "s.db", "--judge", "lexical", "--until-idle", "--from", bad))
    # Without a password in the URL, it comes from the environment.
    clean = f"redis://127.0.0.1:{server.port}/app"
    assert run_command("status", clean, RAGSTONE_BROKER_PASSWORD="s3cret-word").returncode == 0
    with Monitor(store=bad, judge="lexical") as monitor:
        monitor.record(TraceDraft(query="q", response="r"))
        wait_until(lambda: monitor._background.relay.error)
    texts = [caplog.text, monitor._background.relay.error, *(done.stdout + done.stderr for done in shown)]
    assert not [text for text in texts if "s3cret-word" in text or "wr0ng-word" in text]
    assert "invalid username-password" in shown[1].stderr


def test_an_application_does_not_notice_that_redis_is_away(start_redis, tmp_path, caplog, monkeypatch):
    """Requests stay in the spool, the cause is logged once, and everything is published when Redis is back."""
    monkeypatch.setenv("RAGSTONE_SPOOL", str(tmp_path / "spool"))
    server = start_redis()
    server.kill()
    with Monitor(store=server.url(), judge="lexical") as monitor:
        for i in range(50):
            assert monitor.record(TraceDraft(trace_id=f"t{i}", query="q", response="r"))
        wait_until(lambda: monitor._background.relay.error)
        assert monitor.flush()
        assert not monitor.drain(timeout_s=0.5)
        assert monitor.counters.written == 50
        server.start()
        assert monitor.drain(60)
        server.kill()
        assert monitor.record(TraceDraft(trace_id="t50", query="q", response="r"))
        wait_until(lambda: monitor._background.relay.error)
        server.start()
        assert monitor.drain(60)
    said = [record.getMessage() for record in caplog.records if "cannot publish" in record.getMessage()]
    assert len(said) <= 4  # in each outage, one for each text of the error: refused, loading
    assert read_broker_status(server.url())[1].waiting == 51


def test_a_worker_of_another_store_does_not_take_requests_for_redis(start_redis, database, tmp_path, monkeypatch):
    """Both run on one host, with one `RAGSTONE_SPOOL`. While Redis is away, requests wait in the spool for it."""
    monkeypatch.setenv("RAGSTONE_SPOOL", str(tmp_path / "spool"))
    server = start_redis()
    server.kill()
    worker = ["worker", database, "--judge", "lexical", "--until-idle"]
    environment = {"RAGSTONE_SPOOL": str(tmp_path / "spool")}
    with Monitor(store=server.url(), judge="lexical", durability="sync") as monitor:
        assert all(monitor.record(TraceDraft(trace_id=f"t{i}", query="q", response="r")) for i in range(20))
        wait_until(lambda: monitor._background.relay.error)
    assert run_command(*worker, **environment).returncode == 0
    with open_store(database, mode="read") as store:
        assert store.ledger().total.captured == 0
    server.start()
    with Monitor(store=server.url(), judge="lexical") as monitor:
        monitor.start()
        assert monitor.drain(60)
    assert run_command(*worker, "--from", server.url(), **environment).returncode == 0
    with open_store(database, mode="read") as store:
        assert (store.ledger().total.captured, count_duplicates(store)) == (20, 0)


def test_a_worker_waits_for_redis(start_redis, tmp_path):
    """A worker starts without Redis, is not ready, and reads the entries when Redis is there."""
    import httpx

    server = start_redis()
    broker = connect_to(server.url())
    broker.publish("a.seg", 0, 9, [line(captured("t1"))])
    server.kill()
    options = ["--judge", "lexical", "--metrics", "ccrs", "--listen", "127.0.0.1:0", "--from", server.url()]
    command = ["worker", tmp_path / "s.db", *options]
    worker = subprocess.Popen(
        [sys.executable, "-c", MAIN, *map(str, command)], stderr=subprocess.PIPE, text=True, env=os.environ
    )
    try:
        said = ""
        while "health and metrics at " not in said:
            said = worker.stderr.readline()
        url = said.split()[-1]

        def ready():
            return httpx.get(f"{url}/readyz", timeout=5, trust_env=False)

        wait_until(lambda: any("cannot read redis" in error for error in ready().json()["store_errors"]))
        assert ready().status_code == 503
        server.start()
        wait_until(lambda: ready().status_code == 200)
        with open_store(tmp_path / "s.db", mode="read") as store:
            wait_until(lambda: store.ledger().total.captured == 1)
        page = f'ragstone_broker_depth{{broker="{broker.name}",state="waiting"}} 0.0'
        wait_until(lambda: page in httpx.get(f"{url}/metrics", timeout=5, trust_env=False).text)
    finally:
        worker.terminate()
        rest = worker.communicate()[1]
    assert rest.count("cannot read redis") <= 3  # refused, perhaps loading, not once for each attempt


# -- kills -----------------------------------------------------------------------------------------------------

CONSUMER = """
import sys, time
from ragstone.brokers._address import parse_broker_url
from ragstone.brokers._source import BrokerTraceSource
from ragstone.brokers._redis import RedisBroker
from ragstone.store import open_store
from ragstone.worker import StepErrors

source, errors = BrokerTraceSource(RedisBroker(parse_broker_url(sys.argv[1]), take_over_s=1.0)), StepErrors()
source._limit = 50
with open_store(sys.argv[2], mode="own") as store:
    while True:
        if not source.transfer_batch(store, errors):
            time.sleep(0.02)
"""


def run(code, *arguments, **environment) -> subprocess.Popen[bytes]:
    """Run code in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stderr=subprocess.DEVNULL, env=os.environ | environment
    )


def end(processes):
    """Kill processes that still run."""
    for process in processes:
        process.kill()
        process.wait()


def test_kill_of_one_of_two_consumers(queue, database):
    """Two workers share a database and a queue. One is killed at a third: nothing is lost, nothing is stored twice."""
    n = 3_000
    application = connect_to(queue)
    lines = [line(captured(f"t{i}")) for i in range(n)]
    lines += [line(SampledOut(trace_id=f"s{i}", started_at=1.0, inclusion_probability=0.5)) for i in range(n // 10)]
    for start in range(0, len(lines), 500):
        application.publish("a.seg", start, start + 500, lines[start : start + 500])
    consumers = [run(CONSUMER, queue, database) for _ in range(2)]
    try:
        with open_store(database, mode="own") as store:
            wait_until(lambda: store.ledger().total.captured >= len(lines) // 3)
            consumers[0].send_signal(signal.SIGKILL)
            wait_until(lambda: application.status().waiting == application.status().in_progress == 0)
            wait_until(lambda: store.ledger().total.captured >= len(lines))
            total = store.ledger().total
            assert (total.captured, total.pending, total.sampled_out) == (len(lines), n, n // 10)
            assert store.upkeep.recount() == []
    finally:
        end(consumers)


def test_the_advice_of_a_full_queue_and_of_status_lets_the_named_judge_score(queue, tmp_path, monkeypatch):
    """Followed literally, with the placeholders replaced, the commands store and score all requests, and free the queue."""
    monkeypatch.setenv("RAGSTONE_SPOOL", str(tmp_path / "spool"))
    with FakeJudgeServer() as server:
        check_broker(f"{queue}?max_entries={N_REQUESTS}", str(tmp_path / "s.db"), server)
