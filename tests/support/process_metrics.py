"""Metrics for scoring processes, which import them by name."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from ragstone.judges import Judge, Prompt
from ragstone.metrics import MetricBase
from ragstone.schema import Sample, Score

__all__ = ["DeadlyMetric", "EndlessMetric", "ProcessMetric"]


class ProcessMetric(MetricBase):
    """The number of the process that scored a sample. It also prints, as libraries do."""

    name = "process"
    needs = ("response",)
    low, high = 0.0, 1e9

    async def compute(self, sample: Sample, judge: object) -> Score:
        """Return the process id."""
        if sample.id == "0":
            os.write(1, b'{"reply": "printed by a metric"}\n')
        return self.make_score(sample, float(os.getpid()), method="exact")


class DeadlyMetric(MetricBase):
    """Kills the process that scores a sample whose response is "deadly"."""

    name = "deadly"
    needs = ("response",)

    async def compute(self, sample: Sample, judge: object) -> Score:
        """Return 1, if the process survives."""
        if sample.response == "deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        return self.make_score(sample, 1.0, method="exact")


class EndlessMetric(MetricBase):
    """Asks the judge, creates the file that the response names, and never ends."""

    name = "endless"
    needs = ("response",)
    judge_calls = 1

    async def compute(self, sample: Sample, judge: Judge) -> Score:
        """Return no score."""
        await judge.ask_number(Prompt(construct="relevance", task="The task.", fields={"response": "r"}))
        await asyncio.to_thread(Path(sample.response or "").touch)
        await asyncio.Event().wait()
        raise AssertionError
