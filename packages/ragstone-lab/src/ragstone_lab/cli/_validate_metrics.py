"""`ragstone lab validate-metrics`: validate the metrics."""

from __future__ import annotations

from pathlib import Path

import typer

from ragstone.cli.extension import arguments_of, parse_named_file, print_result, print_text, settings_of, stdin_as_file
from ragstone.errors import ConfigurationError
from ragstone.metrics import quote, split_metrics


def validate_metrics_command(
    systems: list[str],
    *,
    labels: Path | None = None,
    label: list[str] | None = None,
    repeat: list[str] | None = None,
    fit_weights: Path | None = None,
    metrics: str | None = None,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    """Evaluate the metrics themselves.

    Distributions, ties, correlations, power, judge flips and agreement with people.

    Options:
        labels: Human labels, as for `lab judge-card`. Default: those in a store.
        repeat: The same samples scored again. With several systems: NAME=FILE. Repeatable.
        fit_weights (FILE.json): Learn weights of --metrics from --labels, for composite@FILE.json.
    """
    from ragstone_lab import validate_metrics

    settings = settings_of(context)
    repeats: dict[str, list[str]] = {}
    for name, path in map(parse_named_file, repeat or ()):
        repeats.setdefault(name or "", []).append(path)
    if "" in repeats and len(repeats) > 1:
        raise ConfigurationError(
            f"--repeat {repeats[''][0]} does not name a system, but others do. Write NAME=FILE for each."
        )
    with stdin_as_file(systems) as named:
        sources = [parse_named_file(text) for text in named]
        report = validate_metrics(
            *({name: path} if name else path for name, path in sources),
            labels=None if labels is None else str(labels),
            label_columns=label or (),
            repeats=repeats.get("", repeats),
            fit_weights=fit_weights,
            metrics=None if metrics is None else split_metrics(metrics),
            **arguments_of(context, settings, "analysis", "research"),
        )
    print_result(report.to_dict(), report, json_output=json_output)
    if fit_weights is not None:
        print_text(
            f"written: {fit_weights}. Score with these weights: --metrics composite@{quote(str(fit_weights))}", err=True
        )
