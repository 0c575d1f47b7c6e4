"""`ragstone lab validate-metrics` and `ragstone lab topicality`: validate the metrics, and check a repository's domain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragstone.cli._options import JsonOption, OnlyMetricsOption, SystemsArgument, parse_named_file
from ragstone.cli._output import print_json, print_text
from ragstone.cli._settings import arguments_of, settings_of
from ragstone.cli._stdin import stdin_as_file
from ragstone.errors import ConfigurationError
from ragstone.metrics import quote, split_metrics


def validate_metrics_command(
    systems: SystemsArgument,
    labels: Annotated[
        Path | None,
        typer.Option(
            "--labels",
            help="Human labels: rows with id and label (JSONL, JSON, CSV, Parquet). Default: those in a store.",
        ),
    ] = None,
    repeat: Annotated[
        list[str] | None,
        typer.Option("--repeat", help="The same samples scored again. With several systems: NAME=FILE. Repeatable."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            help="Metric, or labels: with three or more systems, how well each metric ranks them as this does (Kendall's tau).",
        ),
    ] = None,
    pass_at: Annotated[
        str | None,
        typer.Option(
            "--pass-at",
            metavar="K,...",
            help="pass@k for these k, from repeated answers: the probability that one of k answers reaches research.threshold.",
        ),
    ] = None,
    fit_weights: Annotated[
        Path | None,
        typer.Option(
            "--fit-weights",
            metavar="FILE.json",
            help="Learn weights of the CCRS ratings from --labels, and write them for the metric ccrs.composite@FILE.json.",
        ),
    ] = None,
    metrics: OnlyMetricsOption = None,
    json_output: JsonOption = False,
    *,
    context: typer.Context,
) -> None:
    """Evaluate the metrics themselves.

    Distributions, ties, correlations, power, judge flips and agreement with people.
    """
    from ragstone.research import validate_metrics

    settings = settings_of(context)
    repeats = [parse_named_file(text) for text in repeat or ()]
    if any(name for name, _ in repeats):
        if nameless := [path for name, path in repeats if not name]:
            raise ConfigurationError(
                f"--repeat {nameless[0]} does not name a system, but others do. Write NAME=FILE for each."
            )
        by_system: dict[str, list[str]] = {}
        for name, path in repeats:
            by_system.setdefault(str(name), []).append(path)
    with stdin_as_file(systems) as named:
        sources = [parse_named_file(text) for text in named]
        report = validate_metrics(
            *({name: path} if name else path for name, path in sources),
            labels=None if labels is None else str(labels),
            repeats=by_system if any(name for name, _ in repeats) else [path for _, path in repeats],
            target=target,
            pass_at=() if pass_at is None else _numbers(pass_at),
            fit_weights=fit_weights,
            metrics=None if metrics is None else split_metrics(metrics),
            **arguments_of(context, settings, "analysis", "research"),
        )
    if json_output:
        print_json(report.to_dict())
    else:
        print_text(report)
    if fit_weights is not None:
        print_text(
            f"written: {fit_weights}. Score with these weights: --metrics ccrs.composite@{quote(str(fit_weights))}",
            err=True,
        )


def topicality_command(
    in_domain: Annotated[Path, typer.Argument(help="Outcomes of in-domain queries, from `evaluate --output`.")],
    out_of_domain: Annotated[Path, typer.Argument(help="Outcomes of out-of-domain queries on the same repository.")],
    metrics: OnlyMetricsOption = None,
    json_output: JsonOption = False,
    *,
    context: typer.Context,
) -> None:
    """Check if a repository is about a domain.

    Compares the scores of in-domain and out-of-domain queries.
    """
    from ragstone.research import topicality

    report = topicality(
        in_domain,
        out_of_domain,
        metrics=None if metrics is None else split_metrics(metrics),
        **arguments_of(context, settings_of(context), "analysis", "research"),
    )
    if json_output:
        print_json(report.to_dict())
    else:
        print_text(report)


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigurationError(f"--pass-at must be K or K,K, got {text!r}; for example --pass-at 1,5") from None
