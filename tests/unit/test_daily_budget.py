"""`[daily_budget]`: what models cost on a day is counted in the store, and requests wait for the next day."""

from __future__ import annotations

import asyncio
import itertools
import json
from unittest.mock import Mock

import pytest

from command_line import run_command
from live_store import make_trace
from ragstone import Monitor
from ragstone.errors import ConfigurationError, JudgeError, StoreError
from ragstone.judges import record_usage
from ragstone.schema import Captured, Usage
from ragstone.settings import DailyBudget, Limits, read_table
from ragstone.store import SqliteStore
from ragstone.store._plan import Plan
from ragstone.testing import FakeJudge
from ragstone.worker import ScoringSetup, StepErrors, Worker
from ragstone.worker._daily_budget import DailyBudget as BudgetCounter

DAY_S = 86_400.0
NOON = 1_790_000_000.0 // DAY_S * DAY_S + DAY_S / 2


@pytest.fixture
def path(tmp_path):
    """Eight pending requests."""
    with SqliteStore.open(tmp_path / "a.db", mode="own") as store:
        store.traces.ingest("a", 1, [Captured(trace=make_trace(k)) for k in range(8)])
    return tmp_path / "a.db"


def work(path, limits, *, now=NOON, concurrency=1):
    """Run a worker until it is idle, with one judge call for each request, and return it."""

    async def main():
        async with ScoringSetup(
            ["ccrs.qr"], judge=FakeJudge(number=80), limits=Limits(concurrency=concurrency)
        ) as setup:
            worker = Worker(path, setup, daily_budget=limits, clock=lambda: now)
            await asyncio.wait_for(worker.run(until_idle=True), 60)
            return worker

    return asyncio.run(main())


def counts(path, now=NOON):
    with SqliteStore.open(path, mode="read", clock=lambda: now) as store:
        ledger = store.ledger()
    return ledger.total.scored, ledger.total.pending, ledger.spent_today.calls


def test_requests_wait_for_the_next_day(path):
    """Three calls a day: a restart on the same day scores nothing, the next days score the rest, and nothing is lost."""
    worker = work(path, {"calls": 3})
    assert (3, 5, 3) == counts(path)
    assert "3 of 3 calls" in worker.over_daily_budget
    assert worker.state.over_daily_budget == worker.over_daily_budget
    work(path, {"calls": 3})
    assert (3, 5, 3) == counts(path)
    assert (3, 5, 0) == counts(path, NOON + DAY_S)
    work(path, {"calls": 3}, now=NOON + DAY_S)
    assert (6, 2, 3) == counts(path, NOON + DAY_S)
    worker = work(path, {"calls": 3}, now=NOON + 2 * DAY_S)
    assert (8, 0, 2) == counts(path, NOON + 2 * DAY_S)
    assert worker.over_daily_budget is None


def test_clock_put_back(path):
    """Each day that the clock shows has one budget, whether the clock is put back in a worker or while none runs."""
    work(path, {"calls": 2})
    work(path, {"calls": 2}, now=NOON - DAY_S)
    assert (4, 4, 2) == counts(path)
    for now in (NOON, NOON - DAY_S, NOON, NOON + DAY_S / 2 - 1):
        work(path, {"calls": 2}, now=now)
    assert (4, 4, 2) == counts(path)
    assert (4, 4, 2) == counts(path, NOON - DAY_S)


def test_clock_that_moves_around_midnight(path):
    """A clock that is put back from the new day to the old one, again and again in one worker: the sum of both days."""
    times = itertools.cycle([NOON + DAY_S / 2 + 1, NOON + DAY_S / 2 - 1, NOON + DAY_S / 2 - 0.5])

    async def main():
        async with ScoringSetup(["ccrs.qr"], judge=FakeJudge(number=80), limits=Limits(concurrency=1)) as setup:
            worker = Worker(path, setup, daily_budget={"calls": 2}, clock=lambda: next(times))
            await asyncio.wait_for(worker.run(until_idle=True), 60)

    asyncio.run(main())
    spent = [counts(path, now)[2] for now in (NOON, NOON + DAY_S)]
    # What is in flight when the limit of one day is seen is recorded on the day that the clock then shows.
    assert sum(spent) == counts(path)[0] <= 2 * 2 + 1
    assert 2 <= max(spent)


def test_what_is_in_flight_is_all_that_exceeds_it(path):
    """With four requests at a time, at most three more than the limit."""
    work(path, {"calls": 2}, concurrency=4)
    scored, pending, spent = counts(path)
    assert 2 <= spent == scored <= 5
    assert 8 == scored + pending


def test_without_limits_it_is_only_counted(path):
    """The ledger shows the cost of the day, and `status` prints it."""
    work(path, None)
    assert (8, 0, 8) == counts(path)
    with SqliteStore.open(path, mode="own") as store:
        store.plan.add_spend(Usage(calls=2, input_tokens=1500, output_tokens=500, cost_usd=0.25))
        store.plan.add_spend(Usage(calls=1))
        total = Usage(calls=3, input_tokens=1500, output_tokens=500, cost_usd=0.25, priced_calls=2, counted_calls=2)
        assert total == store.plan.spent_today()
        store.plan.set_record("daily_budget", {"calls": 3.0, "usd": 1.0})
    shown = run_command("status", path).stdout
    assert (
        "spent today (UTC): 3 of 3 calls, 2,000 tokens, 0.25 of 1 usd, the tokens of 1 call are unknown, the cost of 1 call is "
        "unknown. The daily budget is reached" in shown
    )
    ledger = json.loads(run_command("status", path, "--json").stdout)
    assert {"calls": 3.0, "usd": 1.0} == ledger["daily_budget"]


def test_what_a_store_does_not_accept_is_stored_later(path, monkeypatch):
    """Calls that are made while the disk is full count, and are in the store as soon as it has room."""
    with SqliteStore.open(path, mode="own", clock=lambda: NOON) as store:
        budget = BudgetCounter({"calls": 3}, errors=StepErrors())
        budget.spend(Usage(calls=3))
        with monkeypatch.context() as patch:
            patch.setattr(Plan, "add_spend", Mock(side_effect=StoreError("disk full")))
            budget.update(store, now_too=True)
        assert "3 of 3 calls" in budget.reached
        assert 0 == store.plan.spent_today().calls
        for _ in range(2):
            budget.update(store, now_too=True)
            assert 3 == store.plan.spent_today().calls


def test_what_is_not_stored_was_spent_too(path):
    """Failures that are held back, and calls of a worker that is stopped."""

    async def run(judge, *, stops):
        async with ScoringSetup(["ccrs.qr"], judge=judge, limits=Limits(concurrency=8)) as setup:
            worker = Worker(path, setup, clock=lambda: NOON)
            running = asyncio.create_task(worker.run(until_idle=not stops))
            if stops:
                await asyncio.wait_for(judge.asked.wait(), 60)
                worker.stop()
            await asyncio.wait_for(running, 60)

    class Hanging(FakeJudge):
        def __init__(self):
            super().__init__()
            self.asked = asyncio.Event()

        async def ask_number(self, prompt, **options):
            record_usage(Usage(calls=1))
            self.asked.set()
            await asyncio.Event().wait()

    async def stop():
        await run(Hanging(), stops=True)

    asyncio.run(stop())
    n_canceled = counts(path)[2]
    assert (0, 8) == counts(path)[:2]
    assert 1 <= n_canceled <= 8
    judge = FakeJudge(fail=lambda _: JudgeError("cut", kind="truncated"))
    asyncio.run(run(judge, stops=False))
    assert n_canceled + len(judge.prompts) == counts(path)[2]


def test_dollars_without_prices_score_nothing_more(path):
    """A limit that cannot be counted does not allow everything."""
    worker = work(path, {"usd": 5.0})
    assert (1, 7) == counts(path)[:2]
    assert "set usd_per_million_tokens" in worker.over_daily_budget


def test_command(path, tmp_path):
    """The worker reads the table, and ends with the exit code of a budget."""
    with SqliteStore.open(path, mode="own") as store:
        store.plan.add_spend(Usage(calls=7))
    config = tmp_path / "ragstone.toml"
    config.write_text("[daily_budget]\ncalls = 7\n")
    done = run_command("--config", config, "worker", path, "--metrics", "rouge_l", "--until-idle")
    assert (4, True) == (done.returncode, "the daily budget is reached: 7 of 7 calls" in done.stderr)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"calls": 0}, "calls must be an integer of at least 1, got 0"),
        ({"usd": -1}, "usd must be a number above 0, got -1"),
        ({"tokens": True}, "tokens must be an integer of at least 1, got True"),
        (
            {"eur": 3},
            "'daily_budget.eur' is not a setting. Keys of .daily_budget.: calls, tokens, usd",
        ),
        (5, "must be a table .daily_budget., got 5"),
    ],
)
def test_invalid_tables(table, message):
    """Each message names the value and what is allowed."""
    with pytest.raises(ConfigurationError, match=message):
        read_table(DailyBudget, table, source="a.toml")


def test_monitor_reads_its_table(tmp_path):
    """From an argument and from a file."""
    with pytest.raises(ConfigurationError, match="calls must be an integer of at least 1, got 0"):
        Monitor(store=tmp_path / "m.db", metrics="rouge_l", daily_budget={"calls": 0})
    config = tmp_path / "ragstone.toml"
    config.write_text(f'[capture]\nstore = "{tmp_path / "m.db"}"\n[daily_budget]\ncalls = 0\n')
    with pytest.raises(ConfigurationError, match="calls must be an integer of at least 1, got 0"):
        Monitor.from_config(config)
