"""`ScoringSetup`: metrics, models, sinks and limits, built from user arguments."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

from ragstone._util.abstains import OWN_REFUSALS, own_refusals
from ragstone.errors import ConfigurationError, RagstoneError
from ragstone.judges import (
    ROLES,
    Embedder,
    EmbedderSpec,
    EndpointOptions,
    Judge,
    JudgeSpec,
    MissingModel,
    Reader,
    ReaderSpec,
    Role,
    describe_missing,
    embedder_from,
    judge_from,
    read_endpoint,
    reader_from,
)
from ragstone.metrics import (
    OWN_PROMPTS,
    EmbedderMetric,
    Metric,
    ReaderMetric,
    bind,
    own_prompts,
    resolve_metrics,
    with_absolute_paths,
)
from ragstone.schema import Failure, NotApplicable, Sample, Score
from ragstone.scoring import Scorer, WorstAnswers, explain_lowest
from ragstone.settings import Limits, read_table
from ragstone.sinks import Sink, check_names, sink_from

if TYPE_CHECKING:
    from ragstone.store import PlannedMetric
    from ragstone.worker._scoring_processes import ScoringProcesses


class ScoringSetup:
    """Metrics, models, sinks and limits, built from user arguments.

    Everything that scores (`Monitor`, `evaluate`, `replay_traces`, the commands, the integrations' evaluators) starts
    with a setup. As an async context manager it closes all sinks, and the models that it created.

    Args:
        metrics: Names, groups, `Metric` objects, or one of them alone.
        judge: The forms of `judge_from`, or a table with the keys of `[judge]` in a configuration file.
        reader: The forms of `reader_from`, or a table. A reader is made only if a metric needs one.
        embedder: The forms of `embedder_from`, or a table. An embedder is made only if a metric needs one.
        sinks: The forms of `sink_from`.
        limits: Keys of the table `[limits]`: `{"concurrency": 16, "deadline_s": 60.0}`.
        reasons: Number of the worst answers whose lowest judged score gets a reason from the judge.
        closes_models: Also close models that were passed as objects.
        processes: Processes that score the samples. `ScorerSpec.open` makes them. None scores in this process.
        may_lack_models: Accept metrics that need a model that is not named. `missing` says which, and they must not be scored.

    Raises:
        ConfigurationError: If a metric, model or sink does not exist, two sinks have one name, a metric needs a model
            that is not named, a limit is out of range, or reasons are requested from the lexical baseline.
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
        limits: Limits | Mapping[str, Any] | None = None,
        reasons: int = 0,
        closes_models: bool = False,
        processes: ScoringProcesses | None = None,
        may_lack_models: bool = False,
    ) -> None:
        models: dict[Role, Any] = {"judge": judge, "reader": reader, "embedder": embedder}
        resolved = resolve_metrics(metrics)
        self._arguments = metrics, models, resolved, sinks
        self.sinks = tuple(sink_from(sink) for sink in sinks)
        check_names([sink.name for sink in self.sinks])
        self.judge = judge_from(judge)
        bound, self.reader = bind("reader", resolved, lambda: reader_from(reader, judge=self.judge, of_judge=judge))
        self.metrics, self.embedder = bind("embedder", bound, lambda: embedder_from(embedder))
        made = {"judge": self.judge, "reader": self.reader, "embedder": self.embedder}
        named = {role for role, model in made.items() if not isinstance(model, MissingModel | None)}
        self.missing = describe_unnamed(resolved, named)
        """Which metrics cannot be computed because no model is named, or None."""
        self.processes = processes
        """Processes that score the samples, or None if this process does."""
        self.limits = limits if isinstance(limits, Limits) else read_table(Limits, limits, source="ScoringSetup")
        self.reasons = self._check_reasons(reasons)
        if self.missing is not None and not may_lack_models:
            raise ConfigurationError(self.missing)
        self._worst = WorstAnswers(reasons)
        self.refusals = OWN_REFUSALS.get()
        """The user's own phrases of refusal, when the setup was created."""
        self.prompts = OWN_PROMPTS.get()
        """The user's own prompts, when the setup was created."""
        self.scorer = self.scorer_of(self.metrics)
        """Scorer for all metrics."""
        kinds: tuple[Any, ...] = (Judge, Reader, Embedder)
        self._to_close: list[Any] = [
            model
            for model, spec, kind in zip(made.values(), models.values(), kinds, strict=True)
            if model is not None and (closes_models or not isinstance(spec, kind))
        ]

    @property
    def scorable(self) -> Sequence[Metric]:
        """The metrics that can be scored: all, or if a model is not named, those that need no model."""
        return [m for m in self.metrics if self.missing is None or not any(find_needs([m], has_reader=False).values())]

    def scorer_of(self, metrics: Sequence[Metric]) -> Scorer:
        """Create a scorer for some of the metrics, with the same judge and limits."""
        create: Callable[..., Scorer] = Scorer
        if self.processes is not None:
            from ragstone.worker._scoring_processes import ProcessScorer

            create = partial(ProcessScorer, processes=self.processes)
        with own_refusals(self.refusals):
            return create(metrics, self.judge, concurrency=self.limits.concurrency, deadline_s=self.limits.deadline_s)

    def planned_metrics(self) -> list[PlannedMetric]:
        """Return the metrics with the identity of their judge, which is final after the scorer's `prepare`."""
        from ragstone.store import PlannedMetric

        judged = [(metric.card, self.scorer.judged_by(metric)) for metric in self.metrics]
        return [PlannedMetric(card.name, card.version, identity.hash if identity else "") for card, identity in judged]

    async def explain(
        self, scorer: Scorer, sample: Sample, outcomes: Sequence[Score | NotApplicable | Failure]
    ) -> tuple[Score | NotApplicable | Failure, ...]:
        """Return the outcomes of one sample, with a reason if the sample is among the worst `reasons` of a day so far.

        Args:
            scorer: The scorer that made the outcomes, from `scorer_of`.
            sample: The sample.
            outcomes: Its outcomes.
        """
        return await explain_lowest(scorer, sample, outcomes, self._worst) if self.reasons else tuple(outcomes)

    async def score(self, sample: Sample) -> tuple[Score | NotApplicable | Failure, ...]:
        """Score one sample with all metrics, with a reason if it is among the worst `reasons` of a day so far."""
        return await self.explain(self.scorer, sample, await self.scorer.score(sample))

    def _check_reasons(self, reasons: object) -> int:
        if not isinstance(reasons, int) or isinstance(reasons, bool) or reasons < 0:
            raise ConfigurationError(f"reasons must be a number of answers, 0 or more, got {reasons!r}")
        if reasons and self.judge.identity.is_baseline:
            raise ConfigurationError(
                f"reasons={reasons} needs a model as judge, and the judge is the lexical baseline, which does not "
                "generate text. Set judge (--judge), or omit reasons"
            )
        if reasons and isinstance(self.judge, MissingModel):
            self.missing = describe_missing("judge", [f"reasons={reasons}"])
        return reasons

    @cached_property
    def plan(self) -> dict[str, Any]:
        """What decides the scores, as the plan of a store: `{"scoring.metrics": ["ccrs"], "judge.url": "http://host/v1"}`.

        A text that begins with `object:` or `secret:` stands for a value that another process cannot make from the
        plan. The URL of a model that the metrics need and that is not named is None.
        """
        specs, models, metrics, _ = self._arguments
        with own_prompts(self.prompts):
            names = [_name(spec) for spec in ([specs] if isinstance(specs, str | Metric) else specs)]
        settings: dict[str, Any] = {"scoring.metrics": names}
        if self.refusals:
            settings["answers.refusals"] = list(self.refusals)
        if self.prompts:
            settings["prompts.texts"] = dict(self.prompts)
        described = {role: self._describe_model(role, models[role]) for role in ROLES}
        named = {role for role in ROLES if f"{role}.url" in described[role]}
        for role, needed in find_needs(metrics, "reader" in named).items():
            settings |= described[role] if needed else {}
        return settings | {f"{role}.url": None for role in find_unnamed(metrics, named)}

    @cached_property
    def delivery(self) -> dict[str, Any]:
        """Options of a worker that do not change scores: sinks without secrets, and the number of reasons."""
        options: dict[str, Any] = {"sink": [*map(_sink_option, self._arguments[-1], self.sinks)]}
        return {key: value for key, value in (options | {"reasons": self.reasons}).items() if value}

    def _describe_model(self, role: Role, spec: Any) -> dict[str, Any]:
        if spec is None or isinstance(spec, str | Mapping | EndpointOptions):
            return read_endpoint(role, spec, source=f"{role}=...").plan_settings()
        identity = spec.identity
        return {f"{role}.url": f"object:{identity.name} {identity.hash[:12]}"}

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

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _sink_option(spec: str | Sink, sink: Sink) -> str:
    """Return a sink without secrets, for a process with another working directory."""
    if not isinstance(spec, str):
        return "SINK"
    kind, separator, argument = spec.partition(":")
    if sink.name.startswith("jsonl:"):  # and the absolute path
        return f"{kind}{sink.name.removeprefix('jsonl')}"
    return f"{kind}:URL" if separator and "//" in argument else spec


def find_unnamed(metrics: Sequence[Metric], named: Collection[str]) -> list[Role]:
    """Return the models that metrics need and `named` lacks. Without a named reader, the judge's model reads."""
    needs = find_needs(metrics, "reader" in named)
    return [role for role in ("judge", "embedder") if needs[role] and role not in named]


def describe_unnamed(metrics: Sequence[Metric], named: Collection[str]) -> str | None:
    """Return the sentence for metrics that need a model without a name, or None. The arguments are those of `find_unnamed`."""
    for role in find_unnamed(metrics, named):
        needing = [m.card.name for m in metrics if find_needs([m], "reader" in named)[role]]
        asks = role != "judge" or any(metric.card.asks_judge for metric in metrics)
        return describe_missing(role if asks else "reader", needing)
    return None


def find_needs(metrics: Sequence[Metric], has_reader: bool) -> dict[Role, bool]:  # noqa: FBT001
    """Return whether metrics need each model."""
    reads = any(isinstance(metric, ReaderMetric) and metric.reader is None for metric in metrics)
    return {
        "judge": any(metric.card.asks_judge for metric in metrics) or (reads and not has_reader),
        "reader": reads,
        "embedder": any(isinstance(metric, EmbedderMetric) and metric.embedder is None for metric in metrics),
    }


def _name(spec: str | Metric) -> str:
    """Return the name of a metric in a plan. One that is not made from its name is an object."""
    if isinstance(spec, str):
        return with_absolute_paths(spec)
    bound = getattr(spec, "reader", None) or getattr(spec, "embedder", None)
    with suppress(RagstoneError, ValueError):
        (found,) = resolve_metrics(spec.card.name)
        if bound is None and found.card == spec.card:
            return spec.card.name
    return f"object:{spec.card.name} {spec.card.version}"
