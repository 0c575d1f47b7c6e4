"""What sharing a capacity costs each request, and how much of a rate limit is used."""

from __future__ import annotations

import asyncio
import statistics
import time

import pytest

from fake_servers import FakeJudgeServer
from ragstone.judges import OpenAICompatibleJudge, Prompt
from ragstone.judges._limits.gate import ClientLimits, EndpointLimiter

pytestmark = pytest.mark.bench

ROUNDS, PER_ROUND, WIDTH = 20, 500, 80
BUDGET_US = 100.0
"""A request through the client costs more than ten times this."""
BUDGET_RATIO = 1.15


async def through_capacity(capacity: EndpointLimiter, share: ClientLimits) -> None:
    """What a request does around its sending."""
    permit = await capacity.acquire(share, kind=64)
    await asyncio.sleep(0)
    capacity.answered(permit, n_tokens=10.0)


async def through_semaphore(semaphore: asyncio.Semaphore) -> None:
    """What it would do with a plain limit."""
    async with semaphore:
        await asyncio.sleep(0)


def test_capacity_costs_little():
    """Microseconds of CPU for each request, with more waiting than may go, against a semaphore."""

    async def session() -> tuple[list[float], list[float]]:
        share = ClientLimits(concurrency=16)
        capacity = EndpointLimiter()
        capacity.join(share)
        semaphore = asyncio.Semaphore(16)
        ours, base = [], []
        for _ in range(ROUNDS):
            for took, work in (
                (base, lambda: through_semaphore(semaphore)),
                (ours, lambda: through_capacity(capacity, share)),
            ):
                started = time.thread_time()
                for _ in range(0, PER_ROUND, WIDTH):
                    await asyncio.gather(*(work() for _ in range(WIDTH)))
                took.append((time.thread_time() - started) * 1e6 / PER_ROUND)
        return ours, base

    ours, base = asyncio.run(session())
    fast, plain = statistics.median(ours), statistics.median(base)
    print(f"\na turn: {fast:.1f} µs = {fast / plain:.1f} x a semaphore ({plain:.1f} µs)")
    assert fast < BUDGET_US


@pytest.mark.parametrize(("rpm", "n", "latency_s"), [(60, 40, 0.0), (300, 150, 0.0), (1200, 600, 0.0), (300, 150, 2.0)])
def test_rate_limit_is_used_up(rpm, n, latency_s):
    """Seconds for n requests against those that the limit imposes; `Retry-After` comes in whole seconds."""

    async def session(url: str) -> float:
        judge = OpenAICompatibleJudge(url, model="m")
        waiting = asyncio.Semaphore(WIDTH)

        async def one(number: int) -> None:
            async with waiting:
                await judge.ask_number(Prompt(construct="c", task="Judge.", fields={"query": f"Why {number}?"}))

        # The client is imported, and connected, before the clock starts.
        await one(-1)
        started = time.monotonic()
        await asyncio.gather(*(one(number) for number in range(n)))
        took_s = time.monotonic() - started
        await judge.aclose()
        return took_s

    with FakeJudgeServer(rate_limit_rpm=rpm, latency_s=latency_s) as server:
        took_s = asyncio.run(session(server.url))
    imposed_s = (n - max(1.0, rpm / 60)) / (rpm / 60) + latency_s
    refused = server.stats.replies["429"]
    print(f"\n{rpm} a minute, latency {latency_s:g} s: {took_s:.1f} s = {took_s / imposed_s:.3f} x, {refused} refused")
    assert took_s < BUDGET_RATIO * imposed_s
