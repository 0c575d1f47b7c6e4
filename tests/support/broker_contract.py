"""What every message broker promises to the relay of an application and to the trace source of a worker."""

from __future__ import annotations

import pytest

from ragstone.errors import BrokerError, ConfigurationError
from ragstone.schema import Captured, Dropped, Feedback, Trace, spool_entry_adapter
from ragstone.spool import SpoolWriter
from ragstone.spool._format import LAST, frame
from ragstone.store import open_store
from ragstone.worker import StepErrors
from waiting import wait_until

__all__ = ["BrokerContract", "OtherVersionsContract", "captured", "line", "payload"]


def payload(entry) -> bytes:
    """The JSON of an entry."""
    return spool_entry_adapter.dump_json(entry)


def line(entry) -> bytes:
    """The framed line of an entry."""
    return frame(payload(entry), LAST)


def captured(trace_id, **fields) -> Captured:
    """A captured request."""
    return Captured(trace=Trace(trace_id=trace_id, started_at=1.0, query="Which stone?", response="Granite.", **fields))


OTHER = frame(b'{"entry":"captured","schema_version":99,"trace":{"schema_version":99,"trace_id":"n"}}', LAST)


class BrokerContract:
    """Subclasses have a fixture `connect`, which returns a new connection to one empty queue."""

    def source(self, broker):
        """The trace source of a worker."""
        from ragstone.brokers._source import BrokerTraceSource

        return BrokerTraceSource(broker)

    def test_lines_arrive_once_in_order(self, connect):
        """Each line is received by one of two workers, and is gone after it is acknowledged."""
        lines = [line(captured(f"t{i}")) for i in range(10)]
        application, first, second = connect(), connect(), connect()
        # Before the first worker has ever joined.
        assert application.publish("a.seg", 0, 100, lines) == 100
        first.join("store")
        second.join("store")
        found = first.receive(6, again=False)
        rest = second.receive(100, again=False)
        assert [message.data for message in [*found, *rest]] == lines
        assert first.receive(100, again=False) == []
        assert (first.status().waiting, first.status().in_progress) == (0, 10)
        first.acknowledge(found)
        second.acknowledge(rest)
        wait_until(lambda: first.status().model_copy(update={"oldest_s": None}) == type(first.status())())
        assert first.status().oldest_s is None

    def test_what_was_received_comes_again_to_the_same_worker(self, connect):
        """A worker that failed gets what it did not acknowledge."""
        broker = connect()
        broker.publish("a.seg", 0, 9, [line(captured("t1")), line(captured("t2"))])
        broker.join("store")
        first = broker.receive(10, again=False)
        broker.acknowledge(first[:1])
        assert [m.key for m in broker.receive(10, again=True)] == [first[1].key]

    def test_an_entry_may_be_acknowledged_twice(self, connect):
        """A worker repeats an acknowledgment whose reply was lost."""
        broker = connect()
        broker.publish("a.seg", 0, 9, [line(captured("t1")), line(captured("t2"))])
        broker.join("store")
        found = broker.receive(10, again=False)
        broker.acknowledge(found[:1])
        broker.acknowledge(found)
        assert broker.receive(10, again=True) == []

    def test_positions(self, connect):
        """A segment's position changes with its lines, and a step that is repeated publishes nothing."""
        broker = connect()
        assert broker.position("a.seg") == 0
        broker.publish("a.seg", 0, 50, [line(captured("t1"))])
        assert connect().position("a.seg") == 50
        # The reply was lost, and the relay tries again.
        assert broker.publish("a.seg", 0, 50, [line(captured("t1"))]) == 50
        assert broker.status().waiting == 1
        assert broker.publish("a.seg", 50, 60, [line(captured("t2"))]) == 60
        assert broker.publish("b.seg", 0, 10, [line(captured("t3"))]) == 10
        broker.forget("a.seg")
        assert (broker.position("a.seg"), broker.position("b.seg")) == (0, 10)

    def test_another_store_is_refused(self, connect):
        """Two deployments cannot share a queue: each would have a part of the requests."""
        connect().join("one")
        connect().join("one")
        with pytest.raises(ConfigurationError, match="belong to another store"):
            connect().join("two")

    def test_the_relay_and_the_source(self, connect, tmp_path):
        """A spool goes through the broker into a store, and its segment is removed."""
        from ragstone.brokers import BrokerRelay

        writer = SpoolWriter(tmp_path / "spool")
        entries = [captured("t1"), Feedback(request_id="t1", value=1.0, given_at=2.0), Dropped(reason="x", n=3, at=1.0)]
        writer.append([payload(entry) for entry in entries])
        writer.close()
        relay = BrokerRelay(tmp_path / "spool", connect)
        application = connect()
        application.check()
        assert relay.count_unsent() == 3
        wait_until(lambda: not relay.publish(application) and not list((tmp_path / "spool").iterdir()))
        assert relay.count_unsent() == 0
        source, errors = self.source(connect()), StepErrors()
        with open_store(tmp_path / "s.db", mode="own") as store:
            moved = 0
            while moved < 3:
                moved += source.transfer_batch(store, errors)
            assert not errors
            ledger = store.ledger()
            segments = store.traces.segment_offsets()
        assert (ledger.total.captured, ledger.dropped_by_reason, ledger.feedback.received) == (4, {"x": 3}, 1)
        assert [name for name in segments if name.startswith("broker-entry")] == []
        assert not source.may_have_more or source.transfer_batch(store, errors) == 0

    @pytest.mark.parametrize("failing", [0, 1, 2])
    def test_an_acknowledgment_that_fails(self, connect, tmp_path, failing):
        """What the store has committed comes again, and is not stored twice: requests, feedback and drops."""
        entries = [captured("t1"), Feedback(request_id="t1", value=1.0, given_at=2.0), Dropped(reason="x", n=3, at=1.0)]
        connect().publish("a.seg", 0, 9, [line(entry) for entry in entries])
        broker = connect()
        acknowledge, calls = broker.acknowledge, []

        def fail_once(messages):
            calls.append(messages)
            if len(calls) == failing + 1:
                raise BrokerError("the connection is lost")
            acknowledge(messages)

        broker.acknowledge = fail_once
        source, errors = self.source(broker), StepErrors()
        with open_store(tmp_path / "s.db", mode="own") as store:
            assert source.transfer_batch(store, errors) == 0
            assert errors
            state = connect()
            while state.status().waiting or state.status().in_progress:
                source._retry_at = 0.0  # without its pause
                source.transfer_batch(store, errors)
            assert not errors
            ledger = store.ledger()
            segments = [name for name in store.traces.segment_offsets() if name.startswith("broker-entry")]
        assert (ledger.total.captured, ledger.dropped_by_reason, ledger.feedback.received) == (4, {"x": 3}, 1)
        assert segments == []

    def test_entries_that_cannot_be_stored_are_set_aside(self, connect, tmp_path):
        """Damaged, foreign and newer entries are counted, and do not delay the others."""
        bad = [
            b"no line",
            line(captured("x"))[:-5],
            frame(b'{"entry":"captured"}', LAST),
            frame(b"[" * 50_000, LAST),
            OTHER,
        ]
        good = [line(captured("t1")), line(captured("t2"))]
        connect().publish("a.seg", 0, 9, [good[0], *bad, good[1]])
        source, errors, status = self.source(connect()), StepErrors(), connect()
        with open_store(tmp_path / "s.db", mode="own") as store:
            while store.ledger().total.pending < 2 or status.status().waiting or status.status().in_progress:
                source.transfer_batch(store, errors)
                assert not errors
            ledger = store.ledger()
        assert source.n_set_aside == {"damaged": 4, "other_version": 1}
        # The version of Ragstone that wrote it can still read one of them.
        assert ledger.dropped_by_reason == {"broker_entry_damaged": 4}
        assert status.status().set_aside == 5


class OtherVersionsContract:
    """What a broker promises besides, if it outlives its workers.

    Subclasses have a fixture `connect`, and `module`: the name of the broker's module, which knows the version.
    """

    module: str

    def test_entries_of_another_version_are_read_by_another_worker(self, connect, tmp_path, monkeypatch):
        """The same version of Ragstone leaves them aside when it starts again. Another version stores them once."""
        from ragstone.brokers import _source

        parse = _source.parse_line
        connect().publish("a.seg", 0, 1, [OTHER])
        status, errors = connect(), StepErrors()
        with open_store(tmp_path / "s.db", mode="own") as store:
            old, restarted = (_source.BrokerTraceSource(connect()) for _ in range(2))
            wait_until(lambda: old.transfer_batch(store, errors) or old.n_set_aside)
            for _ in range(3):
                restarted.transfer_batch(store, errors)
            assert (status.status().set_aside, store.ledger().total.captured) == (1, 0)
            monkeypatch.setattr(f"{self.module}._VERSION", "99.0")
            monkeypatch.setattr(_source, "parse_line", lambda data: captured("n") if data == OTHER else parse(data))
            other = _source.BrokerTraceSource(connect())
            wait_until(lambda: other.transfer_batch(store, errors) and store.ledger().total.captured)
            ledger = store.ledger()
        assert not errors
        assert (ledger.total.captured, ledger.total.dropped) == (1, 0)
        wait_until(lambda: status.status().waiting == status.status().in_progress == 0)
