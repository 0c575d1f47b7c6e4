"""The options of every command that asks models: which, how, and how much of them.

A command takes `models: ModelOptions` (or `JudgeOptions`, where no reader is asked) and is decorated with `@takes_models`:
typer then offers all of these options, and the command gets them in one piece.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from ragstone.cli._connection import (
    AffinityHeaderOption,
    InFlightOption,
    MaxCallsOption,
    MaxTokensOption,
    MaxUsdOption,
    OutageOption,
    PricesOption,
    RequestsOption,
    TokensOption,
    build_connection,
)
from ragstone.cli._panels import JUDGE, LIMITS, READER
from ragstone.cli._reader import AbstentionOption, DrawsOption, EstimatorOption, ReaderPromptOption, build_reader
from ragstone.cli._score import NumberTokensOption, ScoreDrawsOption, ScoreModeOption
from ragstone.judges import ConnectionOptions, Judge, Reader, judge_from

__all__ = ["JudgeOption", "JudgeOptions", "ModelOptions", "ReaderOption", "takes_models"]

JudgeOption = Annotated[
    str | None,
    typer.Option(
        "--judge",
        rich_help_panel=JUDGE,
        help="http://host:port/v1, openai:MODEL or lexical. Default: $RAGSTONE_JUDGE, else lexical.",
    ),
]
ReaderOption = Annotated[
    str | None,
    typer.Option(
        "--reader",
        rich_help_panel=READER,
        help="The application's generator, for udcg; takes what --judge takes. Default: $RAGSTONE_READER, else the judge.",
    ),
]
CacheOption = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        rich_help_panel=LIMITS,
        help="Folder where replies are kept and found again. Default: $RAGSTONE_CACHE, else none.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """What the options say of the judge and of how much may be asked, one field an option."""

    judge: JudgeOption = None
    judge_max_tokens: NumberTokensOption = None
    cache: CacheOption = None
    max_concurrent_requests: InFlightOption = None
    requests_per_minute: RequestsOption = None
    tokens_per_minute: TokensOption = None
    budget_calls: MaxCallsOption = None
    budget_tokens: MaxTokensOption = None
    budget_usd: MaxUsdOption = None
    prices: PricesOption = None
    fail_fast_after_s: OutageOption = None
    affinity_header: AffinityHeaderOption = None

    def build_judge(self, named: str | None, **asked: Any) -> Judge:
        """The judge of this name, or the environment's, with what the options say.

        With `--cache` all models of this process keep their replies there.

        Args:
            named: What `--judge` takes; None for `RAGSTONE_JUDGE`, else the baseline.
            asked: How it is asked, for `judge_from`.

        Raises:
            ConfigurationError: A value that cannot work.
        """
        if self.cache is not None:
            os.environ["RAGSTONE_CACHE"] = str(self.cache)
        return judge_from(named, max_tokens=self.judge_max_tokens, connection=self.connection, **asked)

    def judge_or_none(self) -> Judge | None:
        """The judge that the options or the environment name, if either does."""
        named = self.judge or os.environ.get("RAGSTONE_JUDGE")
        return self.build_judge(named) if named else None

    @cached_property
    def connection(self) -> ConnectionOptions:
        """How much may be asked of an endpoint, and spent; judge and reader share one spend cap."""
        return build_connection(
            max_concurrent_requests=self.max_concurrent_requests,
            requests_per_minute=self.requests_per_minute,
            tokens_per_minute=self.tokens_per_minute,
            budget_calls=self.budget_calls,
            budget_tokens=self.budget_tokens,
            budget_usd=self.budget_usd,
            prices=self.prices,
            fail_fast_after_s=self.fail_fast_after_s,
            affinity_header=self.affinity_header,
        )


@dataclass(frozen=True, kw_only=True)
class ModelOptions(JudgeOptions):
    """The same, and what the options say of scores and of the reader."""

    judge_score_mode: ScoreModeOption = "single"
    judge_draws: ScoreDrawsOption = 5
    reader: ReaderOption = None
    reader_prompt: ReaderPromptOption = None
    reader_abstention: AbstentionOption = None
    reader_estimator: EstimatorOption = "auto"
    reader_max_draws: DrawsOption = None

    def models(self) -> tuple[Judge, Reader | str | None]:
        """The judge and the reader that the options describe.

        Returns:
            The judge, and the reader: an object where options describe one, else what `--reader` says, so that none is
            made for metrics that ask none.

        Raises:
            ConfigurationError: A value that cannot work.
        """
        judge = self._judge(self.judge)
        return judge, self._reader(judge)

    def models_or_none(self) -> tuple[Judge | None, Reader | str | None]:
        """As `models`, but nobody judges where nobody is named; where a reader alone is named, its model judges."""
        named = self.judge or os.environ.get("RAGSTONE_JUDGE") or self.reader
        judge = self._judge(named) if named else None
        return judge, self._reader(judge)

    def _judge(self, named: str | None) -> Judge:
        return self.build_judge(named, score_mode=self.judge_score_mode, draws=self.judge_draws)

    def _reader(self, judge: Judge | None) -> Reader | str | None:
        return build_reader(
            self.reader,
            judge=judge,
            prompt=self.reader_prompt,
            abstention=self.reader_abstention,
            estimator=self.reader_estimator,
            draws=self.reader_max_draws,
            connection=self.connection,
        )


def takes_models(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of its parameter `models`, a `JudgeOptions` or `ModelOptions`, in its place."""
    hints = get_type_hints(command, include_extras=True)
    kind: type[JudgeOptions] = hints["models"]
    offered = get_type_hints(kind, include_extras=True)
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name != "models":
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        parameters += [
            inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=offered[f.name])
            for f in fields(kind)
        ]
    # Options come by name, arguments of the command line as well: typer calls with keywords alone.
    named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    names = {f.name for f in fields(kind)}

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        options = kind(**{name: given.pop(name) for name in names if name in given})
        command(**given, models=options)

    wrapped.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in named}
    return wrapped
