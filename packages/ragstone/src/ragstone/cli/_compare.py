"""`ragstone compare`: systems side by side, and the gate that CI stands at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragstone.cli._options import (
    JsonOption,
    OnlyMetricsOption,
    SystemsArgument,
    parse_named_file,
    parse_names,
    parse_time_range,
)
from ragstone.cli._output import print_json, print_text
from ragstone.cli._panels import STATISTICS
from ragstone.cli._stdin import stdin_as_file
from ragstone.errors import ConfigurationError
from ragstone.experiments import OutcomeSource, TimeRange, compare

__all__ = ["compare_command"]

EXIT_GATE = 1


def compare_command(
    systems: SystemsArgument,
    metrics: OnlyMetricsOption = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Compare the others with this system only, not all with all.")
    ] = None,
    hypothesis: Annotated[
        list[str] | None,
        typer.Option(
            "--hypothesis",
            rich_help_panel=STATISTICS,
            help="A claim named beforehand: 'B > A', 'B != A', 'B > A on METRIC'. May be repeated; corrected for their number.",
        ),
    ] = None,
    across_metrics: Annotated[
        bool,
        typer.Option(
            "--across-metrics",
            rich_help_panel=STATISTICS,
            help="Hold the level for all metrics together, not for each.",
        ),
    ] = False,
    min_effect: Annotated[
        float | None,
        typer.Option(
            "--min-effect",
            rich_help_panel=STATISTICS,
            help="The difference that matters (0.01). Default: a hundredth of a metric's range.",
        ),
    ] = None,
    fail_if_worse: Annotated[
        bool,
        typer.Option(
            "--fail-if-worse",
            rich_help_panel=STATISTICS,
            help="Exit with 1 if a system is worse than the baseline (or the first file).",
        ),
    ] = False,
    gate_metrics: Annotated[
        str | None,
        typer.Option(
            "--gate-metrics",
            rich_help_panel=STATISTICS,
            help="Metrics or groups that must not become worse, with commas between; without it all.",
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            "--margin",
            rich_help_panel=STATISTICS,
            help="Exit with 1 unless a loss this large (0.01) is ruled out: the stricter gate.",
        ),
    ] = None,
    confidence_level: Annotated[
        float,
        typer.Option("--confidence-level", rich_help_panel=STATISTICS, help="One less the chance of a false claim."),
    ] = 0.95,
    permutations: Annotated[
        int, typer.Option("--permutations", min=1, rich_help_panel=STATISTICS, help="Behind p-values.")
    ] = 10_000,
    seed: Annotated[int, typer.Option("--seed", min=0, rich_help_panel=STATISTICS, help="Of the permutations.")] = 0,
    allow_different_judges: Annotated[
        bool,
        typer.Option(
            "--allow-different-judges",
            rich_help_panel=STATISTICS,
            help="Compare scores of different judges, with a warning.",
        ),
    ] = False,
    paired: Annotated[
        bool | None,
        typer.Option(
            "--paired/--unpaired",
            rich_help_panel=STATISTICS,
            help="Whether the systems have the same samples. Default: unpaired if the stores have different samples (traffic).",
        ),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Compare systems evaluated on the same samples, or traffic of different times: what differs, and by how much."""
    gated = fail_if_worse or margin is not None
    if gate_metrics is not None and not gated:
        raise ConfigurationError(
            "--gate-metrics names what must not become worse; add --fail-if-worse, or --margin for the stricter gate"
        )
    with stdin_as_file(systems) as named:
        result = compare(
            _sources(named),
            metrics=None if metrics is None else parse_names(metrics),
            baseline=baseline,
            hypotheses=hypothesis or (),
            across_metrics=across_metrics,
            min_effect=min_effect,
            confidence_level=confidence_level,
            n_permutations=permutations,
            seed=seed,
            allow_different_judges=allow_different_judges,
            paired=paired,
        )
        check = (
            result.check_regression(None if gate_metrics is None else parse_names(gate_metrics), margin=margin)
            if gated
            else None
        )
    if json_output:
        print_json(result.to_dict() | {"gate": check and check.to_dict()})
    else:
        print_text(result)
        if check is not None:
            print_text(f"\n{check}")
    if check is not None and not check.ok:
        raise typer.Exit(EXIT_GATE)


def _sources(systems: list[str]) -> dict[str, OutcomeSource] | list[OutcomeSource]:
    named = [parse_named_file(text) for text in systems]
    if not any(name for name, _ in named):
        return [parse_time_range(path) for _, path in named]
    found: dict[str, OutcomeSource] = {}
    for name, path in named:
        source = parse_time_range(path)
        if (called := name or (source.name if isinstance(source, TimeRange) else Path(path).stem)) in found:
            raise ConfigurationError(
                f"two systems are called {called!r}; write NAME=FILE, with a name of its own for each"
            )
        found[called] = source
    return found
