"""Metering: nested blocks, tasks, and neighbors that do not see each other's bills."""

from __future__ import annotations

import asyncio

import pytest

from ragstone.judges import metered, record_usage
from ragstone.schema import Usage


def test_blocks_nest():
    """The outer block counts what the inner one counts."""
    with metered() as outer:
        record_usage(Usage(calls=1))
        with metered() as inner:
            record_usage(Usage(calls=2, output_tokens=5))
    record_usage(Usage(calls=100))
    assert (Usage(calls=3, output_tokens=5), Usage(calls=2, output_tokens=5)) == (outer.total, inner.total)


def test_errors_keep_the_bill():
    """What was spent before the exception is known after it."""
    with pytest.raises(ValueError, match="no"), metered() as meter:
        record_usage(Usage(calls=1))
        raise ValueError("no")
    assert 1 == meter.total.calls


def test_tasks_are_apart():
    """Tasks started in a block report to it; two blocks in two tasks do not mix."""

    async def one(n):
        with metered() as meter:
            await asyncio.sleep(0)
            record_usage(Usage(calls=n))
            await asyncio.sleep(0)
        return meter.total.calls

    async def session():
        with metered() as meter:
            counts = await asyncio.gather(*(one(n) for n in range(1, 6)))
        return counts, meter.total.calls

    assert ([1, 2, 3, 4, 5], 15) == asyncio.run(session())
