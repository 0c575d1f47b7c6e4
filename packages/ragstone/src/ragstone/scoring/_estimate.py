"""Estimate of a run: which metrics apply, and how many calls and tokens they need, without any request to a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterable, Iterable, Sequence
from dataclasses import dataclass, field

from ragstone.judges import DryRunEmbedder, DryRunJudge, DryRunReader
from ragstone.metrics import EmbedderMetric, Metric, ReaderMetric, check_sample
from ragstone.schema import NotApplicable, Sample, Usage
from ragstone.scoring._scorer import Scorer


@dataclass(slots=True, kw_only=True)
class MetricEstimate:
    """Estimate for one metric."""

    metric: str
    n_applicable: int = 0
    """Number of samples that the metric applies to."""
    n_not_applicable: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Reasons why the metric does not apply, with the number of samples."""
    usage: Usage = field(default_factory=Usage)
    """Calls and tokens if this metric were scored alone. Calls that several metrics share count in each of them."""

    def count(self, unmet: NotApplicable | None) -> None:
        """Count a sample, with the outcome that says why the metric does not apply, if it does not."""
        if unmet is None:
            self.n_applicable += 1
        else:
            self.n_not_applicable += 1
            self.reasons[unmet.reason] += 1


@dataclass(slots=True, kw_only=True)
class RunEstimate:
    """Estimate for a run."""

    n_samples: int
    metrics: tuple[MetricEstimate, ...]
    usage: Usage
    """Calls and tokens of all metrics together. Shared calls count once. Tokens are estimated from characters."""


async def estimate_run(
    samples: AsyncIterable[Sample] | Iterable[Sample], metrics: Sequence[Metric], *, calls_per_reading: int = 1
) -> RunEstimate:
    """Estimate a run: to how many samples each metric applies, and how many calls it needs. No model is called.

    For some metrics the number of calls depends on the judge's replies (for example on the number of claims). Here a
    judge based on word overlap replies, so these numbers are estimates. One p(abstain) takes `calls_per_reading`
    requests: 1 if the endpoint returns probabilities, else the number of draws.
    """
    reader = DryRunReader(calls_per_reading=calls_per_reading)
    embedder = DryRunEmbedder()
    bound = [metric.with_reader(reader) if isinstance(metric, ReaderMetric) else metric for metric in metrics]
    bound = [metric.with_embedder(embedder) if isinstance(metric, EmbedderMetric) else metric for metric in bound]
    # A metric with its own model does not call the judge, and an estimate must not load that model.
    local = [metric for metric in bound if metric.card.extra is not None]
    scorer = Scorer([metric for metric in bound if metric.card.extra is None], DryRunJudge(), concurrency=1)
    forecasts = {metric.card.name: MetricEstimate(metric=metric.card.name) for metric in metrics}
    n = 0
    async for sample, outcomes in scorer.score_many(samples):
        n += 1
        for metric in local:
            forecasts[metric.card.name].count(check_sample(metric, sample))
        for outcome in outcomes:
            forecast = forecasts[outcome.metric]
            forecast.count(outcome if isinstance(outcome, NotApplicable) else None)
            if not isinstance(outcome, NotApplicable) and outcome.usage is not None:
                forecast.usage += outcome.usage
    return RunEstimate(n_samples=n, metrics=tuple(forecasts.values()), usage=scorer.usage)
