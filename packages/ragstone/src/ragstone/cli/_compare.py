"""`ragstone compare`: compare systems, and gate CI on regressions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from ragstone._util.files import check_output
from ragstone._util.table import text_table
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._gate import check_junit
from ragstone.cli._options import read_sources
from ragstone.cli._output import print_json, print_text, sanitize_for_terminal
from ragstone.cli._report import read_texts
from ragstone.cli._settings import arguments_of, settings_of
from ragstone.cli._stdin import stdin_as_file
from ragstone.errors import ConfigurationError
from ragstone.experiments import compare
from ragstone.metrics import split_metrics
from ragstone.views import COMPARISON_WRITERS, CauseRow, cause_rows


def compare_command(
    systems: list[str],
    *,
    metrics: str | None = None,
    baseline: str | None = None,
    hypothesis: list[str] | None = None,
    primary: str | None = None,
    fail_if_worse: bool = False,
    gate_metrics: str | None = None,
    margin: float | None = None,
    equivalent_within: float | None = None,
    paired: bool | None = None,
    full: bool = False,
    data: list[str] | None = None,
    field: list[str] | None = None,
    rows: str | None = None,
    junit: Path | None = None,
    output: Path | None = None,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    """Find significant differences between systems or periods.

    Options:
        baseline: Compare each system with this one only. Default: all pairs.

    Tests and gates:
        hypothesis: A hypothesis, such as 'B > A', or a file of them. Repeatable.
        primary (METRIC): The metric that decides, tested alone. The others are exploratory.
        fail_if_worse: Exit with 1 if a system is significantly worse than the baseline.
        gate_metrics: Metrics or groups that the gate checks, comma-separated. Default: all.
        margin: Exit with 1 unless the data exclude a loss of this size.
        equivalent_within: Exit with 1 unless the data exclude a difference of this size.
        paired (--paired/--unpaired): Whether systems have the same samples. Default: except for traffic of stores.

    Output:
        full: Print all means and differences.
        data: The evaluated file of each system, in order, for texts and causes.
        output (-o): Write a page (.html), a summary (.md), tables (.tex) or differences (.csv).
    """
    settings = settings_of(context)
    gated = fail_if_worse or margin is not None or equivalent_within is not None
    if equivalent_within is not None and (fail_if_worse or margin is not None):
        raise ConfigurationError(
            "--equivalent-within excludes losses already. Give it without --fail-if-worse and --margin"
        )
    if gate_metrics is not None and not gated:
        raise ConfigurationError("--gate-metrics requires a gate: --fail-if-worse, or --margin for the stricter one.")
    if data is not None and len(data) != len(systems):
        raise ConfigurationError(
            f"--data is given {len(data)} times for {len(systems)} systems. Give it once for each, in the same order"
        )
    check_junit(junit, has_gate=gated, gates="--fail-if-worse, --margin or --equivalent-within")
    if output is not None:
        check_output(output, COMPARISON_WRITERS)
    with stdin_as_file(systems) as named:
        sources = read_sources(named)
        # As many files as sources, or none.
        samples = {source: read_texts(path, rows, field) for source, path in zip(sources, data or (), strict=False)}
        result = compare(
            sources,
            metrics=None if metrics is None else split_metrics(metrics),
            baseline=baseline,
            hypotheses=_read_hypotheses(hypothesis or ()),
            primary=primary,
            paired=paired,
            margin=equivalent_within if margin is None else margin,
            data=samples,
            **arguments_of(context, settings, "analysis"),
        )
        chosen = None if gate_metrics is None else split_metrics(gate_metrics)
        check = None
        if equivalent_within is not None:
            check = result.check_equivalence(equivalent_within, chosen)
        elif gated:
            check = result.check_regression(chosen, margin=margin)
        if check is not None and junit is not None:
            check.write_junit(junit)
        view = result.view(samples, questions=False) if output is None else result.write(output, samples, gate=check)
    if json_output:
        print_json(result.to_dict() | {"gate": check and check.to_dict()} | {"causes": _causes(view.causes)}, full=full)
    else:
        print_text(result)
        more = result.details() if full else "Add --full for the tables of all means and differences."
        print_text(f"\n{more}")
        if rows_of_causes := cause_rows(view.causes):
            head = ("where it fails", *map(sanitize_for_terminal, view.causes))
            print_text(f"\n{text_table([head, *rows_of_causes])}")
        if check is not None:
            print_text(f"\n{check.describe(printed=result.notes)}")
    if check is not None and not check.ok:
        raise typer.Exit(ExitCode.GATE)


def _read_hypotheses(texts: Sequence[str]) -> dict[str, str]:
    """Return hypotheses by name: those of an option, and those of files with a line NAME: HYPOTHESIS for each."""
    found: dict[str, str] = {}
    for text in texts:
        if not os.path.isfile(text):  # noqa: PTH113 - a text can be too long for `Path.is_file`
            found[text] = text
            continue
        lines = map(str.strip, Path(text).read_text(encoding="utf-8").splitlines())
        for line in (line for line in lines if line and not line.startswith("#")):
            name, _, hypothesis = map(str.strip, line.partition(":"))
            if not (name and hypothesis) or name in found:
                raise ConfigurationError(
                    f"{text!r}: a line must be NAME: HYPOTHESIS with a name of its own, got {line[:80]!r}"
                )
            found[name] = hypothesis
    return found


def _causes(causes: Mapping[str, Sequence[CauseRow]]) -> dict[str, list[dict[str, Any]]]:
    return {
        name: [
            {"cause": row.cause, "is_wrong": row.is_wrong, "n": row.n, "share": row.share and asdict(row.share)}
            for row in rows
        ]
        for name, rows in causes.items()
    }
