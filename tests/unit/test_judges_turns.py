"""Requests of one kind: the first goes alone, and what it learned holds for the others."""

from __future__ import annotations

import asyncio

import pytest

from ragstone.judges import note_progress
from ragstone.judges._http.turns import FirstOfKind

pytestmark = pytest.mark.usefixtures("virtual_time")


def run(*, settles=True, fails=(), n=5, reset=False):
    """Start requests together; returns the largest number at the same time, before and after the first one ended."""
    turns, running, peaks, n_done = FirstOfKind(), [], {"before": 0, "after": 0}, [0]

    async def request(place):
        async with turns.turn("kind"):
            running.append(place)
            when = "after" if n_done[0] else "before"
            peaks[when] = max(peaks[when], len(running))
            await asyncio.sleep(1)
            running.remove(place)
            n_done[0] += 1
            if settles:
                turns.settle("kind")
            if reset:
                turns.reset()
            if place in fails:
                raise ValueError

    async def session():
        return await asyncio.gather(*map(request, range(n)), return_exceptions=True)

    return asyncio.run(session()), peaks


def test_the_first_goes_alone():
    """Once it was accepted, all others go together."""
    _, peaks = run()
    assert {"before": 1, "after": 4} == peaks


def test_without_an_accepted_request_they_go_one_by_one():
    """Also if a request fails: the next one goes first then."""
    results, peaks = run(settles=False, fails=(0, 1))
    assert {"before": 1, "after": 1} == peaks
    assert [ValueError, ValueError, type(None)] == [type(result) for result in results[:3]]


def test_after_a_reset_they_go_one_by_one_again():
    """A changed format has to be accepted first."""
    _, peaks = run(reset=True)
    assert {"before": 1, "after": 1} == peaks


def test_other_kinds_do_not_wait():
    """Requests of another kind are not refused for the same reasons."""

    async def session():
        turns = FirstOfKind()
        async with turns.turn("a"), turns.turn("b"):
            return True

    assert asyncio.run(session())


@pytest.mark.parametrize(("replies_s", "entered"), [(0, [0, 120, 120]), (50, [0, 170, 170])])
def test_a_silent_first_request_does_not_hold_up_the_others(virtual_time, replies_s, entered):
    """The others go as well 120 seconds after they came, or after the last reply to another request."""

    async def session():
        turns, entered = FirstOfKind(), []
        loop = asyncio.get_running_loop()
        started = loop.time()

        async def request(seconds):
            async with turns.turn("kind"):
                entered.append(loop.time() - started)
                await asyncio.sleep(seconds)

        async def reply():
            await asyncio.sleep(replies_s)
            note_progress()

        await asyncio.gather(reply(), *(request(300) for _ in range(3)))
        return entered

    assert entered == pytest.approx(asyncio.run(session()), abs=0.1)


def test_two_event_loops():
    """An abandoned request of one loop does not block another loop."""
    turns = FirstOfKind()

    async def abandoned():
        async with turns.turn("kind"):
            await asyncio.sleep(3600)

    async def first():
        task = asyncio.create_task(abandoned())
        await asyncio.sleep(0)
        task.cancel()

    async def second():
        async with turns.turn("kind"):
            return True

    asyncio.run(first())
    assert asyncio.run(second())
