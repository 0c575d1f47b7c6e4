"""A metric that takes time, and writes down which process computes it. Actors import it by `PYTHONPATH`."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from ragstone.judges import Judge
from ragstone.metrics import MetricBase
from ragstone.schema import Sample, Score


class Slow(MetricBase):
    """The length of the response, after a pause."""

    name = "slow"
    title = "Slow"
    group = "test"
    description = "Length of the response."
    needs = ("response",)
    low = 0.0
    high = 1000.0

    def __init__(self, pids: str, pause_s: float) -> None:
        self.pids = pids
        self.pause_s = pause_s

    async def compute(self, sample: Sample, judge: Judge) -> Score:
        (Path(self.pids) / str(os.getpid())).touch()
        await asyncio.sleep(self.pause_s)
        return self.make_score(sample, float(len(sample.response or "")), method="exact")
