"""Whatever happens to a store, in whatever order, its books add up and nothing is scored twice."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from completions import complete
from ragstone.schema import Captured, Dropped, Failure, NotApplicable, SampledOut, Score, Trace
from ragstone.store import Completion, PlannedMetric, SqliteStore
from stored_bodies import count_duplicates

LEASE_S = 60.0
MAX_ATTEMPTS = 3

OWNERS = st.sampled_from(["ann", "bob"])
SEGMENTS = st.sampled_from(["a", "b"])
METRICS = [
    PlannedMetric(name="x", version="1", judge_hash="j"),
    PlannedMetric(name="x", version="2", judge_hash="j"),
    PlannedMetric(name="y", version="1"),
    PlannedMetric(name="z", version="1"),
]
PLANS = st.lists(st.sampled_from(METRICS), max_size=3, unique_by=lambda m: m.name)

# Few ids, so that captures of the same request meet.
TRACE_IDS = st.integers(0, 25).map("t{}".format)
ENTRIES = st.lists(
    st.one_of(
        TRACE_IDS.map(lambda i: Captured(trace=Trace(trace_id=i, started_at=0.0))),
        TRACE_IDS.map(lambda i: SampledOut(trace_id=i, started_at=0.0, inclusion_probability=0.5)),
        st.builds(Dropped, reason=st.sampled_from(["full", "large"]), n=st.integers(1, 9), at=st.just(0.0)),
    ),
    max_size=6,
)


def outcome(kind: str, trace_id: str, metric: PlannedMetric) -> Score | NotApplicable | Failure:
    """An outcome of any kind."""
    identity = {
        "sample_id": trace_id,
        "metric": metric.name,
        "metric_version": metric.version,
        "judge_hash": metric.judge_hash,
    }
    if kind == "score":
        return Score(**identity, value=0.5, method="exact")
    if kind == "failure":
        return Failure(**identity, kind="timeout", reason="slow")
    return NotApplicable(**identity, reason="no reference")


class StoreMachine(RuleBasedStateMachine):
    """Drives a store as its owners would, and keeps apart what must have become of each request."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="ragstone-"))
        self.now = 1_000.0
        self.offset = 0
        self.came_in = 0
        self.duplicates = 0
        self.erased = 0
        self.gone: set[str] = set()
        self.finished: dict[str, set[tuple[str, str, str]]] = {}
        self.traces: dict[str, str] = {}
        self.held: dict[str, list[str]] = {"ann": [], "bob": []}
        self.plan: list[PlannedMetric] = []
        self.open()

    def open(self) -> None:
        """Become the owner."""
        self.store = SqliteStore.open(
            self.folder / "store.db", mode="own", clock=lambda: self.now, max_attempts=MAX_ATTEMPTS
        )

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.store.close()
        shutil.rmtree(self.folder)

    @initialize(plan=PLANS)
    def first_plan(self, plan: list[PlannedMetric]) -> None:
        """An application sets its plan when it starts."""
        self.change_plan(plan)

    @rule(plan=PLANS)
    def change_plan(self, plan: list[PlannedMetric]) -> None:
        """A metric joins, leaves, or gets a new version."""
        self.plan = plan
        self.store.plan.set(plan, ["jsonl"])

    @rule(segment=SEGMENTS, entries=ENTRIES, repeat=st.booleans())
    def ingest(self, segment: str, entries, repeat: bool) -> None:
        """A batch arrives, perhaps twice."""
        self.offset += 1
        for entry in entries:
            if isinstance(entry, Dropped):
                self.came_in += entry.n
                continue
            trace_id = entry.trace.trace_id if isinstance(entry, Captured) else entry.trace_id
            if trace_id in self.traces or trace_id in self.gone:
                self.duplicates += 1
                continue
            self.traces[trace_id] = entry.entry
            self.came_in += 1
        self.store.traces.ingest(segment, self.offset, entries)
        if repeat:
            assert 0 == self.store.traces.ingest(segment, self.offset, entries)

    @rule(owner=OWNERS, limit=st.integers(0, 4))
    def claim(self, owner: str, limit: int) -> None:
        """A scorer asks for work."""
        claimed = [trace.trace_id for trace in self.store.leases.claim(owner, limit, lease_s=LEASE_S)]
        assert len(claimed) <= limit
        assert all(trace_id not in self.finished for trace_id in claimed)
        self.held[owner] += claimed
        # The store may have given up on others.
        for trace_id in self.traces:
            if trace_id not in self.finished and self.store.traces.explain(trace_id).state not in (
                "pending",
                "sampled_out",
            ):
                self.note_finished(trace_id)

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data(), keep=st.booleans())
    def complete(self, data: st.DataObject, keep: bool) -> None:
        """Some owner brings some outcomes for a trace that it holds, or believes it holds."""
        owner = data.draw(st.sampled_from([name for name, held in self.held.items() if held]))
        trace_id = data.draw(st.sampled_from(self.held[owner]))
        if not keep:
            self.held[owner].remove(trace_id)
        metrics = data.draw(st.one_of(st.just(self.plan), st.lists(st.sampled_from(METRICS), unique=True)))
        kinds = st.sampled_from(["score", "failure", "not_applicable"])
        outcomes = [outcome(data.draw(kinds), trace_id, metric) for metric in metrics]

        assert (trace_id not in self.finished) == complete(self.store, trace_id, outcomes, owner=owner)

        if trace_id not in self.finished and self.store.traces.explain(trace_id).state != "pending":
            self.note_finished(trace_id)

    @precondition(lambda self: any(self.held.values()))
    @rule(data=st.data())
    def complete_group(self, data: st.DataObject) -> None:
        """Several owners bring several outcomes at once, also for one trace."""
        held = [(owner, trace_id) for owner, ids in self.held.items() for trace_id in ids]
        group = []
        for owner, trace_id in data.draw(st.lists(st.sampled_from(held), max_size=6)):
            metrics = data.draw(st.one_of(st.just(self.plan), st.lists(st.sampled_from(METRICS), unique=True)))
            kinds = st.sampled_from(["score", "failure", "not_applicable"])
            outcomes = [outcome(data.draw(kinds), trace_id, metric) for metric in metrics]
            group.append(Completion(trace_id=trace_id, outcomes=outcomes, owner=owner))
        before = set(self.finished)

        for completion, stored in zip(group, self.store.outcomes.complete_many(group), strict=True):
            assert stored or completion.trace_id in before or self.state(completion.trace_id) != "pending"
            assert not (stored and completion.trace_id in before)

        for completion in group:
            if completion.trace_id not in self.finished and self.state(completion.trace_id) != "pending":
                self.note_finished(completion.trace_id)

    def state(self, trace_id: str) -> str:
        """The state of a trace in the store."""
        return self.store.traces.explain(trace_id).state

    def note_finished(self, trace_id: str) -> None:
        """A trace finishes only with an outcome of every metric of the plan of that moment."""
        keys = {(o.metric, o.metric_version, o.judge_hash) for o in self.store.traces.explain(trace_id).outcomes}
        assert {(m.name, m.version, m.judge_hash) for m in self.plan} <= keys
        self.finished[trace_id] = keys

    @rule(owner=OWNERS)
    def release(self, owner: str) -> None:
        """A scorer stops in peace."""
        self.store.leases.release(owner)

    @rule(owner=OWNERS)
    def renew(self, owner: str) -> None:
        """A scorer says that it lives."""
        assert self.store.leases.renew(owner, self.held[owner], LEASE_S) <= len(self.held[owner])

    @rule(seconds=st.sampled_from([1.0, LEASE_S]))
    def wait(self, seconds: float) -> None:
        """Time passes; a lease may run out."""
        self.now += seconds

    @rule(orderly=st.booleans())
    def reopen(self, orderly: bool) -> None:
        """The owner ends, orderly or killed, and another begins."""
        self.store.close()
        self.open()
        if not orderly:
            self.store.leases.release_all()

    @rule(sent=st.integers(0, 5), dead=st.integers(0, 2))
    def deliver(self, sent: int, dead: int) -> None:
        """A sink takes some outcomes and refuses others."""
        ids = [item.outcome.id for item in self.store.deliveries.due("jsonl", limit=sent + dead)]
        self.store.deliveries.mark("jsonl", ids[:sent], "sent")
        self.store.deliveries.mark("jsonl", ids[sent:], "failed", error="refused")

    @precondition(lambda self: self.traces)
    @rule(data=st.data(), dry_run=st.booleans())
    def erase(self, data: st.DataObject, dry_run: bool) -> None:
        """Somebody has requests erased."""
        ids = data.draw(st.lists(TRACE_IDS, unique=True, max_size=4))
        there = [trace_id for trace_id in ids if trace_id in self.traces]
        assert sorted(there) == sorted(self.store.traces.find(ids=ids))
        before = list(self.store.outcomes.read())
        erased = self.store.upkeep.erase(ids, dry_run=dry_run)
        assert (len(there), sum(o.sample_id in there for o in before)) == (erased.requests, erased.outcomes)
        if dry_run:
            assert before == list(self.store.outcomes.read())
            return
        self.erased += len(there)
        self.gone.update(there)
        for trace_id in there:
            del self.traces[trace_id]
            self.finished.pop(trace_id, None)
            for held in self.held.values():
                held[:] = [each for each in held if each != trace_id]
        assert all(self.store.traces.explain(trace_id) is None for trace_id in ids)

    @invariant()
    def the_books_add_up(self) -> None:
        """In total, and for each planned metric."""
        ledger = self.store.ledger()
        assert self.came_in == ledger.total.captured
        assert ledger.total.balanced, ledger
        assert [m.name for m in self.plan] == list(ledger.metrics)
        for name, row in ledger.metrics.items():
            assert row.balanced, (name, row)
            assert all(n >= 0 for n in row.model_dump().values()), (name, row)
        assert self.erased == ledger.dropped_by_reason.get("erased", 0) == sum(ledger.erased.values())
        captured = Counter(self.traces.values())
        assert captured["sampled_out"] == ledger.total.sampled_out
        assert captured["captured"] - len(self.finished) == ledger.total.pending
        assert self.duplicates == count_duplicates(self.store)
        assert [] == self.store.upkeep.recount()

    @invariant()
    def nothing_is_scored_twice(self) -> None:
        """One outcome a key, in the store and in the outbox."""
        outcomes = list(self.store.outcomes.read())
        keys = Counter(o.key for o in outcomes)
        assert all(n == 1 for n in keys.values())
        for trace_id, expected in self.finished.items():
            assert expected == {key[1:] for key in keys if key[0] == trace_id}
        assert len(outcomes) == sum(
            getattr(self.store.ledger().outbox["jsonl"], s) for s in ("pending", "sent", "skipped", "failed")
        )


StoreMachine.TestCase.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
TestStoreMachine = StoreMachine.TestCase
