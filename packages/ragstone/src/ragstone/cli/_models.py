"""The models of a command, built from its settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypedDict, cast

import typer

from ragstone.cli._logs import announce
from ragstone.cli._settings import ENDPOINTS, settings_of
from ragstone.judges import (
    Budget,
    ConnectionOptions,
    Embedder,
    EmbedderSpec,
    EndpointOptions,
    Judge,
    JudgeSpec,
    OptionNames,
    Reader,
    ReaderSpec,
    Role,
)
from ragstone.settings import Cache, Configuration
from ragstone.worker import StorePlan

_SHARED: Final = ("max_concurrent_requests", "requests_per_minute", "tokens_per_minute", "usd_per_million_tokens")
"""Limits and prices of the judge that apply to another model at its endpoint, and to another judge."""


class ModelSpecs(TypedDict):
    """Arguments of functions that score."""

    judge: JudgeSpec
    reader: ReaderSpec
    embedder: EmbedderSpec


class Models:
    """The models that the settings of a command describe. They share one budget."""

    def __init__(self, settings: Configuration) -> None:
        self.settings = settings
        self._budget = Budget(**settings.budget.stated) if settings.budget.stated else None
        self.of_judge = self._endpoint("judge")
        of_reader = self._endpoint("reader")
        if of_reader.url is None:
            judge: dict[str, Any] = {**self.of_judge.connection}
            shared = {key: judge[key] for key in _SHARED if key in judge} | {**of_reader.connection}
            of_reader = replace(of_reader, connection=cast("ConnectionOptions", shared))
        self.of_reader = of_reader
        self.of_embedder = self._endpoint("embedder")

    def _endpoint(self, role: Role) -> EndpointOptions:
        names = OptionNames(role, "command line", self.settings.sources)
        return EndpointOptions.from_settings(
            getattr(self.settings, role), names, budget=self._budget, cache=self.settings.cache.directory
        )

    def specs(self) -> ModelSpecs:
        """Return the models of a command that scores, as options that other processes open and a store records."""
        _, reader, embedder = self.build()
        return {
            "judge": self.of_judge,
            "reader": None if reader is None else self.of_reader,
            "embedder": None if embedder is None else self.of_embedder,
        }

    def build(self) -> tuple[Judge, Reader | None, Embedder | None]:
        """Build the judge, the reader and the embedder."""
        judge = self.build_judge()
        return judge, self.of_reader.build_reader(judge, self.of_judge), self.of_embedder.build_embedder()

    def build_judge(self) -> Judge:
        """Build the judge."""
        return self.of_judge.build_judge()

    def build_other_judge(self, url: str | None, model: str | None, api_key_env: str | None = None) -> Judge:
        """Build another judge with the same limits and scores, which shares the budget."""
        return self._another(self.of_judge, url, model, api_key_env).build_judge()

    def build_other_reader(self, url: str, judge: Judge | None) -> Reader | None:
        """Build another reader with the limits of the judge, which shares the budget."""
        return self._another(self.of_reader, url).build_reader(judge, self.of_judge)

    def _another(
        self, base: EndpointOptions, url: str | None, model: str | None = None, api_key_env: str | None = None
    ) -> EndpointOptions:
        judge: dict[str, Any] = {**self.of_judge.connection}
        limits = cast("ConnectionOptions", {key: judge[key] for key in (*_SHARED, "budget", "cache") if key in judge})
        return base.override(url=url, model=model, api_key_env=api_key_env, limits=limits)

    def judge_or_none(self) -> Judge | None:
        """Build the judge that a setting names, or return None."""
        return self.build_judge() if self.of_judge.url else None

    def judge_and_reader(self) -> tuple[Judge | None, Reader | None]:
        """Build the judge and the reader, without the baseline as default.

        Without a judge, the reader's model judges. Without either, the judge is None.
        """
        judge = self.judge_or_none()
        if judge is None and self.of_reader.url:
            # The reader's endpoint, with its model and key, and the judge's score mode.
            judge = replace(self.of_reader, own=self.of_judge.own).build_judge()
        return judge, self.of_reader.build_reader(judge, self.of_judge)

    @property
    def prices(self) -> tuple[float, float] | None:
        """Prices of input and output tokens in USD per million, if all models have the same."""
        prices = self.of_judge.connection.get("usd_per_million_tokens")
        has_own = self.of_reader.url or self.of_reader.connection.get("model")
        return prices if not has_own or prices == self.of_reader.connection.get("usd_per_million_tokens") else None

    @property
    def calls_per_reading(self) -> int:
        """Requests for one p(abstain), for estimates."""
        return int(self.of_reader.own.get("max_draws") or 1)

    def plan_settings(self) -> dict[str, Any]:
        """Return the settings of the models in the plan of a store."""
        described = [each.plan_settings() for each in (self.of_judge, self.of_reader, self.of_embedder)]
        return {key: value for each in described for key, value in each.items()}


def models_for_store(
    context: typer.Context,
    plan: StorePlan,
    *,
    metrics: Sequence[str] = (),
    keeps_plan: bool = False,
    dry_run: bool = False,
) -> tuple[list[str], Models]:
    """Return the metrics and models of a command that writes scores. The plan completes what the settings lack.

    `metrics` replace those of the settings. `keeps_plan` refuses other models than those of the plan. A worker compares
    all settings instead. With `dry_run` the command can do without a model: what it estimates must not be refused
    later.
    """
    settings = settings_of(context)
    names = [*metrics] or ([*settings.scoring.metrics] if "scoring.metrics" in settings.sources else None)
    named = {role for role in ENDPOINTS if getattr(settings, role).url}
    completed = plan.complete(named, names, may_lack_models=dry_run)
    if names is None and not plan.names_metrics:
        announce(
            f"no metrics are named, so {', '.join(completed['scoring.metrics'])} is scored. Name others with --metrics"
        )
    models = Models(settings_of(context, plan=completed))
    if keeps_plan:
        plan.check_models(completed["scoring.metrics"], models.plan_settings())
    return completed["scoring.metrics"], models


def with_cache(settings: Configuration, directory: Path) -> Configuration:
    """Return settings with a cache of replies, if they have none.

    A run that resumes after a kill reads replies from this cache instead of paying for them again.
    """
    return (
        settings if settings.cache.directory is not None else replace(settings, cache=Cache(directory=str(directory)))
    )


def setup_options(models: Models) -> dict[str, Any]:
    """Return the arguments of the setup of a command that scores until it is stopped."""
    scoring = models.settings.scoring
    return {
        **models.specs(),
        "sinks": scoring.sinks,
        "limits": models.settings.limits,
        "reasons": scoring.reasons,
        "closes_models": True,
    }


def max_outage_of(settings: Configuration) -> float:
    """Return the seconds that an outage may last for a worker, or a run with a store."""
    return 3600.0 if settings.limits.max_outage_s is None else settings.limits.max_outage_s


def worker_options(settings: Configuration) -> dict[str, Any]:
    """Return the arguments of a worker that settings describe."""
    return {
        "max_outage_s": max_outage_of(settings),
        "watch": settings.watch,
        "retention": settings.retention,
        "daily_budget": settings.daily_budget.stated,
    }
