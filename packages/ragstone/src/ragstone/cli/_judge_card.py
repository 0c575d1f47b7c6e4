"""`ragstone lab judge-card`: measure from human labels how far the scores of judges can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ragstone.cli._criterion import parse_metrics
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._failed_share import describe_excess
from ragstone.cli._models import Models
from ragstone.cli._output import failure_lines, print_json, print_text
from ragstone.cli._progress import format_duration, show_progress
from ragstone.cli._settings import OF_COMMAND, arguments_of, settings_of
from ragstone.errors import ConfigurationError
from ragstone.judges import find_outage
from ragstone.schema import Failure
from ragstone.scoring import JudgedCounts

if TYPE_CHECKING:
    from ragstone.research import CardPlan, JudgeCard


def judge_card_command(
    *,
    labels: Path,
    data: Path | None = None,
    judge: list[str] | None = None,
    judge_model: list[str] | None = None,
    judge_api_key_env: list[str] | None = None,
    metrics: str | None = None,
    criterion: list[Path] | None = None,
    repeats: int = 2,
    dry_run: bool = False,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    """Measure how far judges can be trusted.

    Compares them with human labels: agreement, bias, wording, order, repeats and cost.

    Options:
        labels: Human labels: rows with id and label (JSONL, JSON, CSV, Parquet).
        data: Samples, as for `evaluate`. Default: the rows of --labels are the samples.
        metrics: Metrics or groups, comma-separated. Default: those that the labels name, otherwise ccrs.
        repeats (>=1): Number of times that each wording is scored.
        dry_run: Check the labels, print the design and its cost, then exit.

    Models:
        judge: A judge, in the forms of `evaluate --judge`. Repeatable. Default: $RAGSTONE_JUDGE.
        judge_model: Model at the URL of --judge. With several judges once for each, in their order ("" for none).
        judge_api_key_env (VARIABLE): Environment variable with the API key. With several judges once for each, in their
            order ("" for none).
    """
    from ragstone.research import judge_card, plan_judge_card

    settings = settings_of(context)
    models, research = Models(settings), settings.research
    urls: list[str | None] = [*judge] if judge else [None]
    named = _one_each("--judge-model", judge_model, urls)
    keys = _one_each("--judge-api-key-env", judge_api_key_env, urls)
    _check_repeated(list(zip(urls, named, strict=True)))
    sent = settings.judge.stated.keys() & {"api_key", "api_key_env", "headers"}
    if sent and settings.judge.url is None and len({*urls}) > 1:
        raise ConfigurationError(
            f"judge.{min(sent)} is for one endpoint, and --judge names several. Name the key of each with --judge-api-key-env"
        )
    chosen: dict[str, Any] = {
        "metrics": None if metrics is None and criterion is None else parse_metrics(metrics or "", criterion),
        "conditions": () if research.conditions == ("none",) else research.conditions,
        "repeats": repeats,
        "max_crossed": research.max_crossed,
        "label_column": research.label_column,
        "seed": settings.analysis.seed or 0,
    }
    source = None if data is None else str(data)
    plan = plan_judge_card(str(labels), source, **chosen, n_judges=len(urls))
    if dry_run:
        _print_plan(plan, models, json_output=json_output)
        return
    judges = [models.build_other_judge(*each) for each in zip(urls, named, keys, strict=True)]
    _print_plan(plan, models, err=True)
    with show_progress("scoring", find_outage=find_outage) as progress:
        card = judge_card(
            str(labels),
            source,
            judge=judges,
            **chosen,
            **arguments_of(context, settings, "limits", "analysis", "research", omit={*chosen, *OF_COMMAND}),
            closes_judges=True,
            progress=progress.update,
            on_outcomes=progress.count,
        )
    if json_output:
        print_json(card.to_dict())
    else:
        print_text(card)
    _exit(card, settings.limits.max_failed_share)


def _check_repeated(judges: Sequence[tuple[str | None, str | None]]) -> None:
    if repeated := [each for n, each in enumerate(judges) if each in judges[:n]]:
        url, model = repeated[0]
        raise ConfigurationError(
            f"--judge {url}{f' --judge-model {model}' if model else ''} is given twice. Name each judge once; --repeats N scores "
            "several times with one judge"
        )


def _one_each(option: str, values: Sequence[str] | None, urls: Sequence[str | None]) -> list[str | None]:
    """Return the value of an option for each judge."""
    if not values:
        return [None] * len(urls)
    if len(values) != len(urls):
        raise ConfigurationError(
            f"{option} is given {len(values)} times for {len(urls)} judges. Give it once for each --judge, in the same order, and "
            f'{option} "" for a judge without it'
        )
    return [value or None for value in values]


def _print_plan(plan: CardPlan, models: Models, *, json_output: bool = False, err: bool = False) -> None:
    usage, prices = plan.usage, models.prices
    usd = None if prices is None else (usage.input_tokens * prices[0] + usage.output_tokens * prices[1]) / 1e6
    call_latency_s = models.settings.limits.call_latency_s
    seconds = usage.calls * call_latency_s / models.concurrent_requests
    if json_output:
        tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        print_json(plan.to_dict() | {"calls": usage.calls, **tokens, "usd": usd, "seconds": seconds})
        return
    price = "for USD, set judge.usd_per_million_tokens" if usd is None else f"{usd:.2f} USD"
    print_text(
        f"{plan}\nabout {usage.calls} calls, {usage.input_tokens} + {usage.output_tokens} tokens ({price}), "
        f"{format_duration(seconds)} at {call_latency_s:g} s per call and {models.concurrent_requests} concurrent requests",
        err=err,
    )


def _exit(card: JudgeCard, max_failed_share: float) -> None:
    """Print the first failure of each kind, and exit with the code of a result other than success."""
    for line in failure_lines(card.outcomes):
        typer.echo(line, err=True)
    if any(isinstance(o, Failure) and o.kind == "budget" for o in card.outcomes):
        typer.echo(
            "The budget is exhausted, so the card is incomplete. With --cache, a run with a larger budget resumes.",
            err=True,
        )
        raise typer.Exit(ExitCode.BUDGET)
    counts = JudgedCounts()
    counts.add(card.outcomes)
    if (reason := describe_excess(counts, max_failed_share)) is not None:
        typer.echo(f"exit code 3: {reason}", err=True)
        raise typer.Exit(ExitCode.INFRASTRUCTURE)
