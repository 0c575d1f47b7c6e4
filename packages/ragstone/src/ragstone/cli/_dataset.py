"""`ragstone lab dataset`: build a CRUX-style dataset from documents, and apply a human review of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._models import Models
from ragstone.cli._output import print_json, progress_bar, sanitize_for_terminal
from ragstone.cli._settings import arguments_of, settings_of

if TYPE_CHECKING:
    from ragstone.research import DatasetBuild, NegativeQueries

_SHOWN = 10


def build(
    documents: list[Path],
    *,
    output_dir: Path = Path("dataset"),
    report: list[Path] | None = None,
    dry_run: bool = False,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    """Generate queries, sub-questions and ratings.

    The documents are divided into passages. The directory gets a file review.csv to edit.

    Options:
        documents: Files and directories: text, Markdown, or JSONL with id and text.
        output_dir (-o): Directory of the dataset. An interrupted run resumes in the same directory.
        report: Reference reports, in the same formats. Each report becomes an item. Repeatable.
        dry_run: Print the plan and its cost without calling the judge.
    """
    from ragstone.research import build_dataset, plan_dataset

    settings = settings_of(context)
    chosen = arguments_of(context, settings, "research")
    sizes = {name: value for name, value in chosen.items() if name in ("max_items", "max_passages")}
    plan = plan_dataset(documents, reports=report or (), **sizes)
    if dry_run:
        _print_skipped(plan.left_out)
        if json_output:
            print_json(plan.to_dict())
        else:
            typer.echo(str(plan))
        return
    typer.echo(str(plan), err=True)
    with progress_bar("items") as progress:
        built = build_dataset(
            documents,
            output_dir,
            reports=report or (),
            judge=Models(settings).build_judge(),
            concurrency=settings.limits.concurrency,
            progress=progress,
            **chosen,
        )
    _print_skipped(built.left_out)
    if json_output:
        print_json(built.to_dict())
    else:
        typer.echo(str(built))
    _print_next(built)
    if "budget" in built.failures:
        raise typer.Exit(ExitCode.BUDGET)
    if built.failures and not built.rows:
        raise typer.Exit(ExitCode.INFRASTRUCTURE)


def apply_command(
    folder: Path, *, keep_ratings: bool = False, json_output: bool = False, context: typer.Context
) -> None:
    """Write the dataset of your edited review.csv.

    Options:
        folder: The --output-dir of `lab dataset build`.
        keep_ratings: Keep the ratings of edited rows instead of asking the judge again.
    """
    from ragstone.research import apply_review

    settings = settings_of(context)
    reviewed = apply_review(
        folder,
        judge=Models(settings).judge_or_none(),
        keep_ratings=keep_ratings,
        concurrency=settings.limits.concurrency,
    )
    _print_skipped(reviewed.left_out)
    if json_output:
        print_json(reviewed.to_dict())
    else:
        typer.echo(str(reviewed))


def negatives(
    documents: list[Path],
    *,
    output_dir: Path = Path("negatives"),
    dry_run: bool = False,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    """Write queries that your documents do not answer.

    `ragstone lab topicality` compares the scores of them with those of other queries.

    Options:
        documents: Files and directories of your corpus: text, Markdown, or JSONL with id and text.
        output_dir (-o): Directory of the queries. An interrupted run resumes in the same directory.
        dry_run: Print the plan and its cost without calling the judge.
    """
    from ragstone.research import build_negatives, plan_negatives

    settings = settings_of(context)
    chosen = arguments_of(context, settings, "research")
    sizes = {name: value for name, value in chosen.items() if name in ("queries", "max_passages")}
    plan = plan_negatives(documents, **sizes)
    _print_skipped(plan.left_out)
    if dry_run:
        if json_output:
            print_json(plan.to_dict())
        else:
            typer.echo(str(plan))
        return
    typer.echo(str(plan), err=True)
    with progress_bar("queries") as progress:
        built = build_negatives(
            documents,
            output_dir,
            judge=Models(settings).build_judge(),
            concurrency=settings.limits.concurrency,
            progress=progress,
            **chosen,
        )
    if json_output:
        print_json(built.to_dict())
    else:
        typer.echo(str(built))
    _print_queries_next(built)


def _print_queries_next(built: NegativeQueries) -> None:
    for error in built.errors:
        typer.echo(f"failed: {sanitize_for_terminal(error, width=400)}", err=True)
    if built.unfinished:
        typer.echo("unfinished: run the same command to resume. Answered judge calls are not repeated.", err=True)
    if built.rows:
        typer.echo(
            f"next: check {built.path}, then run: ragstone evaluate {built.path} --app MODULE:NAME --metrics vera",
            err=True,
        )
    if "budget" in built.failures:
        raise typer.Exit(ExitCode.BUDGET)
    if built.unfinished or not built.rows:
        raise typer.Exit(ExitCode.INFRASTRUCTURE)


def _print_skipped(reasons: tuple[str, ...]) -> None:
    for reason in reasons[:_SHOWN]:
        typer.echo(f"skipped: {sanitize_for_terminal(reason, width=400)}", err=True)
    if len(reasons) > _SHOWN:
        typer.echo(f"skipped: {len(reasons) - _SHOWN} more (--json lists all)", err=True)


def _print_next(built: DatasetBuild) -> None:
    if built.unfinished:
        typer.echo("unfinished: run the same command to resume. Answered judge calls are not repeated.", err=True)
    if built.rows:
        typer.echo(
            f"next: edit {built.folder / 'review.csv'}, then run: ragstone lab dataset apply-review {built.folder}",
            err=True,
        )
