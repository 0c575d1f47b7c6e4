"""`ragstone lab judge-card`: measure from human labels how far the scores of judges can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from ragstone.cli.extension import show_progress
from ragstone.errors import ConfigurationError
from ragstone.judges import find_outage
from ragstone_lab.cli._frame import Lab


def judge_card_command(
    *,
    labels: Path,
    data: Path | None = None,
    label: list[str] | None = None,
    judge: list[str] | None = None,
    judge_model: list[str] | None = None,
    judge_api_key_env: list[str] | None = None,
    metrics: str | None = None,
    output_dir: Path = Path("judge-card"),
    dry_run: bool = False,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    """Measure how far judges can be trusted.

    Compares them with human labels: agreement, bias, wording, order, repeats and cost.

    Options:
        labels: Human labels: rows with id and label, or a known layout.
        data: Samples, as for `evaluate`. Default: the rows of --labels.
        metrics: Metrics or groups, comma-separated. Default: those of the labels, otherwise ccrs.
        output_dir (-o): Directory of the results. A run resumes in it.

    Models:
        judge: A judge. Repeatable. Default: $RAGSTONE_JUDGE.
        judge_model: Model at the URL of --judge, once for each judge ("" for none).
        judge_api_key_env (VARIABLE): Environment variable with the API key, once for each judge ("" for none).
    """
    from ragstone_lab import judge_card, plan_judge_card

    lab = Lab(context, json_output=json_output)
    settings, models, research = lab.settings, lab.models, lab.settings.research
    urls: list[str | None] = [*judge] if judge else [None]
    named = _one_each("--judge-model", judge_model, urls)
    keys = _one_each("--judge-api-key-env", judge_api_key_env, urls)
    sent = settings.judge.stated.keys() & {"api_key", "api_key_env", "headers"}
    if sent and settings.judge.url is None and len({*urls}) > 1:
        raise ConfigurationError(
            f"judge.{min(sent)} is for one endpoint, and --judge names several. Name the key of each with --judge-api-key-env"
        )
    chosen: dict[str, Any] = {
        "metrics": metrics,
        "conditions": () if research.conditions == ("none",) else research.conditions,
        "repeats": research.repeats,
        "max_crossed": research.max_crossed,
        "label_columns": label or (),
        "label_range": research.label_range,
        "label_values": research.label_values,
        "seed": settings.analysis.seed or 0,
    }
    source = None if data is None else str(data)
    plan = plan_judge_card(str(labels), source, **chosen, n_judges=len(urls))
    judges = [] if dry_run else [models.build_other_judge(*each) for each in zip(urls, named, keys, strict=True)]
    lab.print_plan(plan, plan.usage, dry_run=dry_run)
    if dry_run:
        return
    options = chosen | lab.arguments("limits", "analysis", "research", omit=chosen)
    with show_progress("scoring", find_outage=find_outage) as progress:
        options |= {"progress": progress.update, "on_outcomes": progress.count}
        card = judge_card(str(labels), source, judge=judges, output_dir=output_dir, **options)
    lab.finish(card, saved=[f"saved in {output_dir}: result.json, journal.jsonl"])


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
