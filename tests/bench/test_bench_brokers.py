"""What a message broker costs: publishing, for the application, and reading, for the worker, against the spool."""

from __future__ import annotations

import itertools
import shutil
import socket
import statistics
import subprocess
import time
from pathlib import Path

import pytest

from ragstone.brokers._address import parse_broker_url
from ragstone.brokers._relay import BrokerRelay
from ragstone.brokers._source import BrokerTraceSource
from ragstone.schema import Captured, Trace, spool_entry_adapter
from ragstone.spool import SpoolWriter
from ragstone.store import open_store
from ragstone.worker._intake import SpoolTraceSource, StepErrors

pytestmark = pytest.mark.bench

ROUNDS, N = 3, 1000
MAX_READ = 1.6
"""Processor time of a worker for an entry of Redis, against one of the spool."""
MAX_PUBLISH = 0.4
"""Processor time of publishing an entry, against that of a worker that reads the spool."""

_numbers = itertools.count()


@pytest.fixture
def url(tmp_path):
    """The URL of a queue in a Redis server."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("needs redis-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [program, "--port", port, "--bind", "127.0.0.1", "--dir", tmp_path, "--save", "", "--appendonly", "yes"]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(list(map(str, command)), stdout=log) as server:
        while not _is_open(port):
            time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}/bench"
        server.terminate()


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def fill(folder: Path) -> None:
    """Write a spool with requests of 4 kB."""
    first = next(_numbers) * N
    text = "The grey stone is granite from the quarry. " * 90
    writer = SpoolWriter(folder)
    for start in range(first, first + N, 50):
        traces = (
            Trace(trace_id=f"t{i}", started_at=1.0, query="Which?", response=text) for i in range(start, start + 50)
        )
        writer.append([spool_entry_adapter.dump_json(Captured(trace=trace)) for trace in traces])
    writer.close()


def read(source, store) -> float:
    """Processor time in seconds in which a source moves the requests into the store."""
    errors, moved, start = StepErrors(), 0, time.process_time()
    while moved < N:
        moved += source.transfer_batch(store, errors)
    return time.process_time() - start


def test_a_broker_costs_little(url, tmp_path, record_property):
    """In rounds that alternate."""
    from ragstone.brokers._redis import RedisBroker

    address = parse_broker_url(url)
    of_spool, of_broker, published = [], [], []
    with open_store(tmp_path / "s.db", mode="own") as store:
        for i in range(ROUNDS):
            fill(tmp_path / f"{i}.spool")
            of_spool.append(read(SpoolTraceSource(tmp_path / f"{i}.spool"), store))
            fill(tmp_path / f"{i}.relay")
            application = RedisBroker(address)
            relay = BrokerRelay(tmp_path / f"{i}.relay", lambda: RedisBroker(address))
            start = time.process_time()
            while relay.publish(application):
                pass
            published.append(time.process_time() - start)
            of_broker.append(read(BrokerTraceSource(RedisBroker(address)), store))
            application.close()
    spool = statistics.median(of_spool)
    reading, publishing = statistics.median(of_broker) / spool, statistics.median(published) / spool
    print(
        f"\nworker, from the spool: {spool / N * 1e6:.0f} us a request; from Redis: {reading:.2f}x; "
        f"publishing costs the application {publishing:.2f}x"
    )
    record_property("reading", reading)
    record_property("publishing", publishing)
    assert reading <= MAX_READ
    assert publishing <= MAX_PUBLISH
