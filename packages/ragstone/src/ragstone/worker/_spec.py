"""`ScorerSpec`: what a scorer consists of, as data that another process can open."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypedDict, Unpack

from ragstone._util.abstains import OWN_REFUSALS, own_refusals
from ragstone.errors import ConfigurationError
from ragstone.judges import ROLES, Budget, EmbedderSpec, EndpointOptions, JudgeSpec, ReaderSpec, read_endpoint
from ragstone.metrics import OWN_PROMPTS, Metric, own_prompts, resolve_metrics
from ragstone.settings import Limits, read_table
from ragstone.sinks import Sink
from ragstone.worker._setup import ScoringSetup, describe_unnamed


@dataclass(frozen=True, slots=True)
class ScorerSpec:
    """Metrics, models and limits of a scorer, as data that can be pickled and opened in another process.

    A judge with connections cannot be sent to another process, but its name can. A spec holds names, tables and
    picklable objects, and `open` builds the scorer where it is needed: in a process of `limits.processes`, an actor of
    a cluster, a task of a scheduler. Variables of the environment that hold API keys (`OPENAI_API_KEY`, `api_key_env` of a table) are read there.

    Args:
        metrics: Names, groups, picklable `Metric` objects, or one of them alone.
        judge: A name ("http://host:port/v1", "openai:MODEL", "lexical"), a table with the keys of `[judge]` in a
            configuration file, or a picklable `Judge`. Default: `RAGSTONE_JUDGE`.
        reader: The same for the application's generator. Default: `RAGSTONE_READER`, otherwise the judge's model.
        embedder: The same for the embedding model. Default: `RAGSTONE_EMBEDDER`.
        concurrency: Number of samples scored concurrently.
        deadline_s: Seconds until a sample's open metrics fail as "timeout". Default: 120 after the last call.
        reasons: Number of the worst answers whose lowest judged score gets a reason from the judge.
        refusals: The application's own phrases of refusal.
        prompts: Your own prompts in place of built-in ones, as in the table `[prompts]`.
        budget: Limit on the calls, tokens or cost of all models together. Each process that opens the spec counts its own.

    Raises:
        ConfigurationError: If a value cannot be pickled, a table has an unknown key or an invalid value, or a metric
            needs a model that is not named.

    Examples:
        ```python
        spec = ScorerSpec("ccrs", judge={"url": "http://localhost:8000/v1", "max_concurrent_requests": 32})
        async with spec.open() as scoring:  # also in another process
            outcomes = await scoring.score(sample)
        ```
    """

    metrics: str | Metric | Sequence[str | Metric] = ("ccrs",)
    judge: JudgeSpec = field(default=None, kw_only=True, repr=False)
    reader: ReaderSpec = field(default=None, kw_only=True, repr=False)
    embedder: EmbedderSpec = field(default=None, kw_only=True, repr=False)
    concurrency: int = field(default=16, kw_only=True)
    deadline_s: float | None = field(default=None, kw_only=True)
    reasons: int = field(default=0, kw_only=True)
    budget: Budget | None = field(default=None, kw_only=True)
    refusals: tuple[str, ...] = field(default_factory=OWN_REFUSALS.get, kw_only=True)
    prompts: Mapping[str, str] = field(default_factory=OWN_PROMPTS.get, kw_only=True)

    def __post_init__(self) -> None:
        for role in ROLES:
            if getattr(self, role) is None:
                # Another process may have another environment. Without a name, the judge's model is the reader.
                object.__setattr__(self, role, os.environ.get(f"RAGSTONE_{role.upper()}") or None)
            self._endpoint(role)
        for name, value in self._values():
            check_picklable(name, value, "another process", remedy=_remedy(name))
        specs = {role: self._endpoint(role) for role in ROLES}
        without = {
            role for role, spec in specs.items() if spec is None or (isinstance(spec, EndpointOptions) and not spec.url)
        }
        if (missing := describe_unnamed(resolve_metrics(self.metrics), specs.keys() - without)) is not None:
            raise ConfigurationError(missing)

    def open(
        self, *, sinks: Sequence[str | Sink] = (), processes: int = 1, budget: Budget | None = None
    ) -> ScoringSetup:
        """Build the scorer in this process.

        Args:
            sinks: The forms of `sink_from`.
            processes: Number of processes that score. With 1, this process does. Otherwise it only distributes samples,
                and starts as many others, which share the limits and the budget.
            budget: Replaces the budget of the spec.

        Returns:
            A setup, which is an async context manager: `score(sample)` returns the outcomes of one sample, and `scorer`
            is its `Scorer`.

        Raises:
            ConfigurationError: If a metric or a model does not exist, a variable of the environment is not set, or
                `processes` is not at least 1, or more than the requests that may be in flight.
            MissingExtraError: If a model needs a package that is not installed.
        """
        stated = {"concurrency": self.concurrency, "deadline_s": self.deadline_s, "processes": processes}
        limits = read_table(Limits, stated, source="ScorerSpec")
        budget = self.find_budget() if budget is None else budget
        pool = None
        if processes != 1:
            from ragstone.worker._scoring_processes import ScoringProcesses

            pool = ScoringProcesses(self.split(processes), budget=budget)
        with own_refusals(self.refusals), own_prompts(self.prompts):
            return ScoringSetup(
                self.metrics,
                judge=self._endpoint("judge", budget),
                reader=self._endpoint("reader", budget),
                embedder=self._endpoint("embedder", budget),
                sinks=sinks,
                limits=limits,
                reasons=self.reasons,
                closes_models=True,
                processes=pool,
            )

    def find_budget(self) -> Budget | None:
        """Return the budget of the spec, or of the options of a model, or None."""
        options = [spec for role in ROLES if isinstance(spec := getattr(self, role), EndpointOptions)]
        of_models = (spec.connection.get("budget") for spec in options)
        return self.budget or next((budget for budget in of_models if budget is not None), None)

    def split(self, n: int) -> tuple[Self, ...]:
        """Divide the limits among several processes: requests in flight, rates, and samples scored concurrently.

        The budget is not divided.

        Args:
            n: Number of processes.

        Raises:
            ConfigurationError: If fewer requests may be in flight than there are processes.
        """
        specs = [self._endpoint(role) for role in ROLES]
        parts = [spec.split(n) if isinstance(spec, EndpointOptions) else (spec,) * n for spec in specs]
        shared = replace(self, concurrency=max(1, self.concurrency // n))
        return tuple(replace(shared, **dict(zip(ROLES, part, strict=True))) for part in zip(*parts, strict=True))

    def _endpoint(self, role: Any, budget: Budget | None = None) -> Any:
        """Return a model as options, or the object that the user passed. None if the judge's model is the reader."""
        spec = getattr(self, role)
        if not isinstance(spec, str | Mapping | EndpointOptions):
            return spec
        endpoint = read_endpoint(role, spec, source=f"ScorerSpec({role}=...)")
        return endpoint if budget is None else replace(endpoint, connection={**endpoint.connection, "budget": budget})

    def _values(self) -> list[tuple[str, object]]:
        named = not isinstance(self.metrics, str | Metric) and isinstance(self.metrics, Sequence)
        metrics: Sequence[object] = self.metrics if named else (self.metrics,)  # type: ignore[assignment]
        return [*(("metrics", metric) for metric in metrics), *((role, getattr(self, role)) for role in ROLES)]


class ScorerArguments(TypedDict, total=False):
    """The arguments that `ScorerSpec` and `ScoringSetup` have in common, but for metrics and limits."""

    judge: JudgeSpec
    reader: ReaderSpec
    embedder: EmbedderSpec
    reasons: int


def open_setup(
    metrics: str | Metric | Sequence[str | Metric],
    *,
    sinks: Sequence[str | Sink] = (),
    closes_models: bool = False,
    limits: Limits | None = None,
    **scorer: Unpack[ScorerArguments],
) -> ScoringSetup:
    """Build a `ScoringSetup` that scores in this process or, with more than 1, in other processes.

    With other processes, objects have to be picklable, as in a `ScorerSpec`. `limits` say how many processes score, how
    many samples they score concurrently, and the deadline of each sample.
    """
    limits = limits or Limits()
    if limits.processes == 1:
        return ScoringSetup(metrics, sinks=sinks, limits=limits, closes_models=closes_models, **scorer)
    spec = ScorerSpec(metrics, concurrency=limits.concurrency, deadline_s=limits.deadline_s, **scorer)
    return spec.open(sinks=sinks, processes=limits.processes)


def check_picklable(name: str, value: object, place: str, *, remedy: str) -> None:
    """Raise ConfigurationError if a value cannot be sent to a place, which is another process."""
    try:
        pickle.dumps(value)
    except Exception as error:
        raise ConfigurationError(
            f"{name}: {value!r} cannot be sent to {place} ({type(error).__name__}: {error}). {remedy}"
        ) from error


def _remedy(name: str) -> str:
    if name == "metrics":
        return (
            "Define the class at the top level of a module that the other process can import, and create connections, "
            "locks and files when they are first used"
        )
    return (
        f"Name the model, such as {name}='http://host:8000/v1', or describe it in a table: {name}={{'url': "
        "'http://host:8000/v1', 'model': 'MODEL', 'api_key_env': 'VARIABLE'}"
    )
