"""URLs of message brokers, the relay of an application and the trace source of a worker."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_contract import captured, line, payload
from command_line import run_command
from memory_broker import MemoryBroker, MemoryQueue
from ragstone.brokers._address import describe_broker, parse_broker_url
from ragstone.brokers._relay import BrokerRelay
from ragstone.brokers._source import BrokerTraceSource
from ragstone.cli._exit_codes import ExitCode
from ragstone.errors import ConfigurationError, RagstoneError, StoreError, StoreUnavailableError
from ragstone.monitor import Monitor
from ragstone.spool import SpoolWriter, parse_line
from ragstone.spool._format import LAST, frame
from ragstone.store import open_store, resolve_store
from ragstone.worker import ScoringSetup, StepErrors
from waiting import wait_until


@pytest.fixture
def queue():
    """A queue in memory."""
    return MemoryQueue()


@pytest.fixture
def spool(tmp_path):
    """A writer of a spool in `tmp_path / "spool"`."""
    writer = SpoolWriter(tmp_path / "spool")
    yield writer
    writer.close()


def _frame_json(value):
    """The framed line of any JSON."""
    return frame(json.dumps(value).encode(), LAST)


def append(writer, *trace_ids):
    """Append requests to a spool."""
    writer.append([payload(captured(trace_id)) for trace_id in trace_ids])


# -- addresses -------------------------------------------------------------------------------------------------


def test_a_url(monkeypatch):
    """Parts and options of a URL. The environment has the password if the URL does not."""
    monkeypatch.setenv("RAGSTONE_BROKER_PASSWORD", "from-the-environment")
    address = parse_broker_url("rediss://user:p%40ss@[::1]:7000/shop_1?db=3&max_entries=5&ssl_ca_certs=/ca.pem")
    assert (address.host, address.port, address.app, address.username) == ("::1", 7000, "shop_1", "user")
    assert (address.password, address.db, address.max_entries, address.accepts_loss) == ("p@ss", 3, 5, False)
    assert address.tls_files == {"ssl_ca_certs": "/ca.pem"}
    assert address.name == "rediss://[::1]:7000/shop_1"
    assert "p@ss" not in repr(address)
    assert parse_broker_url("redis://h/a").password == "from-the-environment"
    assert parse_broker_url("redis://h/a").port == 6379


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://host", "its path '' is not a name"),
        ("redis://host/0", r"The number of a database is an option: redis://host/NAME\?db=0"),
        ("redis:///app", "does not have a host"),
        ("redis://host:99999999/app", "cannot be parsed"),
        ("redis://host/a/b", "is not a name"),
        ("redis://host/app?ssl=1", "unknown option 'ssl'. redis has db, accept_loss, max_entries"),
        ("redis://host/app?db=x", "db must be an integer from 0"),
        ("redis://host/app?accept_loss=2", "accept_loss must be an integer from 0 to 1"),
        ("redis://host/app?max_entries=0", "max_entries must be an integer from 1"),
        ("redis://host/app?ssl_keyfile=k", "unknown option 'ssl_keyfile'"),
    ],
)
def test_an_invalid_url(url, message):
    """The error names the part, the rule and the form of a URL."""
    with pytest.raises(ConfigurationError, match=message) as caught:
        Monitor(store=url, judge="lexical")
    assert "Write 'redis://host:6379/NAME'" in str(caught.value)


@given(secret=st.text("@:/?#%[] \nab", min_size=6).map(lambda text: f"Zz{text}zZ"), path=st.text("ab/@?", max_size=4))
def test_no_error_contains_a_password(secret, path):
    """Also if special characters of the password are not encoded."""
    url = f"redis://user:{secret}@host:6379/{path}"
    try:
        shown = parse_broker_url(url).name + describe_broker(url)
    except RagstoneError as error:
        shown = str(error)
    assert secret not in shown


def test_a_broker_is_not_a_store():
    """A command that needs a store does not create a file with the name of a URL."""
    with pytest.raises(ConfigurationError, match=r"'redis://host/app' is not a store.*ragstone worker STORE --from"):
        resolve_store("redis://me:word@host/app")
    with pytest.raises(ConfigurationError, match="is not a store"):
        open_store("mysql://host/app", mode="read")


def test_a_monitor_with_a_broker_has_no_ledger(tmp_path, monkeypatch):
    """The error names the command that reads the ledger."""
    monkeypatch.setenv("RAGSTONE_SPOOL", str(tmp_path))
    with pytest.raises(StoreError, match=r"redis://127.0.0.1:1/app does not have a ledger.*ragstone status STORE"):
        Monitor(store="redis://u:secret@127.0.0.1:1/app", judge="lexical").ledger()


# -- relay -----------------------------------------------------------------------------------------------------


def test_the_relay_resumes_where_the_broker_is(queue, spool, tmp_path):
    """A new relay of the same spool does not publish entries again, and one whose broker lost entries does."""
    append(spool, "a", "b")
    BrokerRelay(tmp_path / "spool", None).publish(MemoryBroker(queue))
    append(spool, "c")
    relay = BrokerRelay(tmp_path / "spool", lambda: MemoryBroker(queue))
    relay.publish(MemoryBroker(queue))
    ids = [parse_line(data).trace.trace_id for data in queue.entries.values()]
    assert ids == ["a", "b", "c"]
    spool.close()
    queue.entries.clear()
    queue.positions.clear()
    # It crashed before it had written them to its disk. The segment is still there.
    relay.publish(MemoryBroker(queue))
    relay.publish(MemoryBroker(queue))
    assert [parse_line(data).trace.trace_id for data in queue.entries.values()] == ["a", "b", "c"]
    relay.publish(MemoryBroker(queue))
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_segment_stays_until_the_broker_has_settled(queue, spool, tmp_path):
    """The broker may forget what it has confirmed a moment ago."""
    append(spool, "a")
    spool.close()
    broker = MemoryBroker(queue)
    broker.settle_s = 3600.0
    relay = BrokerRelay(tmp_path / "spool", lambda: broker)
    for _ in range(3):
        relay.publish(broker)
    assert len(list((tmp_path / "spool").iterdir())) == 1
    broker.settle_s = 0.0
    relay.publish(broker)
    assert list((tmp_path / "spool").iterdir()) == []
    assert queue.positions == {}


@pytest.mark.parametrize("cause", ["away", "refused", "full"])
def test_an_error_is_logged_once(queue, spool, tmp_path, caplog, short_pauses, cause):
    """Entries stay in the spool until the cause is gone."""
    append(spool, "a")
    queue.is_away, queue.refused = cause == "away", "it may lose entries" if cause == "refused" else None
    queue.max_entries = 0 if cause == "full" else 10
    relay = BrokerRelay(tmp_path / "spool", lambda: MemoryBroker(queue))
    closing = threading.Event()
    thread = threading.Thread(target=relay.run, args=(closing,))
    thread.start()
    try:
        wait_until(lambda: relay.error)
        queue.is_away, queue.refused, queue.max_entries = False, None, 10
        wait_until(lambda: queue.entries)
    finally:
        closing.set()
        thread.join()
    said = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(said) == 1
    assert relay.error is None
    caplog.clear()


# -- trace source ----------------------------------------------------------------------------------------------


def test_an_entry_that_the_store_rejects_does_not_block_others(queue, tmp_path, monkeypatch, caplog):
    """It is found among the others of its batch, and set aside."""
    for trace_id in ("a", "bad", "b"):
        queue.add(line(captured(trace_id)))
    source, errors = BrokerTraceSource(MemoryBroker(queue)), StepErrors()
    with open_store(tmp_path / "s.db", mode="own") as store:
        ingest = store.traces.ingest

        def picky(segment, next_offset, entries):
            if any(getattr(entry, "trace", None) and entry.trace.trace_id == "bad" for entry in entries):
                raise StoreError("a value is out of range")
            return ingest(segment, next_offset, entries)

        monkeypatch.setattr(store.traces, "ingest", picky)
        assert source.transfer_batch(store, errors) == 3
        assert (store.ledger().total.pending, store.ledger().dropped_by_reason) == (2, {"broker_entry_rejected": 1})
    assert not errors
    assert [reason for _, reason in queue.aside] == ["rejected"]
    caplog.clear()


def test_a_store_that_is_away_rejects_no_entry(queue, tmp_path, monkeypatch, caplog):
    """If the store accepts nothing, entries stay in the broker."""
    queue.add(line(captured("a")))
    source, errors = BrokerTraceSource(MemoryBroker(queue)), StepErrors()
    with open_store(tmp_path / "s.db", mode="own") as store:
        with monkeypatch.context() as away:
            away.setattr(store.traces, "ingest", lambda *_: (_ for _ in ()).throw(StoreError("the disk is full")))
            assert source.transfer_batch(store, errors) == 0
        assert errors
        assert (len(queue.entries), queue.aside) == (1, [])
        assert source.status.error is not None
        assert source.transfer_batch(store, errors) == 0  # it pauses
        source._retry_at = 0.0
        assert source.transfer_batch(store, errors) == 1
        assert store.ledger().total.pending == 1
    caplog.clear()


@pytest.mark.parametrize("planned", [["text"], ["ranking"]])
def test_a_worker_with_an_empty_store_scores_the_plan_of_the_waiting_requests(queue, tmp_path, monkeypatch, planned):
    """A command without metrics does not assume some, and the requests do not stay pending."""
    queue.add(line(captured("a").model_copy(update={"plan": ScoringSetup(planned).plan})))
    monkeypatch.setattr("ragstone.cli._worker.make_trace_source", lambda _: BrokerTraceSource(MemoryBroker(queue)))
    done = run_command("worker", tmp_path / "s.db", "--until-idle", "--from", "redis://host/app")
    assert 0 == done.returncode, done.stderr
    with open_store(tmp_path / "s.db", mode="read") as store:
        ledger = store.ledger()
    assert (0, [planned]) == (ledger.total.pending, [plan.settings["scoring.metrics"] for plan in ledger.plans])
    assert "no metrics are named" not in done.stderr


def test_a_worker_that_cannot_read_the_plan_of_the_waiting_requests_ends(queue, tmp_path, monkeypatch, caplog):
    """It says why, and no plan is stored."""
    queue.is_away = True
    monkeypatch.setattr("ragstone.cli._worker.make_trace_source", lambda _: BrokerTraceSource(MemoryBroker(queue)))
    done = run_command("worker", tmp_path / "s.db", "--judge", "lexical", "--from", "redis://host/app")
    assert ExitCode.INFRASTRUCTURE == done.returncode
    assert "memory://queue cannot be used: it is away" in done.stderr
    queue.is_away = False
    done = run_command("worker", tmp_path / "s.db", "--judge", "lexical", "--from", "redis://host/app")
    assert 2 == done.returncode
    assert "no request with a plan waits in memory://queue. Name them with --metrics" in done.stderr
    with open_store(tmp_path / "s.db", mode="read") as store:
        assert not store.ledger().plans
    caplog.clear()


@pytest.mark.parametrize("trace_ids", [["a"], ["a", "b"]])
def test_a_server_that_restarts_rejects_no_entry(queue, tmp_path, monkeypatch, trace_ids):
    """The attempts that fail are followed by one that succeeds, and nothing is set aside."""
    for trace_id in trace_ids:
        queue.add(line(captured(trace_id)))
    source, errors = BrokerTraceSource(MemoryBroker(queue)), StepErrors()
    with open_store(tmp_path / "s.db", mode="own") as store:
        ingest, n_failures = store.traces.ingest, len(trace_ids)

        def restarting(segment, next_offset, entries):
            nonlocal n_failures
            if entries and n_failures:
                n_failures -= 1
                raise StoreUnavailableError("the connection was closed")
            return ingest(segment, next_offset, entries)

        monkeypatch.setattr(store.traces, "ingest", restarting)
        assert source.transfer_batch(store, errors) == len(trace_ids)
        assert (store.ledger().total.pending, store.ledger().total.dropped) == (len(trace_ids), 0)
    assert (len(queue.entries), queue.aside, bool(errors)) == (0, [], False)


def test_an_entry_for_which_the_server_always_ends_is_set_aside(queue, tmp_path, monkeypatch, caplog):
    """PostgreSQL reports a value that is too long for an index with the class of errors that a restart has."""
    for trace_id in ("bad", "a"):
        queue.add(line(captured(trace_id)))
    source, errors = BrokerTraceSource(MemoryBroker(queue)), StepErrors()
    with open_store(tmp_path / "s.db", mode="own") as store:
        ingest = store.traces.ingest

        def picky(segment, next_offset, entries):
            if any(getattr(entry, "trace", None) and entry.trace.trace_id == "bad" for entry in entries):
                raise StoreUnavailableError("index row size 9000 exceeds maximum 2712")
            return ingest(segment, next_offset, entries)

        monkeypatch.setattr(store.traces, "ingest", picky)
        assert source.transfer_batch(store, errors) == 2
        assert (store.ledger().total.pending, store.ledger().dropped_by_reason) == (1, {"broker_entry_rejected": 1})
    assert [reason for _, reason in queue.aside] == ["rejected"]
    caplog.clear()


def test_a_full_disk_rejects_no_entry(queue, tmp_path, monkeypatch, caplog):
    """Although it has room for a smaller step."""
    queue.add(line(captured("a")))
    source, errors = BrokerTraceSource(MemoryBroker(queue)), StepErrors()
    with open_store(tmp_path / "s.db", mode="own") as store:
        ingest = store.traces.ingest

        def full(segment, next_offset, entries):
            if any(hasattr(entry, "trace") for entry in entries):
                raise StoreError("no space left") from sqlite3.OperationalError("database or disk is full")
            return ingest(segment, next_offset, entries)

        with monkeypatch.context() as patched:
            patched.setattr(store.traces, "ingest", full)
            assert source.transfer_batch(store, errors) == 0
        assert (len(queue.entries), queue.aside, bool(errors)) == (1, [], True)
        source._retry_at = 0.0
        assert source.transfer_batch(store, errors) == 1
        assert store.ledger().total.pending == 1
    caplog.clear()


@given(
    hostile=st.lists(
        st.one_of(
            st.none(),
            st.binary(max_size=200),
            st.binary(max_size=200).map(lambda data: line(captured("x")).replace(b"x", data, 1)),
            st.recursive(
                st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=9)),
                lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
                max_leaves=6,
            ).map(lambda value: _frame_json({"entry": "captured", "trace": value})),
            st.dictionaries(
                st.sampled_from(["trace_id", "started_at", "query", "response", "tags", "status", "schema_version", "app"]),
                st.one_of(st.text(max_size=9), st.integers(), st.floats(), st.none(), st.lists(st.text(max_size=3), max_size=2)),
            ).map(lambda fields: _frame_json({"entry": "captured", "trace": {"trace_id": "h", "started_at": 1.0} | fields})),
        ),
        max_size=8,
    )
)  # fmt: skip
def test_hostile_entries_never_block(tmp_path_factory, hostile):
    """Whatever a queue contains: everything leaves it, is stored or set aside, and the good entries are stored."""
    queue = MemoryQueue()
    for data in [line(captured("good-1")), *hostile, line(captured("good-2"))]:
        queue.add(data)
    logging.getLogger("ragstone").disabled = True
    try:
        source, errors = BrokerTraceSource(MemoryBroker(queue)), StepErrors()
        with open_store(tmp_path_factory.mktemp("s") / "s.db", mode="own") as store:
            source.transfer_batch(store, errors)
            assert not errors.current
            assert queue.entries == {}
            assert {"good-1", "good-2"} <= {trace.trace_id for trace in store.traces.read()}
            ledger = store.ledger()
        dropped = sum(ledger.dropped_by_reason.values())
        other = sum(reason == "other_version" for _, reason in queue.aside)
        assert dropped + other == len(queue.aside)
        assert ledger.total.balanced
    finally:
        logging.getLogger("ragstone").disabled = False
