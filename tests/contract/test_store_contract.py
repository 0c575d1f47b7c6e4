"""What every store promises, whatever it is made of. A new store joins by one more line in `STORES`."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from completions import complete
from ragstone.errors import ConfigurationError, DataError, StoreError
from ragstone.schema import (
    Captured,
    DeliveryCounts,
    Dropped,
    Evidence,
    Failure,
    Feedback,
    Ignored,
    IgnoredTraces,
    LedgerRow,
    NotApplicable,
    Retrieval,
    SampledOut,
    Score,
    Trace,
)
from ragstone.store import (
    Completion,
    DrawnRequest,
    PlannedMetric,
    SqliteStore,
    Store,
    StoredLabel,
)
from stored_bodies import count_duplicates

OpenStore = Callable[[], Store]

STORES = {
    "sqlite": lambda folder, clock: SqliteStore.open(folder / "store.db", mode="own", clock=clock),
}

GROUNDED = PlannedMetric(name="grounded", version="1", judge_hash="j1")
RECALL = PlannedMetric(name="recall", version="1")


class Clock:
    """A clock that stands still until told otherwise."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """The clock that the store reads."""
    return Clock()


@pytest.fixture(params=STORES)
def open_store(request, tmp_path: Path, clock: Clock) -> OpenStore:
    """Opens the same store again and again."""
    return lambda: STORES[request.param](tmp_path, clock)


@pytest.fixture
def store(open_store: OpenStore) -> Iterator[Store]:
    """An open store with two planned metrics and two sinks."""
    with open_store() as store:
        store.plan.set([GROUNDED, RECALL], ["jsonl", "otlp"])
        yield store


def captured(trace_id: str, **fields) -> Captured:
    """An entry of a spool."""
    return Captured(trace=Trace(trace_id=trace_id, **{"started_at": 999_000.0, "query": "Why?"} | fields))


def sampled_out(trace_id: str) -> SampledOut:
    """An entry of a spool, without text."""
    return SampledOut(trace_id=trace_id, started_at=999_000.0, inclusion_probability=0.25)


def ingest(store: Store, *trace_ids: str) -> None:
    """Bring traces in."""
    offset = store.traces.segment_offsets().get("main", 0)
    store.traces.ingest("main", offset + 1, [captured(trace_id) for trace_id in trace_ids])


def score(trace_id: str, metric: PlannedMetric = GROUNDED, value: float = 0.5) -> Score:
    """One kind of outcome."""
    return Score(
        sample_id=trace_id,
        metric=metric.name,
        metric_version=metric.version,
        judge_hash=metric.judge_hash,
        value=value,
        method="exact",
    )


def not_applicable(trace_id: str, metric: PlannedMetric = RECALL) -> NotApplicable:
    """One kind of outcome."""
    return NotApplicable(
        sample_id=trace_id,
        metric=metric.name,
        metric_version=metric.version,
        judge_hash=metric.judge_hash,
        reason="no reference",
        missing=("reference",),
    )


def failure(trace_id: str, metric: PlannedMetric = GROUNDED) -> Failure:
    """One kind of outcome."""
    return Failure(
        sample_id=trace_id,
        metric=metric.name,
        metric_version=metric.version,
        judge_hash=metric.judge_hash,
        kind="timeout",
        reason="no answer within 30 s",
    )


def both(trace_id: str, value: float = 0.5) -> list[Score | NotApplicable]:
    """An outcome of each planned metric."""
    return [score(trace_id, value=value), not_applicable(trace_id)]


class TestIntake:
    """Entries of segments come in once, together with the offset they lead to."""

    def test_a_trace_comes_back_whole(self, store: Store):
        """Everything that was captured is there, fields of later versions included."""
        entry = captured("t1", retrievals=(Retrieval(query="q"),), metadata={"k": [1, None]}, from_the_future="kept")

        store.traces.ingest("a", 10, [entry])

        assert entry.trace == store.traces.get("t1")

    def test_the_offset_moves_with_the_entries(self, store: Store):
        """A segment is read on from where its entries are known to be stored."""
        assert 2 == store.traces.ingest(
            "a", 10, [captured("t1"), sampled_out("t2"), Dropped(reason="full", n=3, at=1.0)]
        )
        store.traces.ingest("b", 4, [])

        assert {"a": 10, "b": 4} == store.traces.segment_offsets()

    def test_a_batch_taken_in_twice_counts_once(self, store: Store):
        """A caller that does not know whether its batch was stored may simply repeat it."""
        batch = [captured("t1"), Dropped(reason="full", n=3, at=1.0)]
        store.traces.ingest("a", 10, batch)

        assert 0 == store.traces.ingest("a", 10, batch)
        assert LedgerRow(captured=4, dropped=3, pending=1) == store.ledger().total

    def test_the_same_trace_from_another_segment_is_a_duplicate(self, store: Store):
        """The first capture counts; later ones are ignored and counted apart."""
        store.traces.ingest("a", 10, [captured("t1", query="first"), sampled_out("t2")])
        new = store.traces.ingest(
            "b", 10, [captured("t1", query="second"), captured("t2"), sampled_out("t1"), captured("t3")]
        )

        assert (1, 3) == (new, count_duplicates(store))
        assert "first" == store.traces.get("t1").query
        assert LedgerRow(captured=3, sampled_out=1, pending=2) == store.ledger().total

    def test_rules_and_doubts_are_counted_once_a_trace(self, store: Store):
        """The ledger says by which rules the parts of traces were found, and what is unclear about them."""
        clear = Evidence(query="input", contexts="in_prompt", response="output")
        unclear = Evidence(query="input", contexts="unknown", doubts=("not_in_prompt", "text_tool:search"))
        store.traces.ingest("a", 1, [captured("t1", evidence=clear), captured("t2", evidence=unclear), captured("t3")])
        store.traces.ingest("b", 1, [captured("t2", evidence=unclear), captured("t4", evidence=clear)])

        ledger = store.ledger()

        assert {"in_prompt": 2, "unknown": 1} == ledger.rules["contexts"]
        assert {"input": 3} == ledger.rules["query"]
        assert {"not_in_prompt": 1, "text_tool:search": 1} == ledger.doubts

    def test_a_batch_that_cannot_be_stored_leaves_nothing(self, store: Store):
        """Neither the good entries before the bad one, nor the offset."""
        bad = captured("t2", metadata={"object": object()})

        with pytest.raises(DataError, match="'t2'"):
            store.traces.ingest("a", 10, [captured("t1"), bad])

        assert {} == store.traces.segment_offsets()
        assert LedgerRow() == store.ledger().total

    def test_forgetting_a_segment_keeps_its_traces(self, store: Store):
        """Only the offset goes."""
        store.traces.ingest("a", 10, [captured("t1")])

        store.traces.forget_segment("a")
        store.traces.forget_segment("never heard of")

        assert {} == store.traces.segment_offsets()
        assert 1 == store.ledger().total.pending

    def test_everything_survives_reopening(self, open_store: OpenStore):
        """A store is a file, not a process."""
        with open_store() as store:
            store.plan.set([GROUNDED], ["jsonl"])
            store.traces.ingest("a", 10, [captured("t1"), captured("t2"), Dropped(reason="full", n=3, at=1.0)])
            complete(store, "t1", [score("t1")])
            before = store.ledger()

        with open_store() as store:
            assert before == store.ledger()
            assert {"a": 10} == store.traces.segment_offsets()
            assert [score("t1")] == list(store.outcomes.read())


PLAN_A = {"scoring.metrics": ["a"], "judge.url": "http://a"}
PLAN_B = {"scoring.metrics": ["a"], "judge.url": "http://b"}
PLAN_WITHOUT_JUDGE = {"scoring.metrics": ["a"], "judge.url": None}


class TestPlans:
    """A request keeps the plan of the application that captured it, until a worker replaces it."""

    def add(self, store: Store, segment: str, plans: dict[str, dict | None]) -> None:
        """Ingest a request for each plan."""
        store.traces.ingest(
            segment, 1, [captured(name).model_copy(update={"plan": plan}) for name, plan in plans.items()]
        )

    def claimed(self, store: Store, plan: str | None) -> list[str]:
        """Return the ids of all requests that a worker with this plan gets."""
        return [trace.trace_id for trace in store.leases.claim("me", 9, lease_s=60, plan=plan)]

    def test_a_worker_gets_the_requests_of_its_plan(self, store: Store):
        """A worker leases requests of its plan, of plans that lack only a model, and those without a plan."""
        self.add(store, "s", {"t1": PLAN_A, "t2": PLAN_B, "t3": PLAN_WITHOUT_JUDGE, "t4": None})
        first = store.plan.use(PLAN_A, {})
        self.add(store, "r", {"t5": None})
        assert {"t1", "t3", "t5"} <= {*self.claimed(store, first)}
        assert "t2" in self.claimed(store, store.plan.use(PLAN_B, {}))

    def test_requests_of_several_plans_are_claimed_in_order_of_arrival(self, store: Store):
        """Also if a worker takes only a part of them."""
        plan = store.plan.use(PLAN_A, {})
        plans = [None, PLAN_WITHOUT_JUDGE, PLAN_A, None, PLAN_WITHOUT_JUDGE, PLAN_A]
        self.add(store, "s", {f"t{number}": each for number, each in enumerate(plans)})

        for first in (0, 2, 4):
            claimed = store.leases.claim("me", 2, lease_s=60, plan=plan)
            assert [f"t{first}", f"t{first + 1}"] == [trace.trace_id for trace in claimed]

    def test_replan_replaces_the_plan_of_pending_and_later_requests(self, store: Store):
        """After a worker has replaced the plans, it gets all requests, and another plan only if a worker uses it again."""
        self.add(store, "s", {"t1": PLAN_A})
        new = store.plan.use(PLAN_B, {"reasons": 1}, replan=True)
        self.add(store, "r", {"t2": PLAN_A})
        ledger = store.ledger()
        assert [(PLAN_A, new, 0), (PLAN_B, None, 2)] == [(p.settings, p.replaced_by, p.pending) for p in ledger.plans]
        assert {"plan": new, "reasons": 1} == ledger.last_worker
        assert ["t1", "t2"] == self.claimed(store, new)
        store.plan.use(PLAN_A, {})
        self.add(store, "q", {"t3": PLAN_A})
        assert [] == self.claimed(store, new)

    def test_requests_without_a_plan_count_for_the_one_that_applies(self, store: Store):
        """The ledger counts pending requests of applications without a plan in the plan that applies."""
        self.add(store, "s", {"t1": PLAN_A, "t2": None})
        assert [2] == [plan.pending for plan in store.ledger().plans]

    def test_a_worker_of_an_earlier_plan_does_not_make_it_apply_again(self, store: Store):
        """If a worker scores what is pending of an earlier plan, later commands still use the last one."""
        self.add(store, "s", {"t1": PLAN_A})
        store.plan.use(PLAN_B, {})
        earlier = store.plan.use(PLAN_A, {})
        assert (PLAN_B, ["t1"]) == (store.ledger().plans[-1].settings, self.claimed(store, earlier))
        store.plan.use(PLAN_A, {}, replan=True)
        assert PLAN_A == store.ledger().plans[-1].settings

    def test_the_last_plan_applies_and_an_incomplete_one_does_not(self, store: Store):
        """A later request with another plan makes it apply, but not one whose plan only lacks the judge."""
        store.plan.use(PLAN_A, {})
        for number, (plan, current) in enumerate([(PLAN_WITHOUT_JUDGE, PLAN_A), (PLAN_B, PLAN_B), (PLAN_A, PLAN_A)]):
            later = captured(f"t{number}", started_at=4e9 + number).model_copy(update={"plan": plan})
            store.traces.ingest("s", number, [later])
            assert current == store.ledger().plans[-1].settings


class TestLeases:
    """A trace is with one scorer at a time, and never lost with one."""

    def test_claims_are_in_order_of_arrival_and_do_not_overlap(self, store: Store):
        """Two scorers get different traces, oldest first."""
        ingest(store, "t3", "t1")
        ingest(store, "t2")

        assert ["t3", "t1"] == [t.trace_id for t in store.leases.claim("me", 2, lease_s=60)]
        assert ["t2"] == [t.trace_id for t in store.leases.claim("you", 2, lease_s=60)]
        assert [] == store.leases.claim("me", 2, lease_s=60)

    @pytest.mark.parametrize("limit", [0, -1])
    def test_claiming_nothing_gets_nothing(self, store: Store, limit: int):
        """A scorer without free places asks for none."""
        ingest(store, "t1")

        assert [] == store.leases.claim("me", limit, lease_s=60)

    def test_a_lease_that_ran_out_can_be_claimed(self, store: Store, clock: Clock):
        """A scorer that died does not keep its traces."""
        ingest(store, "t1")
        store.leases.claim("dead", 1, lease_s=60)

        clock.now += 59
        assert [] == store.leases.claim("me", 1, lease_s=60)
        clock.now += 1
        assert ["t1"] == [t.trace_id for t in store.leases.claim("me", 1, lease_s=60)]

    def test_renewing_keeps_a_lease_that_is_still_ours(self, store: Store, clock: Clock):
        """Slow judges are not taken for dead ones; what is lost or finished cannot be renewed."""
        ingest(store, "mine", "lost", "finished")
        store.leases.claim("me", 3, lease_s=10)
        complete(store, "finished", both("finished"), owner="me")
        clock.now += 10
        assert 1 == store.leases.renew("me", ["mine"], 60)
        store.leases.claim("you", 1, lease_s=60)

        clock.now += 30

        assert 1 == store.leases.renew("me", ["mine", "lost", "finished", "unknown"], lease_s=60)
        assert [] == store.leases.claim("you", 3, lease_s=60)

    def test_releasing_hands_back_only_our_own(self, store: Store):
        """A scorer that stops in peace leaves its traces to the others at once."""
        ingest(store, "t1", "t2")
        store.leases.claim("me", 1, lease_s=60)
        store.leases.claim("you", 1, lease_s=60)

        assert 1 == store.leases.release("me")
        assert ["t1"] == [t.trace_id for t in store.leases.claim("them", 2, lease_s=60)]

    def test_releasing_all_ends_every_lease(self, store: Store):
        """The new owner of a store knows that no one else is scoring."""
        ingest(store, "t1", "t2", "t3")
        store.leases.claim("me", 1, lease_s=60)
        store.leases.claim("you", 1, lease_s=60)

        assert 2 == store.leases.release_all()
        assert 3 == len(store.leases.claim("them", 3, lease_s=60))

    def test_leases_of_others_are_no_finished_work(self, store: Store, clock: Clock):
        """Also after they have expired, until another worker claims the trace or it is finished."""
        ingest(store, "t1", "t2")
        assert not store.leases.has_others("me", received_by=clock.now)
        store.leases.claim("killed", 1, lease_s=60)
        store.leases.claim("me", 1, lease_s=60)
        assert store.leases.has_others("me", received_by=clock.now)
        assert not store.leases.has_others("me", received_by=clock.now - 1)
        clock.now += 61
        assert store.leases.has_others("me", received_by=clock.now)
        store.leases.claim("me", 2, lease_s=60)
        assert not store.leases.has_others("me", received_by=clock.now)
        assert store.leases.has_others("you", received_by=clock.now)
        store.leases.release("me")
        assert not store.leases.has_others("you", received_by=clock.now)

    def test_a_trace_that_stops_its_scorers_is_given_up(self, store: Store, clock: Clock):
        """Five crashes are enough: every metric gets a failure that says so, and the next trace gets its turn."""
        ingest(store, "poison", "fine")
        for _ in range(5):
            assert ["poison"] == [t.trace_id for t in store.leases.claim("me", 1, lease_s=60)]
            store.leases.release_all()

        assert ["fine"] == [t.trace_id for t in store.leases.claim("me", 1, lease_s=60)]

        outcomes = store.traces.explain("poison").outcomes
        assert [("grounded", "bug"), ("recall", "bug")] == [(o.metric, o.kind) for o in outcomes]
        assert all("gave up after 5 attempts" in o.reason for o in outcomes)
        assert LedgerRow(captured=2, failed=1, pending=1) == store.ledger().total

    def test_giving_up_keeps_the_outcomes_that_are_there(self, store: Store):
        """Only what is missing fails."""
        ingest(store, "t1")
        complete(store, "t1", [score("t1")])
        for _ in range(5):
            store.leases.claim("me", 1, lease_s=60)
            store.leases.release_all()

        assert [] == store.leases.claim("me", 1, lease_s=60)

        assert ["score", "failure"] == [o.outcome for o in store.traces.explain("t1").outcomes]

    def test_a_trace_handed_back_was_not_attempted(self, store: Store):
        """Restarting an application ten times is no reason to give up what it was about to score."""
        ingest(store, "t1")
        for _ in range(10):
            assert 1 == len(store.leases.claim("me", 1, lease_s=60))
            store.leases.release("me")

        assert 0 == store.traces.explain("t1").attempts

    @pytest.mark.parametrize("lease_s", [0, -1, float("nan")])
    def test_a_lease_lasts(self, store: Store, lease_s: float):
        """A lease of no time would let two scorers pay for one trace."""
        with pytest.raises(ConfigurationError, match="lease_s must be positive"):
            store.leases.claim("me", 1, lease_s=lease_s)
        with pytest.raises(ConfigurationError, match="lease_s must be positive"):
            store.leases.renew("me", [], lease_s=lease_s)

    def test_a_trace_that_waits_for_a_model_is_not_given_up(self, store: Store, clock: Clock):
        """Workers that are killed while it waits did not crash because of it. Other renewals prove nothing."""
        ingest(store, "waits", "runs")
        for _ in range(5):
            assert ["waits", "runs"] == [t.trace_id for t in store.leases.claim("me", 2, lease_s=60)]
            assert 1 == store.leases.renew("me", ["waits"], 60, waiting=True)
            assert 1 == store.leases.renew("me", ["runs"], 60)
            clock.now += 61

        assert ["waits"] == [t.trace_id for t in store.leases.claim("me", 2, lease_s=60)]
        assert "failed" == store.traces.explain("runs").state


class TestCompletion:
    """Outcomes, state and outbox change together, once."""

    @pytest.mark.parametrize(
        ("outcomes", "state"),
        [
            ([score("t"), score("t", RECALL)], "scored"),
            ([score("t"), not_applicable("t")], "scored"),
            ([score("t", RECALL), failure("t")], "failed"),
            ([not_applicable("t"), failure("t")], "failed"),
            ([not_applicable("t"), not_applicable("t", GROUNDED)], "not_applicable"),
            ([score("t")], "pending"),
            ([], "pending"),
        ],
    )
    def test_the_state_follows_from_the_outcomes(self, store: Store, outcomes, state: str):
        """Pending until every metric has spoken; then the worst news wins."""
        ingest(store, "t")

        assert complete(store, "t", outcomes)
        assert state == store.traces.explain("t").state
        assert LedgerRow(**{"captured": 1, state: 1}) == store.ledger().total

    def test_an_outcome_comes_back_whole(self, store: Store):
        """What was stored is what was given."""
        ingest(store, "t1")
        outcome = score("t1").model_copy(update={"details": {"votes": [1, 2]}, "raw": "0.5\x00", "judge": "somebody"})

        complete(store, "t1", [outcome, not_applicable("t1")])

        assert [outcome, not_applicable("t1")] == list(store.outcomes.read())

    @pytest.mark.parametrize("owner", ["me", None])
    def test_half_a_trace_waits_for_the_other_half(self, store: Store, owner: str | None):
        """What is there stays, what is missing can be brought later, and the trace is free meanwhile."""
        ingest(store, "t1")
        store.leases.claim("me", 1, lease_s=60)
        complete(store, "t1", [score("t1")], owner=owner)

        assert ["t1"] == [t.trace_id for t in store.leases.claim("you", 1, lease_s=60)]
        assert {
            "grounded": LedgerRow(captured=1, scored=1),
            "recall": LedgerRow(captured=1, pending=1),
        } == store.ledger().metrics

        assert complete(store, "t1", [score("t1", value=0.9), not_applicable("t1")], owner="you")
        assert both("t1") == list(store.outcomes.read())
        assert LedgerRow(captured=1, scored=1) == store.ledger().total

    def test_half_a_trace_from_a_late_scorer_leaves_the_lease_alone(self, store: Store, clock: Clock):
        """Who lost the lease may bring what it has, but not take the trace from its new scorer."""
        ingest(store, "t1")
        store.leases.claim("late", 1, lease_s=60)
        clock.now += 60
        store.leases.claim("me", 1, lease_s=60)

        assert complete(store, "t1", [score("t1")], owner="late")

        assert "me" == store.traces.explain("t1").lease_owner

    def test_a_completion_without_outcomes_leaves_a_trace_as_it_was(self, store: Store):
        """A worker that completes only requests without any outcome still gets it."""
        ingest(store, "t1", "t2")
        store.leases.claim("me", 2, lease_s=60)
        complete(store, "t1", [], owner="me")
        complete(store, "t2", [score("t2")], owner="me")

        assert ["t1"] == [t.trace_id for t in store.leases.claim("you", 2, lease_s=60, whole=True)]

    def test_the_first_to_finish_wins(self, store: Store, clock: Clock):
        """A scorer that lost its lease and comes second changes nothing, and is told so."""
        ingest(store, "t1")
        store.leases.claim("late", 1, lease_s=60)
        clock.now += 60
        store.leases.claim("me", 1, lease_s=60)
        assert complete(store, "t1", both("t1", value=0.1), owner="me")

        assert not complete(store, "t1", both("t1", value=0.9), owner="late")
        assert both("t1", value=0.1) == list(store.outcomes.read())

    def test_a_late_scorer_that_is_first_wins_too(self, store: Store, clock: Clock):
        """What was paid for is used."""
        ingest(store, "t1")
        store.leases.claim("late", 1, lease_s=60)
        clock.now += 60
        store.leases.claim("me", 1, lease_s=60)

        assert complete(store, "t1", both("t1", value=0.9), owner="late")
        assert not complete(store, "t1", both("t1", value=0.1), owner="me")
        assert both("t1", value=0.9) == list(store.outcomes.read())

    def test_what_sampling_left_out_is_never_completed(self, store: Store):
        """There is no text it could have been scored on."""
        store.traces.ingest("a", 1, [sampled_out("t1")])

        assert not complete(store, "t1", both("t1"))
        assert [] == list(store.outcomes.read())

    def test_an_unknown_trace_cannot_be_completed(self, store: Store):
        """Outcomes without a trace would unbalance the ledger."""
        with pytest.raises(DataError, match="trace 't1' is not in the store"):
            complete(store, "t1", both("t1"))

    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            (not_applicable("t2"), "has the sample id 't2', not the trace id 't1'"),
            (not_applicable("t1").model_copy(update={"extra": object()}), "'t1/recall' cannot be stored as JSON"),
        ],
    )
    def test_a_bad_outcome_leaves_nothing(self, store: Store, bad: NotApplicable, message: str):
        """All outcomes of a call are stored, or none."""
        ingest(store, "t1")

        with pytest.raises(DataError, match=message):
            complete(store, "t1", [score("t1"), bad])

        assert [] == list(store.outcomes.read())
        assert complete(store, "t1", both("t1"))


class TestPlan:
    """The plan looks forward; the ledger stay true when it changes."""

    def test_a_metric_that_joins_does_not_wait_for_finished_requests(self, store: Store):
        """Whatever became of them: its row of the ledger has the pending one only."""
        ingest(store, "scored", "failed", "not_applicable", "pending")
        complete(store, "scored", both("scored"))
        complete(store, "failed", [failure("failed"), not_applicable("failed")])
        complete(store, "not_applicable", [not_applicable("not_applicable", each) for each in (GROUNDED, RECALL)])
        store.plan.set([GROUNDED, RECALL, PlannedMetric(name="joined", version="1")], [])

        row = store.ledger().metrics["joined"]
        assert (1, 1, 0) == (row.captured, row.pending, row.failed)

    def test_a_metric_that_joins_is_not_blamed_for_the_past(self, store: Store):
        """Its row counts what was not finished when it came, and what comes in later."""
        ingest(store, "old", "waiting")
        complete(store, "old", both("old"))
        newer = PlannedMetric(name="grounded", version="2", judge_hash="j1")

        store.plan.set([newer], [])
        ingest(store, "new")
        complete(store, "new", [score("new", newer)])

        ledger = store.ledger()
        assert LedgerRow(captured=3, scored=2, pending=1) == ledger.total
        assert {"grounded": LedgerRow(captured=2, scored=1, pending=1)} == ledger.metrics
        assert any(
            "Finished before these metrics were planned: grounded" in r for r in store.traces.explain("old").reasons
        )

    def test_a_metric_that_comes_back_keeps_its_scores(self, store: Store):
        """Outcomes stored under an earlier plan count again when it returns."""
        ingest(store, "with", "without")
        complete(store, "with", both("with"))
        store.plan.set([RECALL], [])
        complete(store, "without", [not_applicable("without")])

        store.plan.set([GROUNDED, RECALL], [])

        assert {
            "grounded": LedgerRow(captured=1, scored=1),
            "recall": LedgerRow(captured=2, not_applicable=2),
        } == store.ledger().metrics

    def test_the_same_plan_again_changes_nothing(self, store: Store):
        """Each start of an application sets its plan."""
        ingest(store, "t1", "t2")
        complete(store, "t1", both("t1"))
        before = store.ledger()

        store.plan.set([GROUNDED, RECALL], ["jsonl", "otlp"])

        assert before == store.ledger()

    def test_rows_come_in_the_order_of_the_plan(self, store: Store):
        """Tables print metrics as the user named them."""
        store.plan.set([RECALL, GROUNDED], [])

        assert ["recall", "grounded"] == list(store.ledger().metrics)
        assert [RECALL, GROUNDED] == store.plan.metrics()

    def test_without_metrics_a_trace_ends_as_not_applicable(self, store: Store):
        """Nothing failed, and nothing was scored."""
        store.plan.set([], [])
        ingest(store, "t1")

        assert complete(store, "t1", [])
        assert LedgerRow(captured=1, not_applicable=1) == store.ledger().total
        assert ("Finished without outcomes: no metric was planned.",) == store.traces.explain("t1").reasons

    def test_a_metric_is_planned_once(self, store: Store):
        """The ledger has one row for each name."""
        with pytest.raises(ConfigurationError, match=r"\['recall'\] are planned twice"):
            store.plan.set([RECALL, PlannedMetric(name="recall", version="2")], [])

    def test_a_sink_that_joins_gets_what_comes_then(self, store: Store):
        """The past can be exported; it is not delivered again by surprise."""
        ingest(store, "t1", "t2")
        complete(store, "t1", both("t1"))
        store.plan.set([GROUNDED, RECALL], ["new", "new"])
        complete(store, "t2", both("t2"))

        assert {"jsonl": 2, "new": 2, "otlp": 2} == {s: b.pending for s, b in store.ledger().outbox.items()}


class TestLedger:
    """The ledger."""

    def test_an_empty_store_has_empty_books(self, store: Store):
        """Zeros in every row, no age, and the sinks that are planned."""
        ledger = store.ledger()

        assert LedgerRow() == ledger.total
        assert {"grounded": LedgerRow(), "recall": LedgerRow()} == ledger.metrics
        assert {} == ledger.dropped_by_reason
        assert ledger.oldest_pending_s is None
        assert {s: DeliveryCounts() for s in ("jsonl", "otlp")} == ledger.outbox

    def test_ignored_traces_are_counted_by_reason_with_an_example(self, store: Store):
        """They were never captured, a batch that comes again does not count again, and the last example stays."""
        first = [Ignored(reason="only embeddings", n=2, example="trace 1"), captured("t")]
        store.traces.ingest("a", 1, first)
        store.traces.ingest("a", 1, first)
        store.traces.ingest("a", 2, [Ignored(reason="only embeddings", n=1, example="trace 2")])
        store.traces.ingest("b", 1, [Ignored(reason="only spans of a server", n=4, example="trace 3")])

        ledger = store.ledger()

        assert {
            "only embeddings": IgnoredTraces(n=3, example="trace 2"),
            "only spans of a server": IgnoredTraces(n=4, example="trace 3"),
        } == ledger.ignored
        assert (1, 0, True) == (ledger.total.captured, ledger.total.dropped, ledger.total.balanced)

    def test_every_request_is_in_one_column(self, store: Store):
        """One of each kind, in the total and for each metric."""
        store.traces.ingest(
            "a",
            9,
            [
                *(captured(trace_id) for trace_id in ("scored", "failed", "not applicable", "pending")),
                sampled_out("sampled out"),
                Dropped(reason="queue full", n=3, at=1.0),
                Dropped(reason="too large", n=1, at=2.0),
                Dropped(reason="queue full", n=2, at=3.0),
            ],
        )
        complete(store, "scored", both("scored"))
        complete(store, "failed", [failure("failed"), not_applicable("failed")])
        complete(store, "not applicable", [not_applicable("not applicable", m) for m in (GROUNDED, RECALL)])

        ledger = store.ledger()

        assert {"queue full": 5, "too large": 1} == ledger.dropped_by_reason
        assert (
            LedgerRow(captured=11, scored=1, sampled_out=1, not_applicable=1, failed=1, dropped=6, pending=1)
            == ledger.total
        )
        assert {
            "grounded": LedgerRow(
                captured=11, scored=1, sampled_out=1, not_applicable=1, failed=1, dropped=6, pending=1
            ),
            "recall": LedgerRow(captured=11, sampled_out=1, not_applicable=3, dropped=6, pending=1),
        } == ledger.metrics

    def test_counters_equal_the_rows(self, store: Store):
        """After each kind of change, also a duplicate, a late outcome and an outcome of another plan."""
        store.traces.ingest("a", 1, [captured("t1"), captured("t2"), captured("t3"), captured("t1"), sampled_out("t4")])
        store.traces.ingest("b", 1, [captured("t2"), sampled_out("t4"), sampled_out("t5")])
        complete(store, "t1", both("t1"))
        complete(store, "t1", [failure("t1")])
        complete(store, "t2", [failure("t2")])
        complete(store, "t2", both("t2"))
        other = PlannedMetric(name="grounded", version="2", judge_hash="j1")
        store.plan.set([other], [])
        complete(store, "t3", [score("t3", other), score("t3")])

        assert [] == store.upkeep.recount()
        assert LedgerRow(captured=5, scored=2, failed=1, sampled_out=2) == store.ledger().total
        found = store.upkeep.verify()
        assert found.ok, found
        assert (5, 3) == (found.checked["traces"], found.checked["trace_bodies"])
        with store._database.write() as db:
            db.execute("UPDATE outcomes SET value = 0.125 WHERE kind = 'score' AND sample_id = 't1'")
        assert store.upkeep.verify().damaged["outcomes"] > 0

    def test_the_oldest_pending_trace_has_an_age(self, store: Store, clock: Clock):
        """Counted from its arrival, so that replaying last year's traces raises no alarm."""
        ingest(store, "t1")
        clock.now += 5
        ingest(store, "t2")
        clock.now += 5

        assert 10 == store.ledger().oldest_pending_s
        complete(store, "t1", both("t1"))
        assert 5 == store.ledger().oldest_pending_s


class TestExplanation:
    """`explain` says in words why a trace was or was not scored."""

    def test_nothing_is_known_of_a_stranger(self, store: Store):
        """An id that never came in has no report."""
        assert store.traces.explain("t1") is None
        assert store.traces.get("t1") is None

    def test_many_answers_at_once(self, store: Store):
        """Traces come with their own outcomes in the order of storage, over more than one page. Unknown ids are missing."""
        ids = [f"t{n}" for n in range(450)]
        ingest(store, *ids)
        complete(store, "t1", [failure("t1", RECALL), score("t1")])
        complete(store, "t449", [score("t449")], owner="")
        store.traces.ingest("z", 2, [sampled_out("left")])

        found = store.traces.answers(["t449", "unknown", *ids[:420], "left"])

        assert set(found) == {"t449", *ids[:420], "left"}
        assert ("failed", ["failure", "score"]) == (found["t1"].state, [o.outcome for o in found["t1"].outcomes])
        assert ("pending", ["score"]) == (found["t449"].state, [o.outcome for o in found["t449"].outcomes])
        assert (store.traces.get("t2"), ()) == (found["t2"].trace, found["t2"].outcomes)
        assert (None, "sampled_out") == (found["left"].trace, found["left"].state)
        assert store.traces.explain("t1").started_at == found["t1"].started_at
        assert {} == store.traces.answers([])

    def test_left_out_by_sampling(self, store: Store):
        """The weight is known, the text is not."""
        store.traces.ingest("a", 1, [sampled_out("t1")])

        report = store.traces.explain("t1")

        assert ("sampled_out", None, 0.25) == (report.state, report.trace, report.inclusion_probability)
        assert ("Not sampled. The sampling probability of such a request is 0.25.",) == report.reasons

    def test_waiting(self, store: Store, clock: Clock):
        """Never claimed, claimed, run out, ended by a new owner: each is told."""
        ingest(store, "t1")
        clock.now += 7
        missing = "No outcome yet: grounded, recall."
        assert ("Waiting for a worker for 7.0 s, not claimed so far.", missing) == store.traces.explain("t1").reasons

        store.leases.claim("me", 1, lease_s=60)
        clock.now += 20
        report = store.traces.explain("t1")
        assert ("Being scored by 'me' (attempt 1 of 5). Its lease expires in 40.0 s.", missing) == report.reasons
        assert ("me", clock.now + 40, 1) == (report.lease_owner, report.lease_until, report.attempts)

        clock.now += 40
        words = "Waiting for a worker for 67.0 s, claimed 1 of at most 5 times, the lease of 'me' expired."
        assert words == store.traces.explain("t1").reasons[0]

        store.leases.release_all()
        report = store.traces.explain("t1")
        words = "Waiting for a worker for 67.0 s, claimed 1 of at most 5 times, not leased now."
        assert (words, None, None) == (report.reasons[0], report.lease_owner, report.lease_until)

    def test_finished(self, store: Store):
        """One sentence for each outcome, and where the outcomes went."""
        store.traces.ingest("a", 1, [captured("t1", started_at=12.5)])
        judged = score("t1").model_copy(update={"judge": "somebody"})
        complete(store, "t1", [judged, not_applicable("t1")])
        store.deliveries.mark("otlp", [judged.id], "sent")
        store.deliveries.mark("jsonl", [judged.id], "pending", next_try=77.0, error="disk full")

        report = store.traces.explain("t1")

        assert ("scored", 12.5, "Why?") == (report.state, report.started_at, report.trace.query)
        assert (judged, not_applicable("t1")) == report.outcomes
        assert (
            "grounded: 0.5 by somebody (exact, n=1).",
            "recall: not applicable: no reference",
        ) == report.reasons
        assert [
            ("grounded", "jsonl", "pending", 1, 77.0, "disk full"),
            ("grounded", "otlp", "sent", 1, 1_000_000.0, None),
            ("recall", "jsonl", "pending", 0, 1_000_000.0, None),
            ("recall", "otlp", "pending", 0, 1_000_000.0, None),
        ] == [(r.metric, r.sink, r.state, r.attempts, r.next_try, r.last_error) for r in store.deliveries.read()]

    def test_failed(self, store: Store):
        """The kind and the reason of the failure are in the sentence."""
        ingest(store, "t1")
        complete(store, "t1", [failure("t1"), not_applicable("t1")])

        assert "grounded: failed (timeout): no answer within 30 s" == store.traces.explain("t1").reasons[0]


class TestReading:
    """Long reads are streams, and the writer may continue under them."""

    def test_traces_stream_in_order_of_arrival(self, store: Store):
        """All of them, or those since a time."""
        store.traces.ingest(
            "a", 1, [captured("t2", started_at=1.0), sampled_out("t3"), captured("t1", started_at=2.0), captured("t4")]
        )
        complete(store, "t1", both("t1"))

        assert ["t2", "t1", "t4"] == [t.trace_id for t in store.traces.read()]
        assert ["t1", "t4"] == [t.trace_id for t in store.traces.read(since=2.0)]

    def test_outlines_stream_as_traces_do(self, store: Store):
        """In order of arrival, all of them, or those of one time or between two positions."""
        store.traces.ingest("a", 1, [captured("t2", started_at=1.0), sampled_out("t3")])
        store.traces.ingest("b", 1, [captured("t1", started_at=2.0)])
        before = store.position()
        store.traces.ingest("a", 2, [captured("t4", query="How?")])

        assert [("t2", "Why?"), ("t1", "Why?"), ("t4", "How?")] == [
            (t.trace_id, t.query) for t in store.traces.read_outlines()
        ]
        assert ["t1", "t4"] == [t.trace_id for t in store.traces.read_outlines(since=2.0)]
        assert ["t4"] == [t.trace_id for t in store.traces.read_outlines(after=before)]
        assert ["t2", "t1"] == [t.trace_id for t in store.traces.read_outlines(upto=before)]

    def test_outcomes_stream_in_the_order_they_were_stored(self, store: Store, clock: Clock):
        """All of them, or those of one metric, of requests of one time, or between two positions."""
        store.traces.ingest("a", 1, [captured("t1", started_at=2.0), captured("t2", started_at=1.0)])
        complete(store, "t2", both("t2"))
        before = store.position()
        clock.now += 1
        complete(store, "t1", both("t1"))

        assert [*both("t2"), *both("t1")] == list(store.outcomes.read())
        assert both("t2") == list(store.outcomes.read(upto=before))
        assert both("t1") == list(store.outcomes.read(after=before))
        assert [score("t2"), score("t1")] == list(store.outcomes.read(metric="grounded"))
        assert both("t1") == list(store.outcomes.read(since=2.0))
        assert both("t2") == list(store.outcomes.read(since=1.0, until=2.0))
        assert [] == list(store.outcomes.read(metric="unknown"))

    def test_requests_are_found_by_user_session_or_id(self, store: Store):
        """One of the criteria is enough, the result has the order of arrival, and without criteria nothing is found."""
        store.traces.ingest(
            "a",
            1,
            [
                captured("t3", user_id="u"),
                captured("t1", session_id="s"),
                captured("t2", otel_trace_id="o"),
                captured("t4"),
            ],
        )

        assert ["t3", "t1", "t2"] == store.traces.find(users=["u"], sessions=["s"], ids=["o", "unknown"])
        assert ["t1", "t4"] == store.traces.find(users=["s"], sessions=["s"], ids=["t4"])
        assert [] == store.traces.find()

    def test_sampling_probabilities_are_those_of_captured_requests(self, store: Store):
        """A request that was sampled out is not among them: its probability weights nothing."""
        fields = (
            {"inclusion_probability": 0.25, "started_at": 1.0},
            {},
            {"inclusion_probability": 0.5, "started_at": 2.0},
        )
        traces = [captured(f"t{i}", **each) for i, each in enumerate(fields)]
        store.traces.ingest("a", 1, [*traces, sampled_out("t3")])

        assert {"t0": 0.25, "t2": 0.5} == store.traces.inclusion_probabilities()
        assert {"t2": 0.5} == store.traces.inclusion_probabilities(since=2.0)
        assert {"t0": 0.25} == store.traces.inclusion_probabilities(until=2.0)

    def test_labels_are_those_of_requests_of_a_time(self, store: Store):
        """A request without the label has none, and the end of the time is not part of it."""
        fields = ({"release": "a"}, {"release": "b"}, {}, {"release": "a"})
        store.traces.ingest("a", 1, [captured(f"t{i}", started_at=float(i), **each) for i, each in enumerate(fields)])

        assert {"t0": "a", "t1": "b", "t3": "a"} == store.traces.request_labels("release")
        assert {"t1": "b"} == store.traces.request_labels("release", since=1.0, until=3.0)

    def test_runs_have_their_times(self, store: Store):
        """In seconds, the first run first. Segments of captured requests are not runs."""
        for name, milliseconds in (("run:second", 2_000_500), ("run:first", 1_000_000), ("main", 1)):
            store.traces.ingest(name, milliseconds, [captured(name)])

        assert [("first", 1_000.0), ("second", 2_000.5)] == list(store.traces.run_times().items())

    def test_an_export_has_the_outcomes_of_a_time(self, store: Store):
        """Its end is not part of it, so that exports of following days have each outcome once."""
        store.traces.ingest("a", 1, [captured(f"t{i}", started_at=float(i)) for i in range(3)])
        for i in range(3):
            complete(store, f"t{i}", both(f"t{i}"))

        exported = [each.delivery.outcome.sample_id for each in store.outcomes.export(since=0.0, until=2.0)]
        assert ["t0", "t0", "t1", "t1"] == exported
        assert ["t2", "t2"] == [each.delivery.outcome.sample_id for each in store.outcomes.export(since=2.0)]

    def test_a_long_read_lets_the_writer_go_on(self, store: Store):
        """More than one page, with a write after each row: nothing is missed, nothing comes twice."""
        ids = [f"t{i:04}" for i in range(450)]
        ingest(store, *ids)

        seen = []
        for trace in store.traces.read():
            seen.append(trace.trace_id)
            complete(store, trace.trace_id, both(trace.trace_id))

        assert ids == seen
        assert [i for i in ids for _ in range(2)] == [o.sample_id for o in store.outcomes.read()]

    def test_outcomes_are_counted_by_value_and_sampling_probability(self, store: Store):
        """Those of the planned versions, with the judge's name, which stands in their bodies alone."""
        ingest(store, "old", "a", "b", "c")
        complete(store, "old", both("old", value=0.1))
        newer = PlannedMetric(name="grounded", version="2", judge_hash="j1")
        store.plan.set([newer, RECALL], [])
        for trace_id in "ab":
            judged = score(trace_id, newer).model_copy(update={"judge": "a judge"})
            complete(store, trace_id, [judged, not_applicable(trace_id)])
        complete(store, "c", [failure("c", newer), not_applicable("c")])
        grounded = {
            "metric": "grounded",
            "judge": "a judge",
            "values": array("d", [0.5]),
            "probabilities": array("d", [1.0]),
            "repeats": array("q", [2]),
            "n_failed": 1,
            "n_not_applicable": 0,
            "is_sampled": False,
            "trace_ids": [],
        }
        recall = {
            "metric": "recall", "judge": None, "values": array("d"), "probabilities": array("d"), "repeats": array("q"),
            "n_failed": 0, "n_not_applicable": 4, "is_sampled": False, "trace_ids": [],
        }  # fmt: skip
        assert [grounded, recall] == [asdict(counts) for counts in store.outcomes.count()]

        store.traces.ingest("sampled", 1, [captured("d", inclusion_probability=0.25)])
        complete(store, "d", [score("d", newer), not_applicable("d")])
        counts, absent = store.outcomes.count()
        assert {(0.5, 1.0, 2), (0.5, 0.25, 1)} == {
            *zip(counts.values, counts.probabilities, counts.repeats, strict=True)
        }
        assert counts.is_sampled
        assert (5, True) == (absent.n_not_applicable, absent.is_sampled)

        counts, absent = store.outcomes.count(by_trace=True)
        assert [("a", 0.5, 1.0, 1), ("b", 0.5, 1.0, 1), ("d", 0.5, 0.25, 1)] == [
            *zip(counts.trace_ids, counts.values, counts.probabilities, counts.repeats, strict=True)
        ]
        assert (counts.n_failed, counts.is_sampled, absent.n_not_applicable, [*absent.values]) == (1, True, 5, [])

    @pytest.mark.parametrize("rows", [1, 2, 10_000])
    def test_outcomes_of_any_number_of_values_are_counted(
        self, store: Store, monkeypatch: pytest.MonkeyPatch, rows: int
    ):
        """The counts do not depend on how many rows are read at once, also if some values are equal and others are not."""
        monkeypatch.setattr("ragstone.store._metric_counts._ROWS", rows)
        ids = [f"t{i}" for i in range(6)]
        values = [0.25, 0.0, 0.25, 0.75, 1.0, 0.75]
        ingest(store, *ids)
        for id_, value in zip(ids, values, strict=True):
            complete(store, id_, [score(id_, value=value), not_applicable(id_)])

        (by_value, _), (by_trace, _) = store.outcomes.count(), store.outcomes.count(by_trace=True)

        assert {0.0: 1, 0.25: 2, 0.75: 2, 1.0: 1} == dict(zip(by_value.values, by_value.repeats, strict=True))
        assert [1.0] * 4 == [*by_value.probabilities]
        assert dict(zip(ids, values, strict=True)) == dict(zip(by_trace.trace_ids, by_trace.values, strict=True))
        assert ids == by_trace.trace_ids


class TestRetention:
    """`remove_texts` removes texts and nothing that is counted."""

    def filled(self, store: Store) -> None:
        """Six old requests: two to remove, and one each that waits, is undelivered, is labeled, is drawn. And a new one."""
        ids = ["old", "older", "waits", "undelivered", "labeled", "drawn"]
        times = {"older": 998_000.0}
        store.traces.ingest("a", 1, [captured(id_, started_at=times.get(id_, 999_000.0)) for id_ in ids])
        store.traces.ingest("a", 2, [captured("new", started_at=999_500.0), sampled_out("none")])
        for id_ in [*ids, "new"]:
            if id_ != "waits":
                complete(store, id_, [self.verbose(id_), not_applicable(id_)])
        for sink in ("jsonl", "otlp"):
            sent = [d for d in store.deliveries.due(sink, limit=99) if (d.trace_id, sink) != ("undelivered", "otlp")]
            store.deliveries.mark(sink, [d.id for d in sent], "sent")
        store.labels.save([StoredLabel("labeled", "Ann", 1.0, 1.0)])
        store.labels.save([DrawnRequest("drawn", 0.5, 0), DrawnRequest("old", 0.5, None)])

    def verbose(self, trace_id: str) -> Score:
        """A score with texts wherever there can be one."""
        said = {"claims": [{"claim": "It rains.", "supported": False, "p": 0.25}], "by": {"rule": "x"}, "em": 1.0}
        return score(trace_id).model_copy(
            update={"explanation": "It rains.", "raw": "{}", "fingerprint": "f", "details": said}
        )

    def test_each_request_is_removed_or_kept_for_a_reason(self, store: Store):
        """The oldest first, at most `limit` of them; the boundary is the start of the request."""
        self.filled(store)
        store.labels.save([StoredLabel("undelivered", "Ann", 1.0, 1.0)])  # one reason is counted
        assert (2, 1, 1, 2, 0) == tuple(store.upkeep.count_texts(before=999_500.0))
        assert 1 == store.upkeep.remove_texts(before=999_500.0, limit=1)
        assert ["older"] == [each.trace_id for each in store.upkeep.removed_texts()]
        assert 1 == store.upkeep.remove_texts(before=999_500.0)
        assert 0 == store.upkeep.remove_texts(before=999_500.0)
        assert (0, 1, 1, 2, 0) == tuple(store.upkeep.count_texts(before=999_500.0))
        assert ["waits", "undelivered", "labeled", "drawn", "new"] == [trace.trace_id for trace in store.traces.read()]

    def test_requests_are_removed_with_their_scores(self, store: Store):
        """Also labeled ones and those that were sampled out. The counters are right, and the ledger balances."""
        self.filled(store)
        with store.watch.change() as tables:
            tables.canaries.set(["old"], now=999_000.0)
        before = store.ledger()
        assert (4, 1, 1, 1, 1) == tuple(store.upkeep.count_requests(before=999_500.0))
        assert [1, 1, 1, 1, 0] == [store.upkeep.remove_requests(before=999_500.0, limit=1) for _ in range(5)]
        assert (0, 1, 1, 1, 0) == tuple(store.upkeep.count_requests(before=999_500.0))
        assert ["old", "waits", "undelivered", "new"] == [trace.trace_id for trace in store.traces.read()]
        assert ([], ["old"]) == (store.labels.read(), [each.trace_id for each in store.labels.drawn()])
        after = store.ledger()
        assert {"expired": 4} == after.dropped_by_reason
        assert before.total.captured == after.total.captured
        assert after.total.balanced
        assert all(row.balanced for row in after.metrics.values())
        assert [] == list(store.upkeep.recount())
        assert {"undelivered", "old", "new"} == {outcome.sample_id for outcome in store.outcomes.read()}
        assert {"undelivered"} == {d.trace_id for d in store.deliveries.due("otlp", limit=99)}

    def test_ids_of_what_was_sampled_out_are_forgotten_and_stay_counted(self, store: Store, clock: Clock):
        """The oldest first, by arrival. The ledger and its recount do not change, and neither does any other request."""
        self.filled(store)
        store.traces.ingest("b", 1, [sampled_out(f"out{k}") for k in range(5)])
        clock.now += 100
        store.traces.ingest("b", 2, [sampled_out("late")])
        total = store.ledger().total
        assert 7 == total.sampled_out
        assert [4, 2, 0] == [store.upkeep.forget_sampled_out(before=clock.now - 50, limit=4) for _ in range(3)]
        assert total == store.ledger().total
        assert [] == list(store.upkeep.recount())
        assert total == store.ledger().total
        assert ["none", "out4", "late"] == [
            id_ for id_ in ("none", "out4", "late") if (store.traces.explain(id_) is None) == (id_ != "late")
        ]
        assert 7 == len(list(store.traces.read()))
        assert 1 == store.upkeep.forget_sampled_out(before=clock.now + 1)
        assert store.upkeep.verify().ok
        store.traces.ingest("b", 3, [sampled_out("out0"), sampled_out("more")])
        assert (9, 0) == (store.ledger().total.sampled_out, store.upkeep.forget_sampled_out(before=clock.now))

    def test_what_feedback_is_about_is_not_forgotten(self, store: Store, clock: Clock):
        """A request with feedback stays, and does not stop the search."""
        store.traces.ingest("b", 1, [sampled_out("said"), sampled_out("out1"), sampled_out("out2")])
        store.traces.ingest("b", 2, [Feedback(request_id="said", value=0.0, given_at=clock.now)])
        assert [3, 0] == [store.upkeep.forget_sampled_out(before=clock.now + 1) for _ in range(2)]
        assert ["said"] == [id_ for id_ in ("said", "out1", "out2") if store.traces.explain(id_)]
        assert 3 == store.ledger().total.sampled_out

    def test_nothing_that_is_counted_changes(self, store: Store):
        """The ledger, the counts of metrics, and every outcome but for its texts."""
        self.filled(store)
        before = store.ledger(), [asdict(counts) for counts in store.outcomes.count()], list(store.outcomes.read())
        store.upkeep.remove_texts(before=999_500.0)

        found = list(store.outcomes.read())
        assert before[:2] == (store.ledger(), [asdict(counts) for counts in store.outcomes.count()])
        assert [o.id for o in before[2]] == [o.id for o in found]
        blank = {"claims": [{"claim": "", "supported": False, "p": 0.25}], "by": {"rule": ""}, "em": 1.0}
        bare = self.verbose("old").model_copy(
            update={"explanation": None, "raw": None, "fingerprint": None, "details": blank}
        )
        assert bare == next(o for o in found if o.sample_id == "old")
        assert self.verbose("new") == next(o for o in found if o.sample_id == "new")

    def test_what_is_read_says_so(self, store: Store, clock: Clock):
        """One trace and the explanation."""
        self.filled(store)
        clock.now = 1_800_000_000.0
        store.upkeep.remove_texts(before=999_500.0)

        report = store.traces.explain("old")
        assert (None, None) == (store.traces.get("old"), report.trace)
        assert "Its text was removed by retention on 2027-01-15." == report.reasons[0]
        assert (1_800_000_000.0, None) == (report.text_removed_at, store.traces.explain("new").text_removed_at)
        assert [("old", 999_000.0, {"status": "ok"}), ("older", 998_000.0, {"status": "ok"})] == list(
            store.upkeep.removed_texts()
        )
        assert ["old"] == [each.trace_id for each in store.upkeep.removed_texts(since=998_500.0)]
        assert ["older"] == [each.trace_id for each in store.upkeep.removed_texts(until=999_000.0)]

    def test_a_removed_request_that_comes_again_is_a_duplicate(self, store: Store):
        """Its text is not stored again."""
        self.filled(store)
        store.upkeep.remove_texts(before=999_500.0)
        assert 0 == store.traces.ingest("b", 1, [captured("old")])
        assert (1, None) == (count_duplicates(store), store.traces.get("old"))

    def test_a_sink_that_left_the_plan_keeps_nothing(self, store: Store):
        """Otherwise a removed sink would keep texts forever."""
        self.filled(store)
        store.plan.set([GROUNDED, RECALL], ["jsonl"])
        assert 3 == store.upkeep.count_texts(before=999_500.0).removable == store.upkeep.remove_texts(before=999_500.0)

    def test_outcomes_that_a_sink_does_not_receive_keep_no_text(self, store: Store):
        """Those that were stored while it was not in the plan."""
        for trace_id, sinks in (("t1", []), ("t2", ["jsonl"])):
            ingest(store, trace_id)
            store.plan.set([GROUNDED, RECALL], sinks)
            complete(store, trace_id, both(trace_id))
        ingest(store, "t0")
        store.plan.set([GROUNDED, RECALL], [])
        complete(store, "t0", both("t0"))
        store.plan.set([GROUNDED, RECALL], ["jsonl"])

        assert (2, 0, 1, 0, 0) == tuple(store.upkeep.count_texts(before=999_500.0))

    def test_shrinking_keeps_everything(self, store: Store):
        """A file is written again."""
        self.filled(store)
        store.upkeep.remove_texts(before=999_500.0)
        before = list(store.traces.read()), list(store.outcomes.read()), store.ledger()
        store.upkeep.shrink()
        assert before == (list(store.traces.read()), list(store.outcomes.read()), store.ledger())


class TestOutbox:
    """At least once, in order, and every row ends as sent or dead."""

    def test_a_delivery_that_succeeds_after_it_failed_is_sent(self, store: Store):
        """Also if an older one still waits."""
        store.plan.set([GROUNDED, RECALL], ["s"])
        ingest(store, "t1")
        complete(store, "t1", both("t1"))
        first, second = store.deliveries.due("s", limit=9)
        store.deliveries.mark("s", [second.outcome.id], "failed", error="refused")
        store.deliveries.mark("s", [second.outcome.id], "sent")
        assert [second.outcome.id] == [row.item_id for row in store.deliveries.read(state="sent")]
        assert [first.outcome.id] == [row.item_id for row in store.deliveries.read(state="pending")]

    def test_an_item_has_what_a_destination_needs(self, store: Store):
        """The outcome, and every id under which the destination may know the trace."""
        ids = {
            "run_id": "r",
            "otel_trace_id": "ab" * 16,
            "otel_span_id": "cd" * 8,
            "response_id": "chatcmpl-7",
            "session_id": "s",
            "user_id": "u",
            "name": "n",
            "inclusion_probability": 0.5,
        }
        store.traces.ingest("a", 1, [captured("t1", started_at=12.5, **ids)])
        complete(store, "t1", both("t1"))

        first, second = store.deliveries.due("jsonl", limit=9)

        assert both("t1") == [first.outcome, second.outcome]
        assert ids == {name: getattr(first, name) for name in ids}
        assert ("t1", 12.5, 0) == (first.trace_id, first.requested_at, first.attempts)

    def test_a_delivery_that_failed_comes_again_when_it_is_time(self, store: Store, clock: Clock):
        """Not before, behind those that wait for less, and with its attempts counted."""
        ingest(store, "t1", "t2")
        complete(store, "t1", both("t1"))
        complete(store, "t2", both("t2"))
        one, two, three, four = (item.outcome.id for item in store.deliveries.due("jsonl", limit=9))
        store.deliveries.mark("jsonl", [two], "pending", next_try=clock.now + 60, error="503")
        store.deliveries.mark("jsonl", [one], "pending", next_try=clock.now + 30, error="503")
        store.deliveries.mark("jsonl", [three], "sent")

        assert [four] == [item.outcome.id for item in store.deliveries.due("jsonl", limit=9)]
        later = store.deliveries.due("jsonl", limit=2, now=clock.now + 60)
        assert [(four, 0), (one, 1)] == [(item.outcome.id, item.attempts) for item in later]
        assert 4 == len(store.deliveries.due("otlp", limit=9))
        assert [] == store.deliveries.due("jsonl", limit=0)

    def test_dead_is_for_ever_unless_it_arrived(self, store: Store):
        """The ledger counts what each sink has had, owes, and never will have."""
        ingest(store, "t1")
        complete(store, "t1", both("t1"))
        one, two = (item.outcome.id for item in store.deliveries.due("jsonl", limit=9))

        store.deliveries.mark("jsonl", [one], "failed", error="refused")
        store.deliveries.mark("jsonl", [one], "pending", next_try=0.0, error="late news")
        store.deliveries.mark("jsonl", [two], "sent")
        store.deliveries.mark("jsonl", [two], "failed", error="late news")

        assert [] == store.deliveries.due("jsonl", limit=9)
        assert DeliveryCounts(sent=1, failed=1) == store.ledger().outbox["jsonl"]

    def test_a_dead_letter_comes_again_when_it_is_asked_for(self, store: Store, clock: Clock):
        """With no attempts on its account and a new place in line; what was sent stays sent."""
        ingest(store, "t1")
        complete(store, "t1", both("t1"))
        one, two = (item.outcome.id for item in store.deliveries.due("jsonl", limit=9))
        store.deliveries.mark("jsonl", [one], "failed", error="refused")
        store.deliveries.mark("jsonl", [two], "sent")
        store.deliveries.mark("otlp", [two], "failed", error="refused")
        clock.now += 60

        assert 0 == store.deliveries.requeue(sink="nobody")
        assert 1 == store.deliveries.requeue(sink="jsonl")
        (item,) = store.deliveries.due("jsonl", limit=9)
        assert (one, 0, clock.now) == (item.outcome.id, item.attempts, item.since)
        assert 1 == store.ledger().outbox["otlp"].failed
        assert 1 == store.deliveries.requeue()

    def test_what_has_no_place_is_closed_with_the_reason(self, store: Store):
        """It is counted apart from what arrived and from what died."""
        ingest(store, "t1")
        complete(store, "t1", both("t1"))
        one, two = (item.outcome.id for item in store.deliveries.due("jsonl", limit=9))
        store.deliveries.mark("jsonl", [one], "skipped", error="no span")
        store.deliveries.mark("jsonl", [one], "skipped", error="late news")

        assert [two] == [item.outcome.id for item in store.deliveries.due("jsonl", limit=9)]
        assert (1, 1) == (store.ledger().outbox["jsonl"].pending, store.ledger().outbox["jsonl"].skipped)
        (row,) = store.deliveries.read(sink="jsonl", state="skipped")
        assert (one, "t1", "no span") == (row.item_id, row.trace_id, row.last_error)
        assert 4 == len(store.deliveries.read())
        assert 3 == len(store.deliveries.read(limit=3))

    def test_the_books_say_how_long_and_why(self, store: Store, clock: Clock):
        """The age of the oldest that waits, the error of the one that is next, and what stopped the sink."""
        ingest(store, "t1")
        complete(store, "t1", [score("t1")])
        clock.now += 10
        complete(store, "t1", [not_applicable("t1")])
        one, two = (item.outcome.id for item in store.deliveries.due("jsonl", limit=9))
        clock.now += 30
        store.deliveries.mark("jsonl", [one], "pending", next_try=clock.now + 5, error="503")
        store.deliveries.mark("jsonl", [two], "pending", next_try=clock.now + 9, error="504")
        store.deliveries.stop_sink("jsonl", reason="401")

        assert (
            DeliveryCounts(pending=2, oldest_pending_s=40, last_error="503", stopped="401")
            == store.ledger().outbox["jsonl"]
        )
        store.plan.set([GROUNDED, RECALL], ["jsonl", "otlp"])
        assert store.ledger().outbox["jsonl"].stopped is None

    def test_an_outcome_that_was_there_is_not_sent_again(self, store: Store):
        """Completing a half-finished trace announces only the other half."""
        ingest(store, "t1")
        complete(store, "t1", [score("t1")])
        store.deliveries.mark("jsonl", [score("t1").id], "sent")
        complete(store, "t1", both("t1"))

        assert [not_applicable("t1")] == [item.outcome for item in store.deliveries.due("jsonl", limit=9)]

    def test_a_sink_that_joins_and_leaves_gets_the_outcomes_of_its_times(self, store: Store):
        """What it had not got when it left waits for it, and what was stored without it is not sent."""
        finished = dict.fromkeys(("before", "with", "waiting", "without", "again"))
        for trace_id, sinks in zip(
            finished, (["jsonl"], ["jsonl", "otlp"], ["jsonl", "otlp"], ["jsonl"], ["otlp"]), strict=True
        ):
            store.plan.set([GROUNDED, RECALL], sinks)
            ingest(store, trace_id)
            complete(store, trace_id, both(trace_id))
            if trace_id == "with":
                store.deliveries.mark("otlp", [item.id for item in store.deliveries.due("otlp", limit=9)][-2:], "sent")
                store.plan.set([GROUNDED, RECALL], [])
                store.plan.set([GROUNDED, RECALL], ["otlp"])

        assert ["waiting"] * 2 + ["again"] * 2 == [item.trace_id for item in store.deliveries.due("otlp", limit=9)]
        assert ["before"] * 2 == [item.trace_id for item in store.deliveries.due("jsonl", limit=2)]
        assert (4, 2) == (store.ledger().outbox["otlp"].pending, store.ledger().outbox["otlp"].sent)
        assert (8, 0) == (store.ledger().outbox["jsonl"].pending, store.ledger().outbox["jsonl"].sent)

    def test_a_result_that_was_not_stored_comes_again(self, open_store: OpenStore):
        """A worker is killed after its sink has the batch: all of it is due again, and nothing behind it is lost."""
        with open_store() as first:
            first.plan.set([GROUNDED, RECALL], ["jsonl"])
            ingest(first, "t1", "t2")
            complete(first, "t1", both("t1"))
            complete(first, "t2", both("t2"))
            batch = [item.id for item in first.deliveries.due("jsonl", limit=3)]
            # Killed between the results of one batch.
            first.deliveries.mark("jsonl", batch[:1], "failed", error="refused")
        with open_store() as second:
            again = [item.id for item in second.deliveries.due("jsonl", limit=9)]
            assert batch[1:] == again[:2]
            assert 3 == len(again)
            second.deliveries.mark("jsonl", again[1:], "sent")
            assert again[:1] == [item.id for item in second.deliveries.due("jsonl", limit=9)]
            second.deliveries.mark("jsonl", again[:1], "sent")
            assert (0, 3, 1) == (
                second.ledger().outbox["jsonl"].pending,
                second.ledger().outbox["jsonl"].sent,
                second.ledger().outbox["jsonl"].failed,
            )

    def test_what_was_sent_comes_again_when_it_is_asked_for(self, store: Store, clock: Clock):
        """All of it, once, from then on waiting; what failed stays failed."""
        ingest(store, "t1", "t2")
        complete(store, "t1", both("t1"))
        complete(store, "t2", both("t2"))
        ids = [item.id for item in store.deliveries.due("jsonl", limit=9)]
        store.deliveries.mark("jsonl", ids[1:2], "pending", next_try=clock.now, error="503")
        store.deliveries.mark("jsonl", ids[2:3], "failed", error="refused")
        store.deliveries.mark("jsonl", ids[:2] + ids[3:], "sent")
        clock.now += 60

        assert 3 == store.deliveries.requeue(sink="jsonl", state="sent")
        assert 0 == store.deliveries.requeue(sink="jsonl", state="sent")
        again = store.deliveries.due("jsonl", limit=9)
        assert [(id_, 0, clock.now) for id_ in ids if id_ != ids[2]] == [(i.id, i.attempts, i.since) for i in again]
        store.deliveries.mark("jsonl", [again[0].id], "pending", next_try=clock.now, error="503")
        assert {clock.now} == {item.since for item in store.deliveries.due("jsonl", limit=9)}
        store.deliveries.mark("jsonl", [item.id for item in again], "sent")
        assert DeliveryCounts(sent=3, failed=1) == store.ledger().outbox["jsonl"]
        assert [1, 1, 1] == [row.attempts for row in store.deliveries.read(sink="jsonl", state="sent")]
        assert [] == store.upkeep.recount()

    def test_new_outcomes_do_not_wait_for_retries(self, store: Store, clock: Clock):
        """Nor the other way round: the one that has waited longest is next."""
        for at, trace_id in enumerate(("t1", "t2", "t3")):
            clock.now = 1_000_000.0 + 10 * at
            ingest(store, trace_id)
            complete(store, trace_id, both(trace_id))
            if at == 0:
                ids = [item.id for item in store.deliveries.due("jsonl", limit=9)]
                store.deliveries.mark("jsonl", ids, "pending", next_try=clock.now + 15, error="503")
        assert ["t2", "t2", "t1", "t1", "t3"] == [item.trace_id for item in store.deliveries.due("jsonl", limit=5)]


class TestLife:
    """Opening and closing."""

    def test_closing_twice_is_closing_once(self, open_store: OpenStore):
        """Shut-down paths overlap."""
        store = open_store()
        store.close()
        store.close()

        with open_store() as again:
            assert LedgerRow() == again.ledger().total

    def test_a_closed_store_says_so(self, open_store: OpenStore):
        """Reading, writing and streaming alike."""
        store = open_store()
        store.close()

        for use in (store.ledger, store.leases.release_all, store.checkpoint, lambda: list(store.traces.read())):
            with pytest.raises(StoreError, match="is closed"):
                use()

    def test_a_checkpoint_reports_success(self, store: Store):
        """No one reads, so everything goes over."""
        ingest(store, "t1")

        assert store.checkpoint()


class TestGroups:
    """Several traces are completed in one transaction, each as if it were alone."""

    def test_each_trace_of_a_group_is_completed(self, store: Store):
        """States, outcomes, deliveries and leases are those of single calls, in the order of the group."""
        ingest(store, "t1", "t2", "t3")
        store.leases.claim("me", 3, lease_s=60)

        group = [
            Completion(trace_id="t2", outcomes=both("t2"), owner="me"),
            Completion(trace_id="t1", outcomes=[failure("t1"), not_applicable("t1")], owner="me"),
            Completion(trace_id="t3", outcomes=[score("t3")], owner="me"),
        ]
        assert [True, True, True] == store.outcomes.complete_many(group)

        assert ["failed", "scored", "pending"] == [store.traces.explain(t).state for t in ("t1", "t2", "t3")]
        assert [*both("t2"), failure("t1"), not_applicable("t1"), score("t3")] == list(store.outcomes.read())
        assert {"jsonl": 5, "otlp": 5} == {s: b.pending for s, b in store.ledger().outbox.items()}
        assert LedgerRow(captured=3, scored=1, failed=1, pending=1) == store.ledger().total
        assert {"recall": 1, "grounded": 0} == {name: row.pending for name, row in store.ledger().metrics.items()}
        assert ["t3"] == [t.trace_id for t in store.leases.claim("you", 3, lease_s=60)]

    def test_parts_of_one_trace_meet_in_a_group(self, store: Store):
        """Two groups of metrics end at once: together they finish the trace, and the lease ends with the last."""
        ingest(store, "t1")
        store.leases.claim("me", 1, lease_s=60)

        group = [
            Completion(trace_id="t1", outcomes=[score("t1")], owner=""),
            Completion(trace_id="t1", outcomes=[not_applicable("t1")], owner="me"),
        ]
        assert [True, True] == store.outcomes.complete_many(group)

        report = store.traces.explain("t1")
        assert ("scored", None, tuple(both("t1"))) == (report.state, report.lease_owner, report.outcomes)

    def test_a_repeat_inside_a_group_changes_nothing(self, store: Store):
        """The first completion counts, and later ones are told that they came too late."""
        ingest(store, "t1", "t2")

        group = [
            Completion(trace_id="t1", outcomes=both("t1", value=0.1)),
            Completion(trace_id="t1", outcomes=both("t1", value=0.9)),
            Completion(trace_id="t2", outcomes=[score("t2", value=0.1), score("t2", value=0.9)]),
            Completion(trace_id="t2", outcomes=[score("t2", value=0.8), not_applicable("t2")]),
        ]
        assert [True, False, True, True] == store.outcomes.complete_many(group)

        assert [*both("t1", value=0.1), *both("t2", value=0.1)] == list(store.outcomes.read())
        assert {"jsonl": 4, "otlp": 4} == {s: b.pending for s, b in store.ledger().outbox.items()}

    def test_what_is_finished_or_sampled_out_is_left_alone(self, store: Store):
        """It does not delay the others."""
        ingest(store, "finished", "open")
        store.traces.ingest("other", 1, [sampled_out("out")])
        complete(store, "finished", both("finished", value=0.1))

        group = [Completion(trace_id=t, outcomes=both(t, value=0.9)) for t in ("finished", "out", "open")]
        assert [False, False, True] == store.outcomes.complete_many(group)

        assert [*both("finished", value=0.1), *both("open", value=0.9)] == list(store.outcomes.read())

    def test_a_lost_lease_keeps_its_new_owner(self, store: Store, clock: Clock):
        """A late scorer may bring outcomes in a group, and does not end the lease of another."""
        ingest(store, "lost", "mine")
        store.leases.claim("late", 2, lease_s=60)
        clock.now += 60
        store.leases.claim("me", 1, lease_s=60)

        group = [Completion(trace_id=t, outcomes=[score(t)], owner="late") for t in ("lost", "mine")]
        assert [True, True] == store.outcomes.complete_many(group)

        assert ("me", None) == (store.traces.explain("lost").lease_owner, store.traces.explain("mine").lease_owner)

    @pytest.mark.parametrize(
        ("bad", "message"),
        [
            (Completion(trace_id="nobody", outcomes=[]), "trace 'nobody' is not in the store"),
            (Completion(trace_id="t2", outcomes=[score("t1")]), "has the sample id 't1', not the trace id 't2'"),
            (
                Completion(trace_id="t2", outcomes=[score("t2").model_copy(update={"extra": object()})]),
                "'t2/grounded' cannot be stored as JSON",
            ),
            (
                Completion(trace_id="t2", outcomes=[score("t2").model_copy(update={"value": float("nan")})]),
                "the score of 'grounded' for the trace 't2' is nan",
            ),
        ],
    )
    def test_one_bad_completion_does_not_fail_its_group(self, store: Store, bad: Completion, message: str):
        """The others are stored, and its place has the error."""
        ingest(store, "t1", "t2", "t3")

        first, error, last = store.outcomes.complete_many(
            [
                Completion(trace_id="t1", outcomes=both("t1")),
                bad,
                Completion(trace_id="t3", outcomes=both("t3")),
            ]
        )

        assert (True, True) == (first, last)
        assert isinstance(error, DataError)
        assert message in str(error)
        assert [*both("t1"), *both("t3")] == list(store.outcomes.read())
        assert "pending" == store.traces.explain("t2").state

    def test_an_empty_group_is_stored(self, store: Store):
        """Nothing changes."""
        assert [] == store.outcomes.complete_many([])

    def test_large_groups_are_one_transaction(self, store: Store):
        """More traces than a statement has parameters."""
        ids = [f"t{i:04}" for i in range(1200)]
        ingest(store, *ids)

        assert [True] * 1200 == store.outcomes.complete_many(
            [Completion(trace_id=t, outcomes=both(t)) for t in reversed(ids)]
        )
        assert LedgerRow(captured=1200, scored=1200) == store.ledger().total

    def test_known_traces_are_asked_for_together(self, store: Store):
        """Those that are stored with a text, and no others."""
        ingest(store, *(f"t{i}" for i in range(600)))
        store.traces.ingest("other", 1, [sampled_out("out")])

        found = store.traces.get_many(["nobody", "out", *(f"t{i}" for i in range(550, 650))])

        assert {f"t{i}" for i in range(550, 600)} == set(found)
        assert store.traces.get("t550") == found["t550"]
        assert {} == store.traces.get_many([])


def test_what_is_far_in_the_future_is_due_when_the_clock_was_put_back(open_store: OpenStore, clock: Clock):
    """Retries and leases are not delayed by 30 days, and a retry that is due in ten minutes stays so."""
    with open_store() as store:
        store.plan.set([RECALL], ["s"])
        store.traces.ingest(
            "a", 1, [Captured(trace=Trace(trace_id=t, started_at=1.0, query="q")) for t in ("t", "u", "v")]
        )
        store.leases.claim("gone", 3, lease_s=60)
        for trace_id in ("t", "u"):
            score = Score(sample_id=trace_id, metric="recall", metric_version="1", value=1.0, method="exact")
            complete(store, trace_id, [score])
        first, second = store.deliveries.due("s", limit=9)
        store.deliveries.mark("s", [first.outcome.id], "pending", next_try=clock.now + 30, error="down")
        clock.now -= 30 * 86_400
        store.deliveries.mark("s", [second.outcome.id], "pending", next_try=clock.now + 600, error="down")

        store.plan.set([RECALL], ["s"])

        assert [first.outcome.id] == [each.outcome.id for each in store.deliveries.due("s", limit=9)]
        assert ["v"] == [each.trace_id for each in store.leases.claim("me", 9, lease_s=60)]


class TestErasedRequests:
    """A store keeps hashes of the ids of erased requests."""

    def test_an_erased_request_does_not_come_back(self, store: Store):
        """From another spool it is a duplicate, and the others come in."""
        ingest(store, "t1", "t2")
        complete(store, "t1", [score("t1")])
        store.upkeep.erase(["t1", "never-came"])
        before = store.ledger().total

        store.traces.ingest("other host", 1, [captured("t1"), captured("t3")])

        assert 1 == count_duplicates(store)
        assert {"t2", "t3"} == {trace.trace_id for trace in store.traces.read()}
        assert before.captured + 1 == store.ledger().total.captured
        assert store.upkeep.recount() == []

    def test_ids_are_hashed_with_the_id_of_the_store(self, store: Store):
        """Many ids at once, and no id in the tables."""
        ids = [f"trace-{n}" for n in range(1_100)]
        store.traces.ingest("many", 1, [captured(trace_id) for trace_id in ids])
        store.upkeep.erase(ids)
        assert 0 == store.traces.ingest("again", 1, [captured(trace_id) for trace_id in ids])
        with store._database.read() as db:
            keys = [key for (key,) in db.execute("SELECT key FROM meta WHERE key >= 'erased:' AND key < 'erased;'")]
        assert (1_100, []) == (len(keys), [key for key in keys if "trace-" in key])

    def test_a_sink_that_joined_receives_what_comes_after_an_erasure(self, store: Store):
        """Also if all outcomes from before it joined were erased."""
        ingest(store, "t1")
        complete(store, "t1", both("t1"))
        store.plan.set([GROUNDED, RECALL], ["late"])
        store.upkeep.erase(["t1"])
        ingest(store, "t2")
        complete(store, "t2", both("t2"))
        due = store.deliveries.due("late", limit=9)
        assert ["t2", "t2"] == [item.trace_id for item in due]
        store.deliveries.mark("late", [due[0].id], "failed", error="refused")
        assert (1, 1) == (store.ledger().outbox["late"].failed, store.ledger().outbox["late"].pending)

    def test_an_erasure_says_when_its_first_request_arrived(self, store: Store, clock: Clock):
        """Backups from then on have its text."""
        ingest(store, "t2")
        clock.now += 60
        ingest(store, "t1")
        assert clock.now - 60 == store.upkeep.erase(["t1", "t2"]).since

    def test_outcomes_of_another_plan_are_no_longer_counted(self, store: Store):
        """An erasure that leaves none of them leaves no count of zero."""
        ingest(store, "t1")
        complete(store, "t1", both("t1"))
        store.plan.set([RECALL], [])
        assert {"none": 1} == store.ledger().other_outcomes

        store.upkeep.erase(["t1"])

        assert {} == store.ledger().other_outcomes

    def test_requests_that_expired_may_come_back(self, store: Store, clock: Clock):
        """Retention removes them because of their age. Who merges an archive wants them."""
        ingest(store, "t1")
        complete(store, "t1", [score("t1"), not_applicable("t1")])
        store.plan.set([GROUNDED, RECALL], [])
        clock.now += 1e6
        assert 1 == store.upkeep.remove_requests(before=clock.now)
        ingest(store, "t1")
        assert ["t1"] == [trace.trace_id for trace in store.traces.read()]
