"""Shared work: done once a sample, paid for once, and no one's trouble but its own."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from builders import make_sample
from ragstone.errors import JudgeError
from ragstone.judges import metered, record_usage
from ragstone.metrics import MetricCard, compute_once, share_work
from ragstone.schema import Score, Usage
from ragstone.scoring import Scorer
from ragstone.testing import FakeJudge

pytestmark = pytest.mark.usefixtures("virtual_time")


def maker(calls, result="done", *, wait=None, error=None):
    """Work that notes that it was begun, waits for an event, and is paid for."""

    async def make():
        calls.append(result)
        record_usage(Usage(calls=1))
        if wait is not None:
            await wait.wait()
        if error is not None:
            raise error
        return result

    return make


def test_done_once_for_all_who_ask():
    """At the same time or later; other keys are other work."""

    async def run():
        calls = []
        with share_work():
            first = await asyncio.gather(*(compute_once("key", maker(calls)) for _ in range(5)))
            later = await compute_once("key", maker(calls))
            other = await compute_once("other", maker(calls, "more"))
        return calls, first, later, other

    assert (["done", "more"], ["done"] * 5, "done", "more") == asyncio.run(run())


def test_outside_a_scope_each_makes_its_own():
    """A metric that is called by itself works as ever."""

    async def run():
        calls = []
        await compute_once("key", maker(calls))
        await compute_once("key", maker(calls))
        return calls

    assert ["done", "done"] == asyncio.run(run())


def test_scopes_know_nothing_of_each_other():
    """One sample after another, at once, or one inside another."""

    async def run():
        calls = []

        async def sample():
            with share_work():
                await compute_once("key", maker(calls))

        await asyncio.gather(sample(), sample())
        with share_work():
            await compute_once("key", maker(calls))
            await sample()
            await compute_once("key", maker(calls))
        await compute_once("key", maker(calls))
        return calls

    assert 5 == len(asyncio.run(run()))


def test_an_error_is_everybodys():
    """Who asked first, who waited and who comes later; it is not asked again within the sample."""

    async def run():
        calls = []
        with share_work():
            make = maker(calls, error=JudgeError("down", kind="timeout"))
            asked = await asyncio.gather(*(compute_once("key", make) for _ in range(3)), return_exceptions=True)
            with pytest.raises(JudgeError, match="down"):
                await compute_once("key", make)
        return calls, asked

    calls, asked = asyncio.run(run())
    assert (1, ["timeout"] * 3) == (len(calls), [error.kind for error in asked])


@pytest.mark.parametrize("leaver", [0, 1])
def test_who_leaves_takes_nothing_from_the_others(leaver):
    """The first to ask may be canceled as well as a later one: then a waiting one asks again."""

    async def run():
        calls, wait = [], asyncio.Event()
        with share_work():
            askers = [asyncio.create_task(compute_once("key", maker(calls, wait=wait))) for _ in range(2)]
            await asyncio.sleep(0.01)
            askers[leaver].cancel()
            await asyncio.sleep(0.01)
            wait.set()
            found = await asyncio.gather(*askers, return_exceptions=True)
        return calls, found

    calls, found = asyncio.run(run())
    assert [2, 1][leaver] == len(calls)
    assert isinstance(found[leaver], asyncio.CancelledError)
    assert "done" == found[1 - leaver]


def test_a_computation_ends_with_its_caller():
    """Work that no one waits for any more leaves no task behind, and sends no further calls."""

    async def run():
        calls, wait, ended = [], asyncio.Event(), []

        async def make():
            try:
                await maker(calls, wait=wait)()
            finally:
                ended.append(True)

        with share_work():
            asker = asyncio.create_task(compute_once("key", make))
            await asyncio.sleep(0.01)
            asker.cancel()
            await asyncio.gather(asker, return_exceptions=True)
        return ended, asyncio.all_tasks() - {asyncio.current_task()}

    assert ([True], set()) == asyncio.run(run())


def test_an_error_that_nobody_waits_for_is_not_reported():
    """All who asked have left when it goes wrong: there is no one to tell, and no noise in the log."""
    told = []

    async def run():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        wait = asyncio.Event()
        with share_work():
            asker = asyncio.create_task(compute_once("key", maker([], wait=wait, error=JudgeError("down"))))
            await asyncio.sleep(0.01)
            asker.cancel()
            await asyncio.gather(asker, return_exceptions=True)
            wait.set()
            await asyncio.sleep(0.01)

    asyncio.run(run())
    gc.collect()
    assert [] == told


def test_the_first_to_ask_has_it_on_the_bill():
    """And no one else."""

    async def run():
        calls = []

        async def asked():
            with metered() as meter:
                await compute_once("key", maker(calls))
            return meter.total.calls

        with share_work():
            return await asyncio.gather(asked(), asked(), asked())

    assert [1, 0, 0] == asyncio.run(run())


def test_work_may_share_work():
    """Verdicts need claims, which others need as well."""

    async def run():
        calls = []

        async def outer():
            return await compute_once("inner", maker(calls, "inner")) + " and outer"

        with share_work():
            return await asyncio.gather(
                compute_once("outer", outer), compute_once("inner", maker(calls, "inner"))
            ), calls

    assert (["inner and outer", "inner"], ["inner"]) == asyncio.run(run())


class Sharing:
    """A metric that rests on one shared question."""

    def __init__(self, name):
        self.card = MetricCard(
            name=name,
            title="",
            description="",
            low=0,
            high=1,
            needs=(),
            version="1",
            source="",
            group="g",
            judge_calls=1,
        )

    async def score(self, sample, judge):
        async def ask():
            record_usage(Usage(calls=1))
            await asyncio.sleep(60)

        await compute_once("key", ask)
        return Score(sample_id=sample.id, metric=self.card.name, metric_version="1", value=1, method="m")


def test_work_that_runs_out_of_time_is_on_the_total_bill():
    """By the deadline all metrics fail, the work is canceled, and what went out is counted once."""

    async def run():
        scorer = Scorer([Sharing("a"), Sharing("b")], FakeJudge(), deadline_s=0.05)
        outcomes = await scorer.score(make_sample())
        return outcomes, scorer.usage.calls, asyncio.all_tasks() - {asyncio.current_task()}

    outcomes, calls, left = asyncio.run(run())
    assert ["timeout", "timeout"] == [outcome.kind for outcome in outcomes]
    assert (1, set()) == (calls, left)


class Late(Sharing):
    """What it spends shows only when it is canceled, as with a request that is cut off."""

    async def score(self, sample, judge):
        async def ask():
            try:
                await asyncio.sleep(60)
            finally:
                record_usage(Usage(calls=1))

        await compute_once("key", ask)


def test_what_is_spent_while_work_is_cancelled_is_on_the_total_bill():
    """After the metrics have their outcomes: it is on none of theirs."""

    async def run():
        scorer = Scorer([Late("a"), Late("b")], FakeJudge(), deadline_s=0.05)
        await scorer.score(make_sample())
        return scorer.usage.calls

    assert 1 == asyncio.run(run())


def test_shared_work_is_freed_without_a_collection():
    """A reply of the judge does not stay in memory until the garbage collector runs."""

    class Reply:
        pass

    async def make():
        return Reply()

    async def run():
        with share_work():
            return weakref.ref(await compute_once("key", make))

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(run())() is None
    finally:
        gc.enable()
