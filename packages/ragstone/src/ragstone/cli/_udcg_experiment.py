"""`ragstone lab udcg experiment`: the experiments of the UDCG paper on the user's own data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ragstone.cli._application import load_app
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._models import Models
from ragstone.cli._output import print_json, print_text, progress_bar
from ragstone.cli._progress import format_duration
from ragstone.cli._settings import arguments_of, settings_of

if TYPE_CHECKING:
    from ragstone.research import ExperimentPlan, UdcgExperiment


def experiment_command(
    data: Path,
    *,
    output_dir: Path = Path("udcg-experiment"),
    parts: str | None = None,
    retriever: str | None = None,
    erag: bool = True,
    dry_run: bool = False,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    """Repeat the experiments of the UDCG paper on your data.

    Options:
        data: Questions: rows with query, reference and contexts (the ranked candidates, with relevance if known).
        output_dir (-o): Directory of the results. An interrupted run resumes in the same directory.
        parts: Comma-separated: position, k, distractors, orders, correlation, ablation, answer-prob, judges. Default:
            all but the last two.
        retriever (MODULE:NAME): Function of the query that returns the ranked candidates.
        erag (--erag/--no-erag): Also let the reader answer from each candidate alone (eRAG).
        dry_run: Print the questions, parts and expected cost, then exit.
    """
    from ragstone.research import plan_udcg_experiment, run_udcg_experiment

    settings = settings_of(context)
    models, research = Models(settings), settings.research
    others = ("second_judge", "second_judge_model")
    chosen = arguments_of(context, settings, "analysis", "research", omit=others)
    chosen |= {"erag": erag, "k_values": tuple(sorted(set(research.k_values)))}
    found = None if retriever is None else load_app(retriever, option="--retriever")
    if dry_run:
        plan = plan_udcg_experiment(
            str(data),
            output_dir,
            parts=parts,
            retriever=found,
            n_judges=1 + (research.second_judge is not None),
            calls_per_reading=models.calls_per_reading,
            **chosen,
        )
        if json_output:
            print_json(plan.to_dict() | _costs(plan, models))
        else:
            print_text(_plan_text(plan, models))
        return
    judge, reader = models.judge_and_reader()
    second_judge = None
    if research.second_judge is not None:
        second_judge = models.build_other_judge(research.second_judge, research.second_judge_model)
    with progress_bar("calls") as progress:
        result = run_udcg_experiment(
            str(data),
            output_dir,
            parts=parts,
            retriever=found,
            reader=reader,
            judge=judge,
            second_judge=second_judge,
            concurrency=settings.limits.concurrency,
            on_plan=lambda plan: print_text(_plan_text(plan, models), err=True),
            progress=progress,
            **chosen,
        )
    if json_output:
        print_json(result.to_dict())
    else:
        print_text(result)
    _print_next(result, output_dir)


def _costs(plan: ExperimentPlan, models: Models) -> dict[str, float | None]:
    prices, call_latency = models.prices, models.settings.limits.call_latency_s
    seconds = plan.estimate_seconds(max_concurrent_requests=models.concurrent_requests, call_latency_s=call_latency)
    return {"seconds": seconds, "usd": None if prices is None else plan.estimate_usd(prices)}


def _plan_text(plan: ExperimentPlan, models: Models) -> str:
    cost = _costs(plan, models)
    usd = "for USD, set judge.usd_per_million_tokens" if cost["usd"] is None else f"at most {cost['usd']:.2f} USD"
    duration = format_duration(cost["seconds"] or 0.0)
    limit = models.concurrent_requests
    return f"{plan}\n{usd}; {duration} at {models.settings.limits.call_latency_s:g} s per call and {limit} concurrent requests"


def _print_next(result: UdcgExperiment, output_dir: Path) -> None:
    for error in result.errors:
        typer.echo(f"failed: {error}", err=True)
    if result.unfinished:
        typer.echo("unfinished: run the same command to resume. Answered calls are not repeated.", err=True)
    typer.echo(f"saved in {output_dir}: result.json, contexts.jsonl, journal.jsonl", err=True)
    if "budget" in result.failures:
        raise typer.Exit(ExitCode.BUDGET)
    if result.unfinished:
        raise typer.Exit(ExitCode.INFRASTRUCTURE)
