"""`ScoringSetup`: metrics, models, sinks and limits, built from user arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from ragstone.errors import ConfigurationError
from ragstone.judges import (
    Embedder,
    EmbedderSpec,
    EndpointOptions,
    Judge,
    JudgeSpec,
    Reader,
    ReaderSpec,
    embedder_from,
    judge_from,
    read_endpoint,
    reader_from,
)
from ragstone.metrics import Metric, bind_embedder, bind_reader, resolve_metrics
from ragstone.schema import Failure, NotApplicable, Sample, Score
from ragstone.scoring import Scorer, WorstAnswers, explain_lowest
from ragstone.sinks import Sink, sink_from
from ragstone.store import PlannedMetric
from ragstone.worker._processes import ProcessScorer, ScoringProcesses

__all__ = ["ScoringSetup"]


class ScoringSetup:
    """Metrics, models, sinks and limits, built from user arguments.

    Everything that scores (`Monitor`, `evaluate`, `replay_traces`, the commands, the integrations' evaluators) starts with a
    setup. As an async context manager it closes all sinks, and the models that it created.

    Args:
        metrics: Names, groups, `Metric` objects, or one of them alone.
        judge: The forms of `judge_from`, or a table with the keys of `[judge]` in a configuration file.
        reader: The forms of `reader_from`, or a table. A reader is made only if a metric needs one.
        embedder: The forms of `embedder_from`, or a table. An embedder is made only if a metric needs one.
        sinks: The forms of `sink_from`.
        concurrency: Number of samples scored concurrently.
        deadline_s: Seconds after which a sample's unfinished metrics fail with kind "timeout".
        reasons: Number of the worst answers whose lowest judged score gets a reason from the judge.
        closes_models: Also close models that were passed as objects.
        processes: Processes that score the samples. `ScorerSpec.open` makes them. None scores in this process.

    Raises:
        ConfigurationError: If a metric, model or sink does not exist, a limit is out of range, or reasons are
            requested from the lexical baseline.
        MissingExtraError: If one of them needs a package that is not installed.

    Examples:
        ```python
        async with ScoringSetup("ccrs", judge="http://localhost:8000/v1") as setup:
            outcomes = await setup.scorer.score(sample)
        ```
    """

    def __init__(
        self,
        metrics: str | Metric | Sequence[str | Metric],
        *,
        judge: JudgeSpec = None,
        reader: ReaderSpec = None,
        embedder: EmbedderSpec = None,
        sinks: Sequence[str | Sink] = (),
        concurrency: int = 16,
        deadline_s: float = 120.0,
        reasons: int = 0,
        closes_models: bool = False,
        processes: ScoringProcesses | None = None,
    ) -> None:
        self._arguments = (metrics, judge, reader, embedder, tuple(sinks))
        resolved = resolve_metrics(metrics)
        self.sinks = tuple(sink_from(sink) for sink in sinks)
        self.judge = _build_judge(judge)
        bound, self.reader = bind_reader(resolved, lambda: _build_reader(reader, self.judge, judge))
        self.metrics, self.embedder = bind_embedder(bound, lambda: _build_embedder(embedder))
        self.processes = processes
        """Processes that score the samples, or None if this process does."""
        self.concurrency = concurrency
        self.deadline_s = deadline_s
        self.reasons = self._check_reasons(reasons)
        self._worst = WorstAnswers(reasons)
        self.scorer = self.scorer_of(self.metrics)
        """Scorer for all metrics."""
        self._to_close: list[Judge | Reader | Embedder] = []
        if closes_models or not isinstance(judge, Judge):
            self._to_close.append(self.judge)
        if self.reader is not None and (closes_models or not isinstance(reader, Reader)):
            self._to_close.append(self.reader)
        if self.embedder is not None and (closes_models or not isinstance(embedder, Embedder)):
            self._to_close.append(self.embedder)

    def scorer_of(self, metrics: Sequence[Metric]) -> Scorer:
        """Create a scorer for some of the metrics, with the same judge and limits."""
        if self.processes is None:
            return Scorer(metrics, self.judge, concurrency=self.concurrency, deadline_s=self.deadline_s)
        return ProcessScorer(
            metrics,
            self.judge,
            processes=self.processes,
            concurrency=self.concurrency,
            deadline_s=self.deadline_s,
        )

    def planned_metrics(self) -> list[PlannedMetric]:
        """Return the metrics with the identity of their judge, which is final after the scorer's `prepare`."""
        planned: list[PlannedMetric] = []
        for metric in self.metrics:
            identity = self.scorer.judged_by(metric)
            judge_hash = "" if identity is None else identity.hash
            planned.append(PlannedMetric(name=metric.card.name, version=metric.card.version, judge_hash=judge_hash))
        return planned

    async def explain(
        self, scorer: Scorer, sample: Sample, outcomes: Sequence[Score | NotApplicable | Failure]
    ) -> tuple[Score | NotApplicable | Failure, ...]:
        """Return the outcomes of one sample, with a reason if the sample is among the worst `reasons` of a day so far.

        Args:
            scorer: The scorer that made the outcomes, from `scorer_of`.
            sample: The sample.
            outcomes: Its outcomes.
        """
        return await explain_lowest(scorer, sample, outcomes, self._worst)

    async def score(self, sample: Sample) -> tuple[Score | NotApplicable | Failure, ...]:
        """Score one sample with all metrics, with a reason if it is among the worst `reasons` of a day so far."""
        return await self.explain(self.scorer, sample, await self.scorer.score(sample))

    def _check_reasons(self, reasons: object) -> int:
        if not isinstance(reasons, int) or isinstance(reasons, bool) or reasons < 0:
            raise ConfigurationError(f"reasons must be a number of answers, 0 or more, got {reasons!r}")
        if reasons and self.judge.identity.is_baseline:
            raise ConfigurationError(
                f"reasons={reasons} needs a model as judge, and the judge is the lexical baseline, which does not generate "
                "text. Set judge (--judge), or omit reasons"
            )
        return reasons

    def command_options(self) -> list[str]:
        """Return options of `ragstone worker` for the same setup.

        Objects, and URLs that may contain credentials, are replaced by placeholders: `--judge JUDGE`, `--sink otlp:...`.
        """
        metrics, judge, reader, embedder, sinks = self._arguments
        specs = [metrics] if isinstance(metrics, str | Metric) else metrics
        names = [spec if isinstance(spec, str) else spec.card.name for spec in specs]
        return [
            f"--metrics={','.join(names)}",
            *_model_option("judge", judge),
            *(_model_option("reader", reader) if self.reader is not None else ()),
            *(_model_option("embedder", embedder) if self.embedder is not None else ()),
            *(f"--sink={_sink_option(sink)}" for sink in sinks),
            *((f"--reasons={self.reasons}",) if self.reasons else ()),
        ]

    async def aclose(self) -> None:
        """Close all sinks, processes and models, even if closing one fails. Can be called twice."""
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self.aclose_models)
            if self.processes is not None:
                closing.push_async_callback(self.processes.aclose)
            for sink in self.sinks:
                closing.push_async_callback(sink.aclose)

    async def aclose_models(self) -> None:
        """Close the models' connections of the running event loop. The next call opens new ones."""
        async with AsyncExitStack() as closing:
            for model in self._to_close:
                closing.push_async_callback(model.aclose)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


def _build_judge(spec: JudgeSpec) -> Judge:
    if isinstance(spec, Mapping | EndpointOptions):
        return read_endpoint("judge", spec, source="judge=...").build_judge()
    return judge_from(spec)


def _build_reader(
    spec: ReaderSpec,
    judge: Judge,
    of_judge: JudgeSpec,
) -> Reader:
    if not isinstance(spec, Mapping | EndpointOptions):
        return reader_from(spec, judge=judge)
    named = of_judge if isinstance(of_judge, str | Mapping | EndpointOptions) else None
    endpoint = read_endpoint("judge", named, source="judge=...")
    reader = read_endpoint("reader", spec, source="reader=...").build_reader(judge, endpoint)
    return reader_from(None, judge=judge) if reader is None else reader


def _build_embedder(spec: EmbedderSpec) -> Embedder:
    if not isinstance(spec, Mapping | EndpointOptions):
        return embedder_from(spec)
    embedder = read_endpoint("embedder", spec, source="embedder=...").build_embedder()
    return embedder_from(None) if embedder is None else embedder


def _model_option(role: str, spec: object) -> Iterator[str]:
    if spec is not None:
        yield f"--{role}={role.upper() if not isinstance(spec, str) or '@' in spec else spec}"


def _sink_option(spec: str | Sink) -> str:
    if not isinstance(spec, str):
        return "SINK"
    kind, separator, argument = spec.partition(":")
    return f"{kind}:..." if separator and "//" in argument else spec
