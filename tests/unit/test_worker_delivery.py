"""What becomes of outcomes on their way to a sink, whatever the sink says."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from builders import make_trace
from completions import complete
from ragstone.errors import (
    SinkDeniedError,
    SinkError,
    SinkNoTargetError,
    SinkRejectedError,
    SinkTargetMissingError,
    SinkUnavailableError,
)
from ragstone.schema import Captured, DeliveryCounts, Score
from ragstone.sinks import Delivery
from ragstone.store import PlannedMetric, SqliteStore
from ragstone.worker import StepErrors
from ragstone.worker._commit import Committer
from ragstone.worker._delivery import sink_dispatcher

Reply = Callable[[Sequence[Delivery]], Mapping[str, SinkError] | None]
HOUR = 3600.0


class Clock:
    """A clock that tests move."""

    now = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


class ScriptedSink:
    """Answers batches by a function, and remembers them as the ids of their traces."""

    name = "scripted"

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.batches: list[list[str]] = []

    async def write(self, batch: Sequence[Delivery]) -> Mapping[str, SinkError] | None:
        """Remember a batch and answer it."""
        self.batches.append([d.trace_id for d in batch])
        return self.reply(batch)

    async def aclose(self) -> None:
        """Nothing to let go."""


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[SqliteStore]:
    """Five scored traces, each owed to the sink."""
    with SqliteStore.open(tmp_path / "s.db", mode="own", clock=clock) as opened:
        opened.plan.set([PlannedMetric(name="m", version="1")], ["scripted"])
        ids = ["t1", "t2", "t3", "t4", "t5"]
        opened.traces.ingest("a", 1, [Captured(trace=make_trace(trace_id=i)) for i in ids])
        for i in ids:
            complete(opened, i, [Score(sample_id=i, metric="m", metric_version="1", value=0.5, method="exact")])
        yield opened


def run(store: SqliteStore, clock: Clock, reply: Reply, *, jitter: float = 0.0) -> tuple[sink_dispatcher, ScriptedSink]:
    """Deliver what is due, once."""
    sink = ScriptedSink(reply)

    async def deliver() -> sink_dispatcher:
        committer = Committer(StepErrors(), store)
        outlet = sink_dispatcher(sink, committer, clock=clock, jitter=lambda: jitter)
        await outlet.deliver(outlet.due())
        await committer.aclose()
        return outlet

    return asyncio.run(deliver()), sink


def failing(error: SinkError) -> Reply:
    """Raise for every batch."""

    def reply(batch: Sequence[Delivery]) -> None:
        raise error

    return reply


def only(trace_id: str, error: SinkError) -> Reply:
    """Take all but one."""
    return lambda batch: {d.outcome.id: error for d in batch if d.trace_id == trace_id}


def books(store: SqliteStore) -> DeliveryCounts:
    """The sink's books."""
    return store.ledger().outbox["scripted"]


def test_what_arrives_is_sent(store, clock):
    """None means that all have arrived, in one batch."""
    _, sink = run(store, clock, lambda batch: None)

    assert DeliveryCounts(sent=5) == books(store)
    assert [["t1", "t2", "t3", "t4", "t5"]] == sink.batches


def test_a_sink_may_empty_its_batch(store, clock):
    """The batch is the sink's own list: what it does with it does not change what is noted."""
    run(store, clock, lambda batch: batch.clear())

    assert DeliveryCounts(sent=5) == books(store)


@pytest.mark.parametrize(
    ("error", "column"),
    [
        (SinkUnavailableError("503"), "pending"),
        (SinkTargetMissingError("no such span"), "pending"),
        (SinkRejectedError("400"), "failed"),
        (SinkNoTargetError("no span id"), "skipped"),
    ],
)
def test_one_outcome_has_a_fate_of_its_own(store, clock, error, column):
    """The other four have arrived; the one is where its error says, with the reason."""
    run(store, clock, only("t3", error))

    assert (4, 1) == (books(store).sent, getattr(books(store), column))
    (row,) = store.deliveries.read(state=column)
    assert ("t3", str(error)) == (row.trace_id, row.last_error)


def test_one_reason_is_told_once(store, clock, caplog):
    """Rows that went alone have errors of their own; what they say is said once for all of them."""
    run(store, clock, lambda batch: {d.outcome.id: SinkUnavailableError("503") for d in batch})

    assert ["ragstone sink scripted: 503 (next attempt in 1 s)"] == caplog.messages
    assert DeliveryCounts(pending=5, oldest_pending_s=0.0, last_error="503") == books(store)


def test_a_batch_that_is_refused_is_split_down_to_the_row(store, clock):
    """Whoever refuses a whole batch for one row gets the others alone."""

    def reply(batch: Sequence[Delivery]) -> None:
        if any(d.trace_id == "t4" for d in batch):
            raise SinkRejectedError("422")

    _, sink = run(store, clock, reply)

    assert DeliveryCounts(sent=4, failed=1) == books(store)
    assert [["t1", "t2", "t3", "t4", "t5"], ["t1", "t2"], ["t3", "t4", "t5"], ["t3"], ["t4", "t5"], ["t4"], ["t5"]] == (
        sink.batches
    )


def test_a_batch_that_was_split_is_not_continued_without_credentials(store, clock):
    """The second half stays due, and is not written."""

    def reply(batch: Sequence[Delivery]) -> None:
        raise SinkRejectedError("422") if len(batch) == 5 else SinkDeniedError("401")

    _, sink = run(store, clock, reply)

    assert [["t1", "t2", "t3", "t4", "t5"], ["t1", "t2"]] == sink.batches
    assert (5, "401") == (books(store).pending, books(store).stopped)


def test_nothing_is_recorded_at_the_end_of_the_interpreter(store, clock, caplog):
    """A sink that cannot start a thread then has not failed: the next worker delivers at once."""

    def reply(batch: Sequence[Delivery]) -> None:
        raise RuntimeError("can't start new thread at interpreter shutdown")

    run(store, clock, reply)

    assert [(0, None)] * 5 == [(row.attempts, row.last_error) for row in store.deliveries.read(state="pending")]
    assert [] == caplog.messages


def test_rows_of_one_batch_keep_their_reasons(store, clock):
    """Two errors of one kind are two groups."""
    errors = {"t2": SinkRejectedError("too long"), "t4": SinkRejectedError("no number")}
    run(store, clock, lambda batch: {d.outcome.id: errors[d.trace_id] for d in batch if d.trace_id in errors})

    failed = store.deliveries.read(state="failed")
    assert [("t2", "too long"), ("t4", "no number")] == [(row.trace_id, row.last_error) for row in failed]


def test_a_sink_that_is_down_is_asked_ever_more_slowly(store, clock):
    """The waits double up to ten minutes, for as long as it takes: nothing is given up."""
    waits = []
    for _ in range(14):
        run(store, clock, failing(SinkUnavailableError("down")))
        due = store.deliveries.read(limit=1)[0].next_try
        waits.append(due - clock.now)
        clock.now = due

    assert [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600, 600, 600] == waits
    assert 5 == books(store).pending


def test_a_wait_is_up_to_a_quarter_shorter(store, clock):
    """So that workers which failed together do not come back together."""
    run(store, clock, failing(SinkUnavailableError("down")), jitter=0.8)

    assert clock.now + 0.8 == pytest.approx(store.deliveries.read(limit=1)[0].next_try)


def test_who_asks_for_time_gets_it(store, clock):
    """Retry-After counts where it is longer than our own wait."""
    run(store, clock, failing(SinkUnavailableError("429", retry_after_s=77.0)))

    assert clock.now + 77 == store.deliveries.read(limit=1)[0].next_try


def test_nobody_gets_more_than_an_hour(store, clock):
    """A server may ask for the end of time."""
    run(store, clock, failing(SinkUnavailableError("429", retry_after_s=float("inf"))))

    assert clock.now + HOUR == store.deliveries.read(limit=1)[0].next_try


def test_a_sink_that_takes_what_it_can_keeps_its_pace(store, clock):
    """A rate limit lets some through each time: the rest is not put off ever longer."""
    for n in (4, 3, 2):
        run(store, clock, lambda batch: {d.outcome.id: SinkUnavailableError("429") for d in batch[1:]})
        waiting = store.deliveries.read(state="pending")
        assert [clock.now + 1] * n == [row.next_try for row in waiting]
        clock.now += 1


def test_a_trace_that_does_not_come_is_waited_for_a_day(store, clock):
    """Then its outcome is a dead letter that says so; asked for again, it waits for another day."""
    missing = SinkTargetMissingError("no such span")
    run(store, clock, only("t3", missing))
    assert clock.now + 2 == store.deliveries.read(state="pending")[0].next_try

    clock.now += 23 * HOUR
    run(store, clock, only("t3", missing))
    assert 1 == books(store).pending
    clock.now += 1 * HOUR
    run(store, clock, only("t3", missing))
    (row,) = store.deliveries.read(state="failed")
    assert "the trace did not arrive within 24 h: no such span" == row.last_error

    store.deliveries.requeue()
    run(store, clock, only("t3", missing))
    assert (1, 0) == (books(store).pending, books(store).failed)


def test_a_trace_that_does_not_come_is_asked_for_more_slowly_beside_others(store, clock):
    """Others that arrive do not show that it will."""
    missing = SinkTargetMissingError("no such span")
    run(store, clock, lambda batch: {d.outcome.id: missing for d in batch if d.trace_id in ("t3", "t4")})
    clock.now += 2
    run(store, clock, only("t3", missing))
    assert clock.now + 4 == store.deliveries.read(state="pending")[0].next_try


def test_credentials_that_are_refused_stop_the_sink_and_are_said_once(store, clock, caplog):
    """Nothing is lost, nothing more is asked, and the ledger says why; a new worker tries again."""
    with caplog.at_level(logging.WARNING):
        outlet, _ = run(store, clock, failing(SinkDeniedError("401; check the credentials")))
        clock.now += HOUR
        assert [] == outlet.due()

    assert (5, "401; check the credentials") == (books(store).pending, books(store).stopped)
    assert ["ragstone sink scripted stopped, its deliveries stay pending: 401; check the credentials"] == [
        r.message for r in caplog.records
    ]
    run(store, clock, lambda batch: None)
    assert 5 == books(store).sent


def test_an_outage_is_said_once_a_batch(store, clock, caplog):
    """Not once a row, and not again at each try."""
    with caplog.at_level(logging.WARNING):
        run(store, clock, failing(SinkUnavailableError("down")))
        clock.now += 2
        run(store, clock, failing(SinkUnavailableError("down")))

    assert ["ragstone sink scripted: down (next attempt in 1 s)"] == [r.message for r in caplog.records]


def test_a_bug_of_a_sink_is_an_outage(store, clock, caplog):
    """Foreign code may raise anything; the rows stay due."""

    def reply(batch: Sequence[Delivery]) -> None:
        raise KeyError("x")

    with caplog.at_level(logging.ERROR):
        run(store, clock, reply)
        clock.now += 2
        run(store, clock, reply)

    assert (5, "KeyError: 'x'") == (books(store).pending, books(store).last_error)
    # The traceback is written once.
    assert [True, False] == [bool(r.exc_info) for r in caplog.records]
