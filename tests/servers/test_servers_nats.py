"""NATS JetStream as a message broker: its promises, its checks, and kills of one of two workers."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time

import pytest

from broker_contract import BrokerContract, OtherVersionsContract, captured, line
from command_line import run_command
from fake_servers import FakeJudgeServer
from pending_requests import N_REQUESTS, check_broker
from ragstone.brokers._address import parse_broker_url
from ragstone.brokers._factory import open_broker
from ragstone.errors import BrokerError
from ragstone.monitor import Monitor
from ragstone.requests import TraceDraft
from ragstone.store import open_store
from tls_brokers import check_tls
from waiting import wait_until

pytestmark = [pytest.mark.servers, pytest.mark.timeout(600)]

_numbers = itertools.count()

CONSUMER = """
import sys, time
from ragstone.brokers._address import parse_broker_url
from ragstone.brokers._source import BrokerTraceSource
from ragstone.brokers._nats import NatsBroker
from ragstone.store import open_store
from ragstone.worker import StepErrors

source, errors = BrokerTraceSource(NatsBroker(parse_broker_url(sys.argv[1]), take_over_s=2.0)), StepErrors()
source._limit = 20
with open_store(sys.argv[2], mode="own") as store:
    while True:
        if not source.transfer_batch(store, errors):
            time.sleep(0.02)
"""


@pytest.fixture
def queue(nats_server):
    """The URL of a new queue."""
    return nats_server.url(f"q{next(_numbers)}")


class TestNatsBroker(BrokerContract, OtherVersionsContract):
    """NATS keeps the promises of a broker."""

    module = "ragstone.brokers._nats"

    @pytest.fixture
    def connect(self, queue):
        """Connections to one queue."""
        opened = []

        def connect():
            opened.append(open_broker(queue))
            return opened[-1]

        yield connect
        for broker in opened:
            broker.close()


def test_a_monitor_and_a_worker(queue, tmp_path, monkeypatch):
    """An application publishes, and a worker scores."""
    monkeypatch.setenv("RAGSTONE_SPOOL", str(tmp_path / "spool"))
    with Monitor(store=queue, judge="lexical") as monitor:
        for i in range(30):
            assert monitor.record(TraceDraft(trace_id=f"t{i}", query="Which stone?", response="The grey stone."))
        assert monitor.drain(60)
    done = run_command("worker", tmp_path / "s.db", "--judge", "lexical", "--metrics", "ccrs.qr", "--until-idle", "--from", queue)  # fmt: skip
    assert done.returncode == 0, done.stderr
    with open_store(tmp_path / "s.db", mode="read") as store:
        assert (store.ledger().total.captured, store.ledger().total.scored) == (30, 30)
    assert "0 waiting, 0 in progress" in run_command("status", tmp_path / "s.db", "--from", queue).stdout


def test_tls(start_nats, certificate, tmp_path, monkeypatch):
    """Both sides show certificates. A server with an unknown one gets no request, and a client without one is refused."""
    files = ("tlscert", "ssl_certfile"), ("tlskey", "ssl_keyfile"), ("tlscacert", "ssl_ca_certs")
    options = [part for name, key in files for part in (f"--{name}", certificate[key])]
    server = start_nats("--tls", "--tlsverify", *options)
    check_tls(f"tls://127.0.0.1:{server.port}/app", certificate, tmp_path, monkeypatch)


def test_a_full_queue_keeps_requests_in_the_spool(queue):
    """JetStream refuses entries above the limit, and what it has accepted is not published twice."""
    broker = open_broker(queue + "?max_entries=5")
    broker.publish("a.seg", 0, 10, [line(captured(f"t{i}")) for i in range(4)])
    more = [line(captured(f"t{i}")) for i in range(4, 8)]
    with pytest.raises(BrokerError, match="5 entries or more"):
        broker.publish("a.seg", 10, 20, more)
    broker.join("store")
    broker.acknowledge(broker.receive(10, again=False))
    assert broker.publish("a.seg", 10, 20, more) == 20
    assert len(broker.receive(10, again=False)) == 3
    broker.close()


@pytest.mark.parametrize("n_held", [0, 1])
@pytest.mark.parametrize("options", ["", "?max_entries=20"], ids=["room", "full"])
def test_a_killed_server_does_not_bring_entries_back(start_nats, options, n_held):
    """A killed server may forget that it has removed acknowledged entries. The worker receives them again.

    If an earlier entry is not acknowledged at that moment, they are not among those that the consumer is known to have passed.
    """
    from ragstone.brokers._nats import NatsBroker

    server = start_nats()
    broker = NatsBroker(parse_broker_url(f"{server.url()}{options}"), take_over_s=1.0)
    broker.join("store")
    broker.publish("a.seg", 0, 10, [line(captured(f"t{i}")) for i in range(20)])
    found = set()

    def receive(n):
        messages = broker.receive(n, again=False)
        found.update(message.data for message in messages)
        broker.acknowledge(messages)
        return len(messages)

    held = broker.receive(n_held, again=False) if n_held else []
    found.update(message.data for message in held)
    wait_until(lambda: receive(5) and len(found) >= 10)
    # Meanwhile the server saves which entries are acknowledged, and not that they are removed.
    time.sleep(4)
    server.kill()
    server.start()
    with pytest.raises(BrokerError):
        receive(1)
    broker.join("store")
    wait_until(lambda: not receive(5) and broker.status().waiting == broker.status().in_progress == 0)
    assert found == {line(captured(f"t{i}")) for i in range(20)}
    broker.close()


def test_kill_of_one_of_two_consumers(queue, database):
    """Nothing is lost, and nothing is stored twice."""
    application = open_broker(queue)
    n = 600
    lines = [line(captured(f"t{i}")) for i in range(n)]

    def is_published():
        # A busy server may not answer in time. As the relay does, publish again: a line is stored once.
        try:
            application.publish("a.seg", 0, 1, lines)
        except BrokerError:
            return False
        return True

    wait_until(is_published)
    consumers = [
        subprocess.Popen([sys.executable, "-c", CONSUMER, queue, database], stderr=subprocess.DEVNULL, env=os.environ)
        for _ in range(2)
    ]
    try:
        with open_store(database, mode="own") as store:
            wait_until(lambda: store.ledger().total.captured >= n // 3)
            consumers[0].send_signal(signal.SIGKILL)
            wait_until(lambda: application.status().waiting == application.status().in_progress == 0)
            wait_until(lambda: store.ledger().total.captured >= n)
            assert (store.ledger().total.captured, store.ledger().total.pending) == (n, n)
            assert store.upkeep.recount() == []
    finally:
        application.close()
        for process in consumers:
            process.kill()
            process.wait()


def test_the_advice_of_a_full_queue_and_of_status_lets_the_named_judge_score(queue, tmp_path, monkeypatch):
    """Followed literally, with the placeholders replaced, the commands store and score all requests, and free the queue."""
    monkeypatch.setenv("RAGSTONE_SPOOL", str(tmp_path / "spool"))
    with FakeJudgeServer() as server:
        check_broker(f"{queue}?max_entries={N_REQUESTS}", str(tmp_path / "s.db"), server)
