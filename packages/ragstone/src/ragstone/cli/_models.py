"""Options of every command that calls models: models, their settings and limits.

A command takes `models: ModelOptions` (or `JudgeOptions` if it does not use a reader) and is decorated with `@takes_models`.
Typer then offers all of these options, and the command receives them as one object.
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
        help="http://host:port/v1, openai:MODEL, vllm:MODEL or lexical. Default: $RAGSTONE_JUDGE, otherwise lexical.",
    ),
]
ReaderOption = Annotated[
    str | None,
    typer.Option(
        "--reader",
        rich_help_panel=READER,
        help="The application's generator, for udcg. Same values as --judge. Default: $RAGSTONE_READER, otherwise the "
        "judge's model.",
    ),
]
CacheOption = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        rich_help_panel=LIMITS,
        help="Directory of the reply cache. Default: $RAGSTONE_CACHE, otherwise no cache.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """Options of the judge and limits. Each field is an option."""

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

    def build_judge(self, spec: str | None, **options: Any) -> Judge:
        """Build the judge with these options.

        With `--cache`, all models of this process use this cache.

        Args:
            spec: Value of `--judge`. None uses `RAGSTONE_JUDGE`, otherwise the baseline.
            options: More arguments of `judge_from`.

        Raises:
            ConfigurationError: If a value is invalid.
        """
        if self.cache is not None:
            os.environ["RAGSTONE_CACHE"] = str(self.cache)
        return judge_from(spec, max_tokens=self.judge_max_tokens, connection=self.connection, **options)

    def judge_or_none(self) -> Judge | None:
        """Build the judge that `--judge` or `RAGSTONE_JUDGE` names, or return None."""
        spec = self.judge or os.environ.get("RAGSTONE_JUDGE")
        return self.build_judge(spec) if spec else None

    @cached_property
    def connection(self) -> ConnectionOptions:
        """Limits of requests and cost. Judge and reader share one budget."""
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
    """Options of the judge, of its ratings and of the reader."""

    judge_score_mode: ScoreModeOption = "single"
    judge_draws: ScoreDrawsOption = 5
    reader: ReaderOption = None
    reader_prompt: ReaderPromptOption = None
    reader_abstention: AbstentionOption = None
    reader_estimator: EstimatorOption = "auto"
    reader_max_draws: DrawsOption = None

    def models(self) -> tuple[Judge, Reader | str | None]:
        """Build the judge and the reader.

        Returns:
            The judge, and the reader. Without reader options, the reader is the value of `--reader`, so that metrics
            that do not use a reader do not create one.

        Raises:
            ConfigurationError: If a value is invalid.
        """
        judge = self._judge(self.judge)
        return judge, self._reader(judge)

    def models_or_none(self) -> tuple[Judge | None, Reader | str | None]:
        """Build the judge and the reader, without the baseline as default.

        Without a judge, the reader's model judges. Without either, the judge is None.
        """
        spec = self.judge or os.environ.get("RAGSTONE_JUDGE") or self.reader
        judge = self._judge(spec) if spec else None
        return judge, self._reader(judge)

    def _judge(self, spec: str | None) -> Judge:
        return self.build_judge(spec, score_mode=self.judge_score_mode, draws=self.judge_draws)

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
    """Replace a command's parameter `models` by the options of its type, `JudgeOptions` or `ModelOptions`."""
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
    # Typer passes options and arguments by keyword.
    by_keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    names = {f.name for f in fields(kind)}

    @functools.wraps(command)
    def wrapped(**values: Any) -> None:
        options = kind(**{name: values.pop(name) for name in names if name in values})
        command(**values, models=options)

    wrapped.__signature__ = inspect.Signature(by_keyword)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in by_keyword}
    return wrapped
