"""Whatever happens to deliveries, in whatever order, each is what a table with a row for each of them would say."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ragstone.schema import Captured, Score, Trace
from ragstone.store import Completion, PlannedMetric, SqliteStore

SINKS = ("a", "b")
METRICS = [PlannedMetric(name=name, version="1") for name in ("x", "y", "z")]
PLANS = st.lists(st.sampled_from(SINKS), unique=True)
STATES = ("pending", "sent", "skipped", "failed")
ALL = 10**6


@dataclass
class Row:
    """A delivery in the table that the store does without."""

    started_at: float
    state: str = "pending"
    attempts: int = 0
    next_try: float = 0.0


class DeliveryMachine(RuleBasedStateMachine):
    """Drives a store as its workers would, and writes down each delivery."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ragstone-"))
        self.now = 1_000.0
        self.n_traces = 0
        self.erased = Counter()
        self.plan: list[str] = []
        self.outcomes: dict[str, float] = {}
        self.rows: dict[tuple[str, str], Row] = {}
        self.open()

    def open(self) -> None:
        """Become the owner."""
        self.store = SqliteStore.open(self.folder / "store.db", mode="own", clock=lambda: self.now)

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.store.close()
        shutil.rmtree(self.folder)

    @initialize(sinks=PLANS)
    def first_plan(self, sinks: list[str]) -> None:
        """A worker sets its plan when it starts."""
        self.change_plan(sinks)

    @rule(sinks=PLANS)
    def change_plan(self, sinks: list[str]) -> None:
        """Sinks join, leave and return."""
        self.plan = sinks
        self.store.plan.set(METRICS, sinks)

    @rule(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3))
    def score(self, sizes: list[int]) -> None:
        """Requests are scored, in a group."""
        group = []
        for size in sizes:
            self.n_traces += 1
            trace_id, started_at = f"t{self.n_traces}", float(self.n_traces)
            self.store.traces.ingest(
                "s", self.n_traces, [Captured(trace=Trace(trace_id=trace_id, started_at=started_at))]
            )
            outcomes = [
                Score(sample_id=trace_id, metric=metric.name, metric_version="1", value=0.5, method="exact")
                for metric in METRICS[:size]
            ]
            group.append(Completion(trace_id=trace_id, outcomes=outcomes))
            for outcome in outcomes:
                self.outcomes[outcome.id] = started_at
                self.rows |= {(outcome.id, sink): Row(started_at, next_try=self.now) for sink in self.plan}
        assert all(self.store.outcomes.complete_many(group))

    @rule(seconds=st.sampled_from([1.0, 60.0]))
    def wait(self, seconds: float) -> None:
        """Retries become due."""
        self.now += seconds

    @precondition(lambda self: self.outcomes)
    @rule(data=st.data(), sink=st.sampled_from(SINKS), result=st.sampled_from(["sent", "retry", "skipped", "failed"]))
    def mark(self, data: st.DataObject, sink: str, result: str) -> None:
        """A result arrives, of a batch or of outcomes in any order, also for deliveries that ended or never were."""
        batch = [item.outcome.id for item in self.store.deliveries.due(sink, limit=data.draw(st.integers(0, 6)))]
        anything = st.lists(st.sampled_from(sorted(self.outcomes)), unique=True, max_size=4)
        ids = data.draw(st.one_of(st.just(batch), st.permutations(batch), anything))
        rows = [self.rows[id_, sink] for id_ in ids if (id_, sink) in self.rows]
        if result == "sent":
            self.store.deliveries.mark(sink, ids, "sent")
            for row in rows:
                row.attempts += row.state != "sent"
                row.state = "sent"
            return
        if result == "retry":
            self.store.deliveries.mark(sink, ids, "pending", next_try=self.now + 30, error="503")
        elif result == "skipped":
            self.store.deliveries.mark(sink, ids, "skipped", error="-")
        else:
            self.store.deliveries.mark(sink, ids, "failed", error="refused")
        for row in rows:
            if row.state == "pending":
                row.attempts += 1
                if result == "retry":
                    row.next_try = self.now + 30
                else:
                    row.state = result

    @rule(sink=st.sampled_from([None, *SINKS]), state=st.sampled_from(STATES))
    def requeue(self, sink: str | None, state: str) -> None:
        """Somebody asks for deliveries once more."""
        again = [row for (_, name), row in self.rows.items() if row.state == state and sink in (None, name)]
        for row in again:
            row.state, row.attempts, row.next_try = "pending", 0, self.now
        assert len(again) == self.store.deliveries.requeue(sink=sink, state=state)

    @precondition(lambda self: self.outcomes)
    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        """Requests are erased, often the newest ones, whose place in the file is then used again."""
        newest = st.integers(1, 3).map(lambda n: range(max(self.n_traces - n + 1, 1), self.n_traces + 1))
        numbers = data.draw(st.one_of(newest, st.lists(st.integers(1, self.n_traces), unique=True, max_size=3)))
        gone = {id_ for id_, started_at in self.outcomes.items() if started_at in numbers}
        sent = Counter(sink for (id_, sink), row in self.rows.items() if id_ in gone and row.state == "sent")
        final = ((sink, row.state) for (id_, sink), row in self.rows.items() if id_ in gone and row.state != "pending")
        self.erased.update(final)
        assert dict(sent) == self.store.upkeep.erase([f"t{number}" for number in numbers]).sent
        self.outcomes = {id_: at for id_, at in self.outcomes.items() if id_ not in gone}
        self.rows = {key: row for key, row in self.rows.items() if key[0] not in gone}

    @rule()
    def reopen(self) -> None:
        """Another worker begins."""
        self.store.close()
        self.open()

    @invariant()
    def each_delivery_is_in_its_state(self) -> None:
        """One by one, counted, and due."""
        found = {(row.item_id, row.sink): row for row in self.store.deliveries.read(limit=ALL)}
        assert {key: row.state for key, row in self.rows.items()} == {key: row.state for key, row in found.items()}
        counts = {sink: Counter[str]() for sink in SINKS}
        for (_, sink), row in self.rows.items():
            counts[sink][row.state] += 1
        books = self.store.ledger().outbox
        gone = self.store.ledger().erased_deliveries
        assert dict(self.erased) == {(sink, state): n for sink, states in gone.items() for state, n in states.items()}
        for sink in SINKS:
            stored = books.get(sink)
            assert {name: counts[sink][name] for name in STATES} == {
                name: getattr(stored, name) if stored else 0 for name in STATES
            }
            for state in STATES:
                assert counts[sink][state] == len(self.store.deliveries.read(sink=sink, state=state, limit=ALL))
            due = self.store.deliveries.due(sink, limit=ALL)
            assert len(due) == len({item.outcome.id for item in due})
            assert {
                id_: row.attempts
                for (id_, name), row in self.rows.items()
                if name == sink and row.state == "pending" and row.next_try <= self.now
            } == {item.outcome.id: item.attempts for item in due}
            assert due[:2] == self.store.deliveries.due(sink, limit=2)

    @invariant()
    def texts_wait_for_sinks_of_the_plan(self) -> None:
        """And for no other."""
        waiting = {
            row.started_at for (_, sink), row in self.rows.items() if row.state == "pending" and sink in self.plan
        }
        finished = {
            started
            for id_, started in self.outcomes.items()
            if self.store.traces.explain(self.trace(started)).state != "pending"
        }
        assert len(waiting & finished) == self.store.upkeep.count_texts(before=ALL).undelivered

    def trace(self, started_at: float) -> str:
        """The id of the request that started then."""
        return f"t{started_at:.0f}"

    @invariant()
    def the_counters_equal_the_rows(self) -> None:
        """As `ragstone store verify` finds."""
        assert [] == self.store.upkeep.recount()


TestDeliveries = DeliveryMachine.TestCase
TestDeliveries.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
