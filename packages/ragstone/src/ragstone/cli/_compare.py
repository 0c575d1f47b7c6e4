"""`ragstone compare`: systems side by side, and the gate that CI stands at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ragstone.cli._options import JsonOption
from ragstone.cli._output import print_json, print_text
from ragstone.errors import ConfigurationError
from ragstone.experiments import compare

__all__ = ["compare_command"]

EXIT_GATE = 1


def compare_command(
    files: Annotated[
        list[Path],
        typer.Argument(help="At least two: outcomes (evaluate --output), or stores. The first is the old one."),
    ],
    name: Annotated[
        list[str] | None, typer.Option("--name", help="What a system is called; once for each file, in their order.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option("--metrics", help="Metrics or groups, with commas between. Default: all there are.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", help="Compare the others with this system only, not all with all.")
    ] = None,
    claim: Annotated[
        list[str] | None,
        typer.Option(
            "--claim",
            help="A claim named beforehand: 'B > A', 'B != A', 'B > A on METRIC'. May be repeated; corrected for their number.",
        ),
    ] = None,
    across_metrics: Annotated[
        bool, typer.Option("--across-metrics", help="Hold the level for all metrics together, not for each.")
    ] = False,
    detect: Annotated[
        float | None,
        typer.Option("--detect", help="The difference that matters (0.01). Default: a hundredth of a metric's range."),
    ] = None,
    fail_if_worse: Annotated[
        bool, typer.Option("--fail-if-worse", help="Exit with 1 if a system is worse than the baseline (or the first).")
    ] = False,
    gate: Annotated[
        str | None,
        typer.Option("--gate", help="Metrics or groups that must not become worse, with commas between; default all."),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option("--margin", help="Exit with 1 unless a loss this large (0.01) is ruled out: the stricter gate."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="One less the chance of a false claim.")] = 0.95,
    resamples: Annotated[int, typer.Option("--resamples", min=1, help="Permutations drawn.")] = 10_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the permutations.")] = 0,
    allow_different_judges: Annotated[
        bool, typer.Option("--allow-different-judges", help="Compare scores of different judges, with a warning.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Compare systems evaluated on the same samples: what differs, by how much, and what cannot be said."""
    gated = fail_if_worse or margin is not None
    if gate is not None and not gated:
        msg = "--gate names what must not become worse; add --fail-if-worse, or --margin for the stricter gate"
        raise ConfigurationError(msg)
    result = compare(
        _systems(files, name or []),
        metrics=_names(metrics),
        baseline=baseline,
        hypotheses=claim or (),
        across_metrics=across_metrics,
        detect=detect,
        level=level,
        n_resamples=resamples,
        seed=seed,
        allow_different_judges=allow_different_judges,
    )
    check = result.check_regression(_names(gate), margin=margin) if gated else None
    if json_output:
        print_json(result.to_dict() | {"gate": check and check.to_dict()})
    else:
        print_text(result)
        if check is not None:
            print_text(f"\n{check}")
    if check is not None and not check.ok:
        raise typer.Exit(EXIT_GATE)


def _systems(files: list[Path], names: list[str]) -> dict[str, Path] | list[Path]:
    if not names:
        return files
    if len(names) != len(files) or len(set(names)) != len(names):
        msg = f"--name is given once for each file, with different names: {len(files)} files, and the names {names!r}"
        raise ConfigurationError(msg)
    return dict(zip(names, files, strict=True))


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
