"""Processor time of the owner of several scoring processes, as a share of what scoring in one process takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from statistics import median

import pytest

from ragstone.schema import Passage, Sample
from ragstone.worker import ScorerSpec, ScoringSetup

pytestmark = pytest.mark.bench

METRICS = ("ccrs", "rouge_l", "bleu")
ROUNDS = 5
PER_ROUND = 200
MAX_SHARE = 0.35
"""With this share the owner can keep three processes busy with metrics that call no model. Judged metrics take ten times as long."""


def samples() -> list[Sample]:
    """Samples with five passages of 600 characters."""
    passages = tuple(
        Passage(text=f"Item {i} is a stone found at the river, near the old mill. " * 10) for i in range(5)
    )
    return [
        Sample(
            id=str(i),
            query=f"What is item {i}, and where was it found?",
            contexts=passages,
            response=f"Item {i % 5} is a stone. It was found at the river. " * 4,
            reference=(f"Item {i % 5} is a stone that was found at the river.",),
        )
        for i in range(PER_ROUND)
    ]


async def measure(setup: ScoringSetup, clock: Callable[[], float]) -> tuple[float, float]:
    """Milliseconds and processor milliseconds of this process for each sample."""
    data = samples()
    wall, cpu = time.perf_counter(), clock()
    n = 0
    async for _ in setup.scorer.score_many(data):
        n += 1
    assert n == PER_ROUND
    return (time.perf_counter() - wall) / n * 1e3, (clock() - cpu) / n * 1e3


def test_the_owner_costs_a_share_of_scoring(record_property: Callable[[str, object], None]) -> None:
    """Sending a sample and reading its outcomes takes less processor time than scoring it."""

    async def run() -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
        alone, owner = [], []
        spec = ScorerSpec(METRICS, judge="lexical")
        async with spec.open() as one, spec.open(processes=2) as several:
            await several.scorer.prepare()
            for setup in (one, several):
                await measure(setup, time.process_time)
            for _ in range(ROUNDS):
                alone.append(await measure(one, time.process_time))
                owner.append(await measure(several, time.process_time))
        return alone, owner

    alone, owner = asyncio.run(run())
    share = median(b / a for (_, a), (_, b) in zip(alone, owner, strict=True))
    faster = median(a / b for (a, _), (b, _) in zip(alone, owner, strict=True))
    one_ms, owner_ms = median(cpu for _, cpu in alone), median(cpu for _, cpu in owner)
    print(f"\npool: owner {owner_ms:.2f} ms of {one_ms:.2f} ms a sample, {share:.2f}. 2 processes: {faster:.2f} x")
    record_property("pool", {"share": share, "faster": faster, "owner_ms": owner_ms, "one_ms": one_ms})
    assert share <= MAX_SHARE
