"""`ragstone lab udcg experiment`: the experiments of the UDCG paper on the user's own data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragstone.cli._application import load_app
from ragstone.cli._estimate import CallLatencyOption
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._models import ModelOptions, takes_models
from ragstone.cli._options import JsonOption
from ragstone.cli._output import print_json, print_text, progress_bar
from ragstone.cli._panels import JUDGE, LIMITS, STATISTICS
from ragstone.cli._progress import format_duration
from ragstone.errors import ConfigurationError

if TYPE_CHECKING:
    from ragstone.research import ExperimentPlan, UdcgExperiment

_SAMPLING = "Samples"


@takes_models
def experiment_command(
    data: Annotated[
        Path,
        typer.Argument(
            help="Questions: rows with query, reference and contexts (the ranked candidates, with relevance if known)."
        ),
    ],
    output_dir: Annotated[
        Path,
        typer.Option(
            "--output-dir", "-o", help="Directory of the results. An interrupted run resumes in the same directory."
        ),
    ] = Path("udcg-experiment"),
    parts: Annotated[
        str | None,
        typer.Option(
            "--parts",
            help="Comma-separated: position, k, distractors, orders, correlation, ablation, answer-prob, judges. Default: "
            "all but the last two.",
        ),
    ] = None,
    retriever: Annotated[
        str | None,
        typer.Option(
            "--retriever", metavar="MODULE:NAME", help="Function of the query that returns the ranked candidates."
        ),
    ] = None,
    second_judge: Annotated[
        str | None,
        typer.Option("--second-judge", rich_help_panel=JUDGE, help="Another judge, for the part judges. As --judge."),
    ] = None,
    second_judge_model: Annotated[
        str | None, typer.Option("--second-judge-model", rich_help_panel=JUDGE, help="Model of --second-judge.")
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", rich_help_panel=_SAMPLING, help="Passages in a context.")] = 5,
    top_n: Annotated[
        int, typer.Option("--top-n", rich_help_panel=_SAMPLING, help="Candidates of a question, from the first.")
    ] = 25,
    max_questions: Annotated[
        int, typer.Option("--max-questions", rich_help_panel=_SAMPLING, help="Maximum number of questions.")
    ] = 100,
    contexts: Annotated[
        int,
        typer.Option(
            "--contexts", rich_help_panel=_SAMPLING, help="Sampled contexts per question. Half have a relevant passage."
        ),
    ] = 10,
    k_values: Annotated[
        str, typer.Option("--k-values", rich_help_panel=_SAMPLING, help="Passages in a context, for the part k.")
    ] = "1,2,3,5",
    distractors: Annotated[
        int | None,
        typer.Option("--distractors", rich_help_panel=_SAMPLING, help="Distractors in a context. Default: k - 1."),
    ] = None,
    weak_below: Annotated[
        float,
        typer.Option(
            "--weak-below", rich_help_panel=_SAMPLING, help="Distracting effect that limits weak distractors."
        ),
    ] = 0.2,
    hard_above: Annotated[
        float,
        typer.Option(
            "--hard-above", rich_help_panel=_SAMPLING, help="Distracting effect that limits hard distractors."
        ),
    ] = 0.8,
    threshold: Annotated[
        float | None,
        typer.Option("--threshold", rich_help_panel=_SAMPLING, help="Smallest grade that means relevant."),
    ] = None,
    erag: Annotated[
        bool, typer.Option("--erag/--no-erag", help="Also let the reader answer from each candidate alone (eRAG).")
    ] = True,
    seed: Annotated[
        int, typer.Option("--seed", min=0, rich_help_panel=STATISTICS, help="Seed of samples, folds and bootstrap.")
    ] = 0,
    n_resamples: Annotated[
        int, typer.Option("--n-resamples", rich_help_panel=STATISTICS, help="Bootstrap resamples of the questions.")
    ] = 2000,
    concurrency: Annotated[
        int, typer.Option("--concurrency", min=1, rich_help_panel=LIMITS, help="Number of concurrent model calls.")
    ] = 16,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the questions, parts and expected cost, then exit.")
    ] = False,
    call_latency: CallLatencyOption = 1.0,
    json_output: JsonOption = False,
    *,
    models: ModelOptions,
) -> None:
    """Repeat the experiments of the UDCG paper on your data."""
    from ragstone.research import plan_udcg_experiment, run_udcg_experiment

    settings: dict[str, Any] = {
        "k": k,
        "top_n": top_n,
        "max_questions": max_questions,
        "n_contexts": contexts,
        "k_values": _numbers(k_values),
        "n_distractors": distractors,
        "weak_below": weak_below,
        "hard_above": hard_above,
        "erag": erag,
        "threshold": threshold,
        "seed": seed,
        "n_resamples": n_resamples,
    }
    found = None if retriever is None else load_app(retriever, option="--retriever")
    if dry_run:
        plan = plan_udcg_experiment(
            str(data),
            output_dir,
            parts=parts,
            retriever=found,
            n_judges=1 + (second_judge is not None),
            calls_per_reading=models.calls_per_reading,
            **settings,
        )
        if json_output:
            print_json(plan.to_dict() | _costs(plan, models, call_latency))
        else:
            print_text(_plan_text(plan, models, call_latency))
        return
    judge, reader = models.models_or_none()
    with progress_bar("calls") as progress:
        result = run_udcg_experiment(
            str(data),
            output_dir,
            parts=parts,
            retriever=found,
            reader=reader,
            judge=judge,
            second_judge=None if second_judge is None else models.build_second_judge(second_judge, second_judge_model),
            concurrency=concurrency,
            on_plan=lambda plan: print_text(_plan_text(plan, models, call_latency), err=True),
            progress=progress,
            **settings,
        )
    if json_output:
        print_json(result.to_dict())
    else:
        print_text(result)
    _print_next(result, output_dir)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise ConfigurationError(
            f"--k-values must be integers separated by commas, got {text!r}. Example: --k-values 1,3,5"
        ) from None


def _costs(plan: ExperimentPlan, models: ModelOptions, call_latency: float) -> dict[str, float | None]:
    prices = models.prices_of_all
    seconds = plan.estimate_seconds(max_concurrent_requests=models.concurrent_requests, call_latency_s=call_latency)
    return {"seconds": seconds, "usd": None if prices is None else plan.estimate_usd(prices)}


def _plan_text(plan: ExperimentPlan, models: ModelOptions, call_latency: float) -> str:
    cost = _costs(plan, models, call_latency)
    usd = "for USD, set --usd-per-million-tokens" if cost["usd"] is None else f"at most {cost['usd']:.2f} USD"
    duration = format_duration(cost["seconds"] or 0.0)
    limit = models.concurrent_requests
    return f"{plan}\n{usd}; {duration} at {call_latency:g} s per call and {limit} concurrent requests"


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
