"""`ragstone udcg`: learn UDCG's weights, see how well it foretells the answer, and rank passages by utility."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ragstone.cli._models import ModelOptions, takes_models
from ragstone.cli._options import JsonOption
from ragstone.cli._output import print_json, progress_bar
from ragstone.cli._panels import LIMITS, OUTPUT, STATISTICS
from ragstone.errors import ConfigurationError

__all__ = ["udcg_app"]

udcg_app = typer.Typer(
    help="UDCG: learn its weights, correlate it with graded answers, rank passages by utility.", no_args_is_help=True
)

FileArgument = Annotated[
    Path, typer.Argument(help="Rows with query and contexts, several a question: JSONL, JSON, CSV or Parquet.")
]
ConcurrencyOption = Annotated[
    int, typer.Option("--concurrency", min=1, rich_help_panel=LIMITS, help="Rows in work at once.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, rich_help_panel=STATISTICS, help="Of folds and bootstrap.")]


@udcg_app.command()
@takes_models
def fit(
    file: FileArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", rich_help_panel=OUTPUT, help="Where the weights go, as JSON.")
    ] = Path("theta.json"),
    svm_c: Annotated[
        list[float] | None, typer.Option("--svm-c", help="A candidate for the cost C; may be given several times.")
    ] = None,
    seed: SeedOption = 0,
    concurrency: ConcurrencyOption = 16,
    json_output: JsonOption = False,
    *,
    models: ModelOptions,
) -> None:
    """Learn UDCG-theta from graded contexts, and print how it ranks contexts of questions it has not seen."""
    from ragstone.research import fit_udcg

    _writable(output)
    options: dict[str, Any] = {"svm_c": tuple(svm_c)} if svm_c else {}
    judge, reader = models.models_or_none()
    with progress_bar("reading") as progress:
        found = fit_udcg(
            str(file), reader=reader, judge=judge, seed=seed, concurrency=concurrency, progress=progress, **options
        )
    found.theta.save(output)
    _format_problems(found.errors)
    if json_output:
        print_json(found.to_dict() | {"output": str(output)})
    else:
        typer.echo(str(found))
        typer.echo(f"saved; use it with: ragstone evaluate FILE --metrics udcg@{output}", err=True)


@udcg_app.command()
@takes_models
def correlate(
    file: FileArgument,
    theta: Annotated[
        Path | None,
        typer.Option("--theta", help="Weights from `ragstone udcg fit`; without it they are cross-validated."),
    ] = None,
    erag: Annotated[
        bool, typer.Option("--erag", help="Also have the reader answer from each passage alone (eRAG).")
    ] = False,
    seed: SeedOption = 0,
    concurrency: ConcurrencyOption = 16,
    json_output: JsonOption = False,
    *,
    models: ModelOptions,
) -> None:
    """Correlate UDCG and the usual ranking metrics with graded answers, question by question."""
    from ragstone.research import correlate_udcg

    judge, reader = models.models_or_none()
    with progress_bar("reading") as progress:
        found = correlate_udcg(
            str(file),
            theta=theta,
            erag=erag,
            reader=reader,
            judge=judge,
            seed=seed,
            concurrency=concurrency,
            progress=progress,
        )
    _format_problems(found.errors)
    if json_output:
        print_json(found.to_dict())
    else:
        typer.echo(str(found))


@udcg_app.command()
@takes_models
def rank(
    file: FileArgument,
    top_k: Annotated[
        int | None, typer.Option("--top-k", "-k", min=1, help="Keep the best k passages; without it all.")
    ] = None,
    rank_by: Annotated[str, typer.Option("--rank-by", help="utility or erag.")] = "utility",
    keep_order: Annotated[
        bool, typer.Option("--keep-order", help="Write beside each passage what was found, and move nothing.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", rich_help_panel=OUTPUT, help="Where the samples go (JSONL); without it to stdout."
        ),
    ] = None,
    concurrency: ConcurrencyOption = 16,
    json_output: JsonOption = False,
    *,
    models: ModelOptions,
) -> None:
    """Put each sample's passages in the order of what they are worth to the reader (an oracle re-ranker)."""
    from ragstone.research import rank_udcg

    if output is not None:
        _writable(output)
    elif json_output:
        raise ConfigurationError("--json prints the counts where the samples would go; give --output FILE with it")
    if rank_by not in ("utility", "erag"):
        raise ConfigurationError(f"--rank-by must be utility or erag, got {rank_by!r}")
    judge, reader = models.models_or_none()
    with progress_bar("ranking") as progress:
        found = rank_udcg(
            str(file),
            top_k=top_k,
            rank_by="erag" if rank_by == "erag" else "utility",
            keep_order=keep_order,
            reader=reader,
            judge=judge,
            concurrency=concurrency,
            progress=progress,
        )
    _format_problems(found.errors)
    if output is None:
        _print_rows(found.rows)
    else:
        found.to_jsonl(output)
    if json_output:
        print_json(found.to_dict())
    else:
        typer.echo(str(found), err=True)


def _print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        typer.echo(json.dumps(row, ensure_ascii=False))


def _format_problems(errors: Sequence[str]) -> None:
    for error in errors:
        typer.echo(f"could not be asked: {error}", err=True)


def _writable(output: Path) -> None:
    if not output.absolute().parent.is_dir():
        raise ConfigurationError(
            f"the folder of --output {str(output)!r} does not exist; make it, or give another path"
        )
    if output.is_dir():
        raise ConfigurationError(f"--output {str(output)!r} is a folder; give the path of a file")
