"""One capacity for all who ask an endpoint: threads, loops, models; nothing that ends a wait costs a place."""

from __future__ import annotations

import asyncio
import gc
import os
import threading

import pytest

from fake_servers import FakeJudgeServer
from ragstone.errors import ConfigurationError, JudgeUnavailableError
from ragstone.judges import OpenAICompatibleJudge, OpenAICompatibleModel, Prompt, progress_at
from ragstone.judges._limits.flow_control import FailedAttempt
from ragstone.judges._limits.gate import ClientLimits, EndpointLimiter, capacity_of
from ragstone.judges._model import model_call

pytestmark = pytest.mark.usefixtures("virtual_time")

PROMPT = Prompt(construct="relevance", task="The task.", fields={"query": "Why?", "response": "Because."})


class Clock:
    """Time that stands still until it is set."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def joined(share, **options):
    """A capacity that one user shares."""
    capacity = EndpointLimiter(**options)
    capacity.join(share)
    return capacity


async def queued(capacity, share, n):
    """Tasks that wait for a permit, in order."""
    tasks = []
    for _ in range(n):
        tasks.append(asyncio.create_task(capacity.acquire(share)))
        await asyncio.sleep(0)
    return tasks


def test_first_come_first_served():
    """Places are given in the order of asking, one for each that is free."""
    share = ClientLimits(concurrency=1)
    capacity = joined(share)

    async def session():
        first = await capacity.acquire(share)
        tasks = await queued(capacity, share, 3)
        capacity.answered(first)
        done = []
        for task in tasks:
            permit = await task
            done.append([other.done() for other in tasks])
            capacity.answered(permit)
        return done

    assert [[True, False, False], [True, True, False], [True, True, True]] == asyncio.run(session())
    assert 0 == capacity.in_flight


def test_refused_requests_keep_their_place():
    """A request with an older place goes before those that wait."""
    share = ClientLimits(concurrency=1)
    capacity = joined(share)

    async def session():
        place = capacity.enqueue()
        permit = await capacity.acquire(share, order=place)
        waiting = await queued(capacity, share, 2)
        again = asyncio.create_task(capacity.acquire(share, order=place))
        await asyncio.sleep(0)
        capacity.answered(permit)
        await asyncio.sleep(0)
        done = [task.done() for task in (again, *waiting)]
        for task in (again, *waiting):
            capacity.answered(await task)
        return done

    assert [True, False, False] == asyncio.run(session())


def test_cancelled_waits_leak_nothing():
    """Cancelled while waiting, and in the very moment of the permit: all places are free in the end."""
    share = ClientLimits(concurrency=2)
    capacity = joined(share)

    async def session():
        held = [await capacity.acquire(share) for _ in range(2)]
        tasks = await queued(capacity, share, 6)
        for task in tasks[::2]:
            task.cancel()
        # Permits go to two of the rest, which are canceled before they know.
        for permit in held:
            capacity.answered(permit)
        tasks[1].cancel()
        await asyncio.sleep(0)
        for task in tasks[3:]:
            if not task.cancelled():
                capacity.cancel(await task, sent=True)
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(session())
    assert (0, 0) == (capacity.in_flight, capacity.waiting)


def test_closed_loops_leak_nothing():
    """A loop that is closed with permits held and waits pending does not hold up the others."""
    share = ClientLimits(concurrency=2)
    capacity = joined(share)
    abandoned = asyncio.new_event_loop()

    async def hold():
        for _ in range(2):
            await capacity.acquire(share)
        await asyncio.gather(*(capacity.acquire(share) for _ in range(3)))

    task = abandoned.create_task(hold())
    abandoned.run_until_complete(asyncio.sleep(0.01))
    assert (2, 3) == (capacity.in_flight, capacity.waiting)
    abandoned.close()

    async def session():
        async with asyncio.timeout(100):
            permit = await capacity.acquire(share)
        capacity.answered(permit)

    asyncio.run(session())
    assert (0, 0) == (capacity.in_flight, capacity.waiting)
    # Said on purpose: no one will finish it.
    task._log_destroy_pending = False
    del task
    gc.collect()


def test_threads_share_one_limit():
    """Eight loops in eight threads, two models: never more than the limit at the server, and every question answered."""
    with FakeJudgeServer(latency_s=0.01) as server:
        judges = [OpenAICompatibleJudge(server.url, model="m", max_concurrent_requests=n) for n in (3, 9)]
        values = []

        def work(judge):
            async def session():
                values.extend(await asyncio.gather(*(judge.ask_number(PROMPT) for _ in range(10))))
                await judge.aclose()

            asyncio.run(session())

        threads = [threading.Thread(target=work, args=(judges[n % 2],)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert 80 == len(values)
    assert 3 == server.stats.peak_in_flight


def test_the_smallest_limit_counts_while_its_owner_lives():
    """Two models on one endpoint: the smaller limit; with another key, another endpoint."""
    url = "http://limits.invalid/v1"
    wide = OpenAICompatibleModel(url, max_concurrent_requests=40)
    narrow = OpenAICompatibleModel(url + "/", max_concurrent_requests=2)
    silent = OpenAICompatibleModel(url)
    other = OpenAICompatibleModel(url, api_key="other")
    capacity = capacity_of(url, None)
    assert wide._endpoint.capacity is narrow._endpoint.capacity is silent._endpoint.capacity is capacity
    assert other._endpoint.capacity is not capacity

    async def limit():
        permit = await capacity.acquire(ClientLimits())
        capacity.answered(permit)
        return capacity.window.upper

    assert 2 == asyncio.run(limit())
    del narrow
    gc.collect()
    assert 40 == asyncio.run(limit())


def test_forked_child_begins_anew():
    """A child of a process whose places are all taken can ask, and does not wait for the calls of its parent."""
    share = ClientLimits(concurrency=1)
    capacity = joined(share)
    is_silent = []

    async def child():
        now = asyncio.get_running_loop().time()
        is_silent.append(progress_at() < now)
        async with asyncio.timeout(100):
            capacity.answered(await capacity.acquire(share))

    async def parent():
        permit = await capacity.acquire(share)
        # Held by a thread that the child does not have.
        capacity._lock.acquire()
        call = model_call()
        call.__enter__()
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                thread = threading.Thread(target=lambda: asyncio.run(child()), daemon=True)
                thread.start()
                # A lock that stays locked would hold it for ever.
                thread.join(timeout=100)
                code = int(thread.is_alive() or (capacity.in_flight, capacity.waiting) != (0, 0) or is_silent != [True])
            finally:
                os._exit(code)
        capacity._lock.release()
        call.__exit__(None, None, None)
        _, status = os.waitpid(pid, 0)  # noqa: ASYNC222  nothing else runs here
        capacity.answered(permit)
        return os.waitstatus_to_exitcode(status)

    assert 0 == asyncio.run(parent())


def test_the_tokens_of_a_reply_replace_their_estimate():
    """They do not count twice: the next request goes at once."""
    share, clock = ClientLimits(tokens_per_minute=600), Clock()
    capacity = joined(share, clock=clock)

    async def session():
        capacity.answered(await capacity.acquire(share, n_tokens=50), n_tokens=50)
        second, third = [asyncio.create_task(capacity.acquire(share, n_tokens=50)) for _ in range(2)]
        await asyncio.sleep(0.1)
        assert (True, False) == (second.done(), third.done())
        third.cancel()

    asyncio.run(session())


# Outages ----------------------------------------------------------------------------------------------------------


def fail(capacity, permit):
    """Tell that nothing came back."""
    capacity.failed(permit, FailedAttempt("refused"))


async def broken(capacity, share):
    """Let the endpoint fail five times in a row."""
    for permit in [await capacity.acquire(share) for _ in range(5)]:
        fail(capacity, permit)


def test_one_request_tries_for_all():
    """During an outage one at a time is sent, at first one that has not failed itself; the others wait, and then go."""
    share, clock = ClientLimits(probe_s=1.0), Clock()
    capacity = joined(share, clock=clock)

    async def session():
        await broken(capacity, share)
        failed_before = asyncio.create_task(capacity.acquire(share, n_failures=1))
        await asyncio.sleep(0)
        tasks = await queued(capacity, share, 3)
        assert 0 == capacity.in_flight
        for n in range(2):
            clock.now += 1.1
            probe = await tasks.pop(0)
            assert (True, 1) == (probe.probe, capacity.in_flight)
            fail(capacity, probe)
            await asyncio.sleep(0)
            assert (0, 3 - n) == (capacity.in_flight, capacity.waiting)
        clock.now += 1.1
        probe = await tasks.pop(0)
        assert not failed_before.done()
        capacity.answered(probe)
        capacity.answered(await failed_before)

    asyncio.run(session())
    assert not capacity.breaker.open


def test_long_outage_turns_all_away_until_a_probe_succeeds():
    """After `max_outage_s` requests fail at once, but for one now and then; its success lets all in."""
    share, clock = ClientLimits(max_outage_s=30.0, probe_s=1.0), Clock()
    capacity = joined(share, clock=clock)

    async def session():
        await broken(capacity, share)
        clock.now += 31
        probe = await capacity.acquire(share)
        fail(capacity, probe)
        for _ in range(3):
            with pytest.raises(
                JudgeUnavailableError, match=r"no reply since \d\d:\d\d:\d\d \(31 s, the limit is 30 s\)"
            ):
                await capacity.acquire(share)
        assert capacity.is_down(share)
        clock.now += 1.1
        probe = await capacity.acquire(share)
        # The others of its sample come in the same moment, and share its fate.
        others = await queued(capacity, share, 4)
        assert not any(task.done() for task in others)
        capacity.answered(probe)
        await asyncio.sleep(0.1)
        for task in others:
            capacity.answered(await task)

    asyncio.run(session())


def test_nobody_waits_long_for_a_silent_probe():
    """In a long outage a probe that hangs is not waited for by those who come."""
    share, clock = ClientLimits(max_outage_s=30.0), Clock()
    capacity = joined(share, clock=clock)

    async def session():
        await broken(capacity, share)
        clock.now += 31
        await capacity.acquire(share)
        clock.now += 11
        with pytest.raises(JudgeUnavailableError, match="refused"):
            await capacity.acquire(share)

    asyncio.run(session())


def test_probe_that_is_cancelled_is_replaced():
    """The next in the queue tries at once."""
    share, clock = ClientLimits(), Clock()
    capacity = joined(share, clock=clock)

    async def session():
        await broken(capacity, share)
        clock.now += 2
        probe = await capacity.acquire(share)
        (waiting,) = await queued(capacity, share, 1)
        capacity.cancel(probe, sent=True)
        permit = await waiting
        assert permit.probe
        capacity.answered(permit)

    asyncio.run(session())


# Timeouts ---------------------------------------------------------------------------------------------------------


async def sent(capacity, share, clock, n):
    """Requests in flight that were sent one after the other."""
    permits = []
    for _ in range(n):
        permits.append(await capacity.acquire(share))
        clock.now += 0.1
    return permits


def silent(capacity, permit):
    """Tell that nothing arrived within the timeout."""
    capacity.failed(permit, FailedAttempt("no reply", kind="timeout", overload=True, silent=True))


def test_a_timeout_starts_again_after_an_error_reply():
    """A serial endpoint that answers another request with HTTP 500 works. A lost connection does not show that."""
    share, clock = ClientLimits(timeout_s=60.0), Clock()
    capacity = joined(share, clock=clock)

    async def session():
        first, second, third = await sent(capacity, share, clock, 3)
        clock.now += 50.0
        capacity.failed(second, FailedAttempt("lost"))
        assert capacity.remaining_s(first) < 11
        capacity.failed(third, FailedAttempt("HTTP 500", status=500))
        assert pytest.approx(60.0) == capacity.remaining_s(first)

    asyncio.run(session())


def test_a_timeout_starts_again_while_the_endpoint_answers_others():
    """A request that a serial endpoint keeps waiting does not time out. One that many later ones overtake does."""
    share, clock = ClientLimits(timeout_s=60.0), Clock()
    capacity = joined(share, clock=clock)

    async def session():
        first, second, third = await sent(capacity, share, clock, 3)
        clock.now = 150.0
        capacity.answered(second)
        assert [pytest.approx(60.0)] * 2 == [capacity.remaining_s(first), capacity.remaining_s(third)]
        for _ in range(30):
            clock.now += 1.0
            (later,) = await sent(capacity, share, clock, 1)
            capacity.answered(later)
        # Three were in flight, so the timeout is over when more than 24 others have been answered.
        assert capacity.remaining_s(third) < 60.0 - 30 * 1.1

    asyncio.run(session())


@pytest.mark.parametrize("n", [2, 3])
def test_an_endpoint_that_answers_is_not_down(n):
    """Requests that time out together are an outage if nothing else was answered in this time, and otherwise not."""
    share, clock = ClientLimits(timeout_s=60.0, concurrency=n + 1), Clock()

    async def session(*, answers):
        capacity = joined(share, clock=clock)
        permits = await sent(capacity, share, clock, n)
        clock.now += 30.0
        if answers:
            capacity.answered(await capacity.acquire(share))
        clock.now += 30.0
        for permit in permits:
            silent(capacity, permit)
        return capacity.breaker.open

    assert not asyncio.run(session(answers=True))
    assert asyncio.run(session(answers=False))


def test_one_request_at_a_time_where_nothing_is_answered():
    """One request may block the others. Then it goes alone, also after the outage, and the window grows from there."""
    share, clock = ClientLimits(timeout_s=60.0, concurrency=8), Clock()

    async def session(*, answers):
        capacity = joined(share, clock=clock)
        permits = await sent(capacity, share, clock, 4)
        clock.now += 50.0
        if answers:
            capacity.answered(await capacity.acquire(share))
        clock.now += 10.0
        capacity.failed(permits[0], FailedAttempt("no reply", kind="timeout", silent=True))
        limit = capacity.window.limit
        for permit in permits[1:]:
            clock.now += 1.0
            silent(capacity, permit)
        if capacity.breaker.open:
            clock.now += 10.0
            capacity.answered(await capacity.acquire(share))
        return limit, capacity.window.limit

    assert (4, 4) == asyncio.run(session(answers=True))
    assert (1, 1) == asyncio.run(session(answers=False))


def test_a_late_reply_ends_a_row_of_timeouts():
    """A reply to an old request shows that the endpoint answers, also if others timed out in the meantime."""
    share, clock = ClientLimits(timeout_s=60.0, concurrency=2), Clock()
    capacity = joined(share, clock=clock)

    async def session():
        old, other = await sent(capacity, share, clock, 2)
        clock.now += 60.0
        silent(capacity, other)
        capacity.answered(old)
        permit = await capacity.acquire(share)
        clock.now += 60.0
        silent(capacity, permit)

    asyncio.run(session())
    assert not capacity.breaker.open


@pytest.mark.parametrize(
    "options",
    [
        {"requests_per_minute": 0},
        {"tokens_per_minute": -1},
        {"max_outage_s": -1},
    ],
)
def test_impossible_options(options):
    """Refused when the model is made."""
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        OpenAICompatibleModel("http://h", **options)


def test_options_of_transport_change_no_identity():
    """The same model in a hurry is the same judge."""
    plain = OpenAICompatibleJudge("http://h", model="m")
    tuned = OpenAICompatibleJudge(
        "http://h",
        model="m",
        requests_per_minute=5,
        tokens_per_minute=5,
        max_outage_s=1,
        usd_per_million_tokens=(1, 2),
    )
    assert plain.identity == tuned.identity
