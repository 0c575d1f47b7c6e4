"""What a run would score, lack and cost, found out by playing it through with models that are never asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, Iterable, Sequence
from dataclasses import dataclass, field

from ragstone.judges import DryRunJudge, DryRunReader
from ragstone.metrics import Metric, ReaderMetric, check_sample
from ragstone.schema import NotApplicable, Sample, Usage
from ragstone.scoring._scorer import Scorer

__all__ = ["MetricEstimate", "RunEstimate", "estimate_run"]


@dataclass(slots=True, kw_only=True)
class MetricEstimate:
    """What one metric would do."""

    metric: str
    n_applicable: int = 0
    """Samples that it would be asked about."""
    n_not_applicable: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Why it does not apply, with the number of samples."""
    usage: Usage = field(default_factory=Usage)
    """Calls and tokens if it were scored alone; questions that several metrics share are in each of them."""


@dataclass(slots=True, kw_only=True)
class RunEstimate:
    """What a run would do."""

    n_samples: int
    metrics: tuple[MetricEstimate, ...]
    usage: Usage
    """Calls and tokens of all metrics together, shared questions once. Tokens are estimated from characters."""

    def usd(self, usd_per_million_tokens: tuple[float, float]) -> float:
        """Money, at these prices of a million tokens of input and of output."""
        price_in, price_out = usd_per_million_tokens
        return (self.usage.input_tokens * price_in + self.usage.output_tokens * price_out) / 1e6

    def estimate_seconds(self, *, max_concurrent_requests: int, call_latency_s: float) -> float:
        """Time, with so many calls at once that take so long each."""
        return self.usage.calls * call_latency_s / max_concurrent_requests


async def estimate_run(
    samples: AsyncIterable[Sample] | Iterable[Sample], metrics: Sequence[Metric], *, calls_per_reading: int = 1
) -> RunEstimate:
    """Play a run through: which metrics apply to how many samples, and what would be asked. Nobody is asked.

    How many questions some metrics ask depends on what a judge answers (claims, say); the word overlap that answers here
    is a guess of that.

    Args:
        samples: What would be scored.
        metrics: By what; readers they have are not asked.
        calls_per_reading: Requests for one p(abstain): 1 where the endpoint tells probabilities, else the draws.
    """
    reader = DryRunReader(calls_per_reading=calls_per_reading)
    bound = [metric.with_reader(reader) if isinstance(metric, ReaderMetric) else metric for metric in metrics]
    # A metric with a model of its own asks nobody, and loading it is what a rehearsal is to avoid.
    local = [metric for metric in bound if metric.card.extra is not None]
    scorer = Scorer([metric for metric in bound if metric.card.extra is None], DryRunJudge(), concurrency=1)
    forecasts = {metric.card.name: MetricEstimate(metric=metric.card.name) for metric in metrics}
    n = 0
    async for sample, outcomes in scorer.score_many(samples):
        n += 1
        for metric in local:
            forecast = forecasts[metric.card.name]
            if unmet := check_sample(metric, sample):
                forecast.n_not_applicable += 1
                forecast.reasons[unmet.reason] += 1
            else:
                forecast.n_applicable += 1
        for outcome in outcomes:
            forecast = forecasts[outcome.metric]
            if isinstance(outcome, NotApplicable):
                forecast.n_not_applicable += 1
                forecast.reasons[outcome.reason] += 1
                continue
            forecast.n_applicable += 1
            if outcome.usage is not None:
                forecast.usage += outcome.usage
    return RunEstimate(n_samples=n, metrics=tuple(forecasts.values()), usage=scorer.usage)
