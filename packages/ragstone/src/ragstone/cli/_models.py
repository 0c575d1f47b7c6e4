"""Options of every command that calls models: models, their settings and limits.

A command takes `models: ModelOptions` (`JudgeOptions` if it does not use a reader, `ScoringModelOptions` if it
scores with any metric, `EndpointsOptions` if it only probes) and
is decorated with `@takes_models`.
Typer then offers all of these options, and the command receives them as one object.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self, TypedDict, get_type_hints

import typer

from ragstone.cli._connection import (
    AffinityHeaderOption,
    InFlightOption,
    MaxCallsOption,
    MaxTokensOption,
    MaxUsdOption,
    PricesOption,
    RequestsOption,
    TokensOption,
    build_connection,
)
from ragstone.cli._endpoints import (
    EmbedderKeyOption,
    EmbedderModelOption,
    EmbedderOption,
    JudgeKeyOption,
    JudgeModelOption,
    JudgeOption,
    ReaderKeyOption,
    ReaderModelOption,
    ReaderOption,
    Tables,
    complete_table,
    merge_endpoint,
)
from ragstone.cli._logs import announce
from ragstone.cli._options import parse_names
from ragstone.cli._panels import LIMITS
from ragstone.cli._reader import AbstentionOption, DrawsOption, EstimatorOption, ReaderPromptOption
from ragstone.cli._score import NumberTokensOption, ScoreDrawsOption, ScoreModeOption
from ragstone.judges import (
    ROLES,
    ConnectionOptions,
    Embedder,
    EmbedderSpec,
    EndpointOptions,
    Judge,
    JudgeSpec,
    Reader,
    ReaderSpec,
)
from ragstone.worker import StorePlan

CacheOption = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        rich_help_panel=LIMITS,
        help="Directory of the reply cache. Default: $RAGSTONE_CACHE, otherwise no cache.",
    ),
]


class ModelSpecs(TypedDict):
    """Arguments of functions that score."""

    judge: JudgeSpec
    reader: ReaderSpec
    embedder: EmbedderSpec


@dataclass(frozen=True, kw_only=True)
class EndpointsOptions:
    """Options that name the endpoints of judge, reader and embedder. Each field except `tables` is an option."""

    judge: JudgeOption = None
    judge_model: JudgeModelOption = None
    judge_api_key_env: JudgeKeyOption = None
    reader: ReaderOption = None
    reader_model: ReaderModelOption = None
    reader_api_key_env: ReaderKeyOption = None
    embedder: EmbedderOption = None
    embedder_model: EmbedderModelOption = None
    embedder_api_key_env: EmbedderKeyOption = None
    tables: Tables = field(default_factory=dict)

    def models(self) -> tuple[Judge, Reader | None, Embedder | None]:
        """Build the judge, the reader and the embedder.

        Raises:
            ConfigurationError: If a value is invalid.
        """
        of_judge = merge_endpoint(
            "judge", self.tables, url=self.judge, model=self.judge_model, api_key_env=self.judge_api_key_env
        )
        of_reader = merge_endpoint(
            "reader", self.tables, url=self.reader, model=self.reader_model, api_key_env=self.reader_api_key_env
        )
        of_embedder = merge_endpoint(
            "embedder",
            self.tables,
            url=self.embedder,
            model=self.embedder_model,
            api_key_env=self.embedder_api_key_env,
        )
        judge = of_judge.build_judge()
        return judge, of_reader.build_reader(judge, of_judge), of_embedder.build_embedder()


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """Options of the judge and limits. Each field except `tables` is an option."""

    judge: JudgeOption = None
    judge_model: JudgeModelOption = None
    judge_api_key_env: JudgeKeyOption = None
    judge_max_tokens: NumberTokensOption = None
    cache: CacheOption = None
    max_concurrent_requests: InFlightOption = None
    requests_per_minute: RequestsOption = None
    tokens_per_minute: TokensOption = None
    budget_calls: MaxCallsOption = None
    budget_tokens: MaxTokensOption = None
    budget_usd: MaxUsdOption = None
    prices: PricesOption = None
    affinity_header: AffinityHeaderOption = None
    tables: Tables = field(default_factory=dict)

    @cached_property
    def of_judge(self) -> EndpointOptions:
        """Options of the judge."""
        return self._options_at(self.judge, self.judge_model, self.judge_api_key_env)

    def _options_at(self, url: str | None, model: str | None, api_key_env: str | None) -> EndpointOptions:
        return merge_endpoint(
            "judge",
            self.tables,
            url=url,
            model=model,
            api_key_env=api_key_env,
            limits=self._limits,
            max_tokens=self.judge_max_tokens,
            **self._judge_options(),
        )

    def _judge_options(self) -> dict[str, Any]:
        return {}

    def build_judge(self) -> Judge:
        """Build the judge.

        With `--cache`, all models of this process use this cache.

        Raises:
            ConfigurationError: If a value is invalid.
        """
        self._use_cache()
        return self.of_judge.build_judge()

    def build_judges(
        self, urls: Sequence[str | None], models: Sequence[str | None], api_key_envs: Sequence[str | None]
    ) -> list[Judge]:
        """Build several judges, which share limits and budget.

        Raises:
            ConfigurationError: If a value is invalid.
        """
        self._use_cache()
        return [
            self._options_at(url, model, key).build_judge()
            for url, model, key in zip(urls, models, api_key_envs, strict=True)
        ]

    def _use_cache(self) -> None:
        """Set the cache of all models of this process."""
        if self.cache is not None:
            os.environ["RAGSTONE_CACHE"] = str(self.cache)

    def build_second_judge(self, url: str, model: str | None) -> Judge:
        """Build another judge with the same limits, which shares the budget.

        Raises:
            ConfigurationError: If a value is invalid.
        """
        options = merge_endpoint(
            "judge", {}, url=url, model=model, api_key_env=None, limits=self._limits, max_tokens=self.judge_max_tokens
        )
        return options.build_judge()

    def judge_or_none(self) -> Judge | None:
        """Build the judge that an option, a table or `RAGSTONE_JUDGE` names, or return None."""
        return self.build_judge() if self.of_judge.url or os.environ.get("RAGSTONE_JUDGE") else None

    @property
    def prices_of_all(self) -> tuple[float, float] | None:
        """Prices of input and output tokens in USD per million, if all models have the same."""
        return self.of_judge.connection.get("usd_per_million_tokens")

    @property
    def concurrent_requests(self) -> int:
        """Maximum number of concurrent requests to the judge."""
        return self.of_judge.connection.get("max_concurrent_requests") or 16

    @cached_property
    def _limits(self) -> ConnectionOptions:
        """Limits of requests and cost. Judge and reader share one budget."""
        return build_connection(
            max_concurrent_requests=self.max_concurrent_requests,
            requests_per_minute=self.requests_per_minute,
            tokens_per_minute=self.tokens_per_minute,
            budget_calls=self.budget_calls,
            budget_tokens=self.budget_tokens,
            budget_usd=self.budget_usd,
            prices=self.prices,
            affinity_header=self.affinity_header,
        )


@dataclass(frozen=True, kw_only=True)
class RatingOptions(JudgeOptions):
    """Options of the judge and of its ratings."""

    judge_score_mode: ScoreModeOption = None
    judge_draws: ScoreDrawsOption = None

    def _judge_options(self) -> dict[str, Any]:
        return {"score_mode": self.judge_score_mode, "draws": self.judge_draws}


@dataclass(frozen=True, kw_only=True)
class ModelOptions(RatingOptions):
    """Options of the judge, of its ratings and of the reader."""

    reader: ReaderOption = None
    reader_model: ReaderModelOption = None
    reader_api_key_env: ReaderKeyOption = None
    reader_prompt: ReaderPromptOption = None
    reader_abstention: AbstentionOption = None
    reader_estimator: EstimatorOption = None
    reader_max_draws: DrawsOption = None

    def models_or_none(self) -> tuple[Judge | None, Reader | None]:
        """Build the judge and the reader, without the baseline as default.

        Without a judge, the reader's model judges. Without either, the judge is None.
        """
        judge = self.judge_or_none()
        if judge is None and self.of_reader.url:
            # The reader's endpoint, with its model and key, and the judge's score mode.
            own = self.of_judge.own
            judge = replace(self.of_reader, own=own).build_judge()
        return judge, self.of_reader.build_reader(judge, self.of_judge)

    @cached_property
    def of_reader(self) -> EndpointOptions:
        """Options of the reader."""
        return merge_endpoint(
            "reader",
            self.tables,
            url=self.reader,
            model=self.reader_model,
            api_key_env=self.reader_api_key_env,
            limits=self._limits,
            prompt=self.reader_prompt,
            abstention=self.reader_abstention and tuple(self.reader_abstention),
            estimator=self.reader_estimator,
            max_draws=self.reader_max_draws,
        )

    @property
    def calls_per_reading(self) -> int:
        """Requests for one p(abstain), for estimates."""
        return int(self.of_reader.own.get("max_draws") or 1)

    @property
    def prices_of_all(self) -> tuple[float, float] | None:
        """Prices of input and output tokens in USD per million, if all models have the same."""
        prices = self.of_judge.connection.get("usd_per_million_tokens")
        has_own = self.of_reader.url or self.of_reader.connection.get("model") or os.environ.get("RAGSTONE_READER")
        return prices if not has_own or prices == self.of_reader.connection.get("usd_per_million_tokens") else None


@dataclass(frozen=True, kw_only=True)
class ScoringModelOptions(ModelOptions):
    """Options of the judge, of its ratings, of the reader and of the embedder."""

    embedder: EmbedderOption = None
    embedder_model: EmbedderModelOption = None
    embedder_api_key_env: EmbedderKeyOption = None

    def specs(self) -> ModelSpecs:
        """Return the models of a command that scores, as options that other processes open and a store records.

        Raises:
            ConfigurationError: If a value is invalid.
        """
        self._use_cache()
        has_reader = self.of_reader.build_reader(self.of_judge.build_judge(), self.of_judge) is not None
        has_embedder = self.of_embedder.build_embedder() is not None
        return {
            "judge": self.of_judge,
            "reader": self.of_reader if has_reader else None,
            "embedder": self.of_embedder if has_embedder else None,
        }

    def for_store(
        self, plan: StorePlan, metrics: str | None, criteria: Sequence[Path] | None
    ) -> tuple[list[str], Self]:
        """Return the metrics and models of a command that writes scores. The plan completes what options lack.

        Args:
            plan: The plan of the store.
            metrics: The value of `--metrics`.
            criteria: The values of `--criterion`.

        Raises:
            ConfigurationError: If a metric needs a model that neither an option, the environment nor the plan names.
        """
        names = None if metrics is None else parse_names(metrics)
        settings = plan.complete(self._named(), names, [f"criterion@{file}" for file in criteria or ()])
        if names is None and not plan.names_metrics:
            announce(
                f"no metrics are named, so {', '.join(settings['scoring.metrics'])} is scored. Name others with --metrics"
            )
        tables = dict(self.tables)
        for role in ROLES:
            values = {
                key.removeprefix(f"{role}."): value for key, value in settings.items() if key.startswith(f"{role}.")
            }
            if values:
                tables[role] = complete_table(role, self.tables, values)
        return settings["scoring.metrics"], replace(self, tables=tables)

    def _named(self) -> set[str]:
        """Return the roles of the models that an option, a table or the environment names."""
        options = {"judge": self.of_judge, "reader": self.of_reader, "embedder": self.of_embedder}
        return {role for role, each in options.items() if each.url or os.environ.get(f"RAGSTONE_{role.upper()}")}

    @cached_property
    def of_embedder(self) -> EndpointOptions:
        """Options of the embedder."""
        # `--usd-per-million-tokens` has the prices of chat models. Those of the embedder are in its table.
        limits = ConnectionOptions(**self._limits)
        limits.pop("usd_per_million_tokens", None)
        return merge_endpoint(
            "embedder",
            self.tables,
            url=self.embedder,
            model=self.embedder_model,
            api_key_env=self.embedder_api_key_env,
            limits=limits,
        )


def takes_models(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter `models` by the options of its type: endpoints, the judge's, or all.

    An option that the command declares itself (such as a repeatable `--judge`) replaces the option with the same name.
    """
    hints = get_type_hints(command, include_extras=True)
    kind: type[EndpointsOptions | JudgeOptions] = hints["models"]
    offered = get_type_hints(kind, include_extras=True)
    parameters: list[inspect.Parameter] = []
    own = inspect.signature(command).parameters
    for parameter in own.values():
        if parameter.name != "models":
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        parameters += [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=offered[f.name])
            for f in fields(kind)
            if f.name != "tables" and f.name not in own
        ]
    # Typer passes options and arguments by keyword.
    parameters.append(inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))
    by_keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    names = {f.name for f in fields(kind)} - own.keys()

    @functools.wraps(command)
    def wrapped(*, context: typer.Context, **values: Any) -> None:
        # `--config` has stored the tables there.
        tables: Tables = context.obj or {}
        options = kind(**{name: values.pop(name) for name in names if name in values}, tables=tables)
        command(**values, models=options)

    wrapped.__signature__ = inspect.Signature(by_keyword)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in by_keyword}
    return wrapped
