"""Processor time of the owner of several scoring processes, as a share of what scoring in one process takes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

import pytest

from ragstone.schema import Passage, Sample, Score
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
    async for _, outcomes in setup.scorer.score_many(data):
        assert all(isinstance(outcome, Score) for outcome in outcomes), outcomes
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


JUDGE = Path(__file__).parents[1] / "peers" / "judge.py"
JUDGE_ROUNDS = 3
MAX_OWNER_SHARE = 0.3
"""Of the processor time of a sample with five judge calls. With it, the owner can keep three processes busy."""


def cpu_s(pids: Iterable[int]) -> float:
    """Processor time of processes, in seconds."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads processor time from /proc")
def test_processes_with_a_judge_of_20_ms(record_property: Callable[[str, object], None]) -> None:
    """One, two and four processes that call a judge: time a sample, and the processor time of each part, in turn."""
    command = [sys.executable, str(JUDGE), "0.02"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().split()[-1]}/v1"
        spec = ScorerSpec(
            "ccrs", judge={"url": url, "model": "m", "max_concurrent_requests": 64}, concurrency=32, deadline_s=600
        )
        rounds: dict[int, list[tuple[float, float, float, float]]] = {1: [], 2: [], 4: []}

        async def run() -> None:
            async with spec.open() as one, spec.open(processes=2) as two, spec.open(processes=4) as four:
                setups = {1: one, 2: two, 4: four}
                for setup in setups.values():
                    await setup.scorer.prepare()
                    await measure(setup, time.process_time)
                for _ in range(JUDGE_ROUNDS):
                    for n, setup in setups.items():
                        pids = setup.processes.pids if setup.processes else []
                        before = cpu_s(pids), cpu_s([server.pid])
                        wall_ms, owner_ms = await measure(setup, time.process_time)
                        after = cpu_s(pids), cpu_s([server.pid])
                        scoring_ms, judge_ms = ((b - a) / PER_ROUND * 1e3 for a, b in zip(before, after, strict=True))
                        rounds[n].append((wall_ms, owner_ms, scoring_ms, judge_ms))

        try:
            asyncio.run(run())
        finally:
            server.terminate()
    print(f"\n{'processes':>9} {'samples/s':>9} {'owner ms':>9} {'scoring ms':>10} {'judge ms':>9}")
    figures = {n: [median(column) for column in zip(*each, strict=True)] for n, each in rounds.items()}
    for n, (wall_ms, owner_ms, scoring_ms, judge_ms) in figures.items():
        print(f"{n:>9} {1e3 / wall_ms:>9.0f} {owner_ms:>9.2f} {scoring_ms:>10.2f} {judge_ms:>9.2f}")
    record_property("judge of 20 ms", figures)
    assert figures[4][1] <= MAX_OWNER_SHARE * figures[1][1]
