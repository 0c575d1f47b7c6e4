"""`ragstone lab topicality`: check if a repository is about a domain."""

from __future__ import annotations

from pathlib import Path

import typer

from ragstone.cli.extension import arguments_of, print_result, settings_of
from ragstone.metrics import split_metrics


def topicality_command(
    in_domain: Path,
    out_of_domain: list[Path],
    *,
    metrics: str | None = None,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    """Check if a repository is about a domain.

    Compares the scores of in-domain and out-of-domain queries.

    Options:
        in_domain: Outcomes of in-domain queries, from `evaluate --output`.
        out_of_domain: Outcomes of out-of-domain queries on the same repository, the closest first.
    """
    from ragstone_lab import topicality

    report = topicality(
        in_domain,
        *out_of_domain,
        metrics=None if metrics is None else split_metrics(metrics),
        **arguments_of(context, settings_of(context), "analysis", "research"),
    )
    print_result(report.to_dict(), report, json_output=json_output)
