"""`ScoringSetup`: the limits of its scorer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from ragstone.errors import ConfigurationError
from ragstone.metrics import MetricBase
from ragstone.schema import Failure, Sample
from ragstone.settings import Limits
from ragstone.sinks import LangfuseSink
from ragstone.worker import ScoringSetup


class Turns(MetricBase):
    """A metric that counts the samples that it scores at the same time."""

    name, needs = "acme.turns", ("response",)

    def __init__(self) -> None:
        self.active = self.most = 0

    async def compute(self, sample, judge):
        self.active += 1
        self.most = max(self.most, self.active)
        await asyncio.sleep(0.2)
        self.active -= 1
        return self.make_score(sample, 1.0, method="exact")


async def score(setup: ScoringSetup, n: int) -> list[Any]:
    """Return the outcomes of samples."""
    async with setup:
        samples = [Sample(id=str(number), query="q", response="r") for number in range(n)]
        return [outcomes async for _, outcomes in setup.scorer.score_many(samples)]


@pytest.mark.parametrize("limits", [Limits(concurrency=2), {"concurrency": 2}])
def test_a_setup_scores_as_many_samples_at_once_as_its_limits_say(limits: Limits | Mapping[str, Any]) -> None:
    """The limits are the settings or a table with their keys."""
    metric = Turns()
    assert 5 == len(asyncio.run(score(ScoringSetup(metric, limits=limits), 5)))
    assert 2 == metric.most


def test_a_setup_ends_a_sample_at_the_deadline_of_its_limits() -> None:
    """What is not scored then fails as a timeout."""
    ((outcome,),) = asyncio.run(score(ScoringSetup(Turns(), limits={"deadline_s": 0.1}), 1))
    assert isinstance(outcome, Failure)
    assert "timeout" == outcome.kind


def test_two_sinks_of_one_name_are_refused() -> None:
    """What one has received would count as sent to both."""
    sinks = [LangfuseSink("http://host", public_key=key, secret_key="s") for key in "ab"]
    with pytest.raises(ConfigurationError, match=r"sinks 1 and 2 have one name, 'langfuse:host:80'"):
        ScoringSetup(Turns(), sinks=sinks)


def test_a_limit_out_of_range_is_named() -> None:
    """A table is checked by the rules of the settings."""
    with pytest.raises(ConfigurationError, match=r"limits\.concurrency must be an integer of at least 1, got 0"):
        ScoringSetup(Turns(), limits={"concurrency": 0})
