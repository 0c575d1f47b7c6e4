"""`ragstone lab dataset`: build a CRUX-style dataset from documents, and apply a human review of it."""

from __future__ import annotations

import shlex
from pathlib import Path

import typer

from ragstone.cli.extension import Models, load_app, parse_named_file, show_progress, with_cache
from ragstone.metrics import split_metrics
from ragstone_lab.cli._frame import Lab, print_skipped


def build_command(
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
        output_dir (-o): Directory of the results. A run resumes in it.
        report: Reference reports. Each becomes an item. Repeatable.
    """
    from ragstone_lab import build_dataset, plan_dataset

    lab = Lab(context, json_output=json_output)
    chosen = lab.arguments("limits", "research")
    sizes = {name: value for name, value in chosen.items() if name in ("max_items", "max_passages")}
    plan = plan_dataset(documents, reports=report or (), **sizes)
    lab.print_plan(plan, dry_run=dry_run)
    if dry_run:
        print_skipped(plan.left_out)
        return
    with show_progress("items") as progress:
        judge = lab.models.build_judge()
        built = build_dataset(
            documents, output_dir, reports=report or (), judge=judge, progress=progress.update, **chosen
        )
    print_skipped(built.left_out)
    command = f"ragstone lab dataset apply-review {shlex.quote(str(output_dir))}"
    following = f"next: edit {output_dir / 'review.csv'}, then run: {command}"
    lab.finish(built, saved=[following] if built.rows else [], is_empty=not built.rows)


def apply_review_command(
    folder: Path, *, keep_ratings: bool = False, json_output: bool = False, context: typer.Context
) -> None:
    """Write the dataset of your edited review.csv.

    Options:
        folder: The --output-dir of `lab dataset build`.
        keep_ratings: Keep the ratings of edited rows.
    """
    from ragstone_lab import apply_review

    lab = Lab(context, json_output=json_output)
    judge = lab.models.judge_or_none()
    reviewed = apply_review(folder, judge=judge, keep_ratings=keep_ratings, **lab.arguments("limits"))
    print_skipped(reviewed.left_out)
    lab.finish(reviewed)


def negatives_command(
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
        documents: Files and directories: text, Markdown, or JSONL with id and text.
        output_dir (-o): Directory of the results. A run resumes in it.
    """
    from ragstone_lab import build_negatives, plan_negatives

    lab = Lab(context, json_output=json_output)
    chosen = lab.arguments("limits", "research")
    sizes = {name: value for name, value in chosen.items() if name in ("queries", "max_passages")}
    plan = plan_negatives(documents, **sizes)
    print_skipped(plan.left_out)
    lab.print_plan(plan, dry_run=dry_run)
    if dry_run:
        return
    with show_progress("queries") as progress:
        built = build_negatives(
            documents, output_dir, judge=lab.models.build_judge(), progress=progress.update, **chosen
        )
    command = f"ragstone evaluate {shlex.quote(str(built.path))} --app MODULE:NAME --metrics vera"
    following = f"next: check {built.path}, then run: {command}"
    lab.finish(built, saved=[following] if built.rows else [], is_empty=not built.rows)


def bounds_command(
    data: str,
    answers: list[str] | None = None,
    *,
    app: str | None = None,
    metrics: str = "crux.response_coverage",
    output_dir: Path = Path("bounds"),
    json_output: bool = False,
    context: typer.Context,
) -> None:
    """Measure what retriever and generator can still gain.

    Compares answers without retrieval, with the real one, and from the passages that suffice.

    Options:
        data: Questions with `required` passages, such as dataset.jsonl of `lab dataset build`.
        answers: Answers instead of --app: direct=FILE retrieved=FILE oracle=FILE.
        app (MODULE:NAME): Function of `row` that answers from row.contexts, or retrieves if None.
        metrics: Metrics or groups that rate an answer, comma-separated.
        output_dir (-o): Directory of the results. A run resumes in it.
    """
    from ragstone_lab import retrieval_bounds

    lab = Lab(context, json_output=json_output)
    lab.models = Models(with_cache(lab.settings, (output_dir / "cache").absolute()))
    files = {name or "": file for name, file in map(parse_named_file, answers)} if answers else None
    options = {"app": None if app is None else load_app(app), "answers": files, "metrics": split_metrics(metrics)}
    options |= lab.arguments("limits", "analysis")
    result = lab.run("answers", retrieval_bounds, data, output_dir, **options)
    lab.finish(result, saved=[f"saved in {output_dir}: outcomes.jsonl"])
