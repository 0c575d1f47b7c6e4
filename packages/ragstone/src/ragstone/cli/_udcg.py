"""`ragstone lab udcg`: fit UDCG's weights, correlate it with answer quality, rank passages, repeat the experiments."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from ragstone._util.files import check_not_read
from ragstone.cli._models import Models
from ragstone.cli._output import print_json, progress_bar, terminal_options
from ragstone.cli._settings import arguments_of, settings_of
from ragstone.errors import ConfigurationError
from ragstone.metrics import quote


def fit(file: Path, *, output: Path = Path("theta.json"), json_output: bool = False, context: typer.Context) -> None:
    """Fit the weights of UDCG to graded contexts.

    Prints how well UDCG with these weights ranks the contexts of held-out queries.

    Output:
        output (-o): JSON file for the weights.
    """
    from ragstone.research import fit_udcg

    _check_writable(output, file)
    settings = settings_of(context)
    judge, reader = Models(settings).judge_and_reader()
    with progress_bar("reading") as progress:
        fitted = fit_udcg(
            str(file),
            reader=reader,
            judge=judge,
            progress=progress,
            **arguments_of(context, settings, "limits", "analysis", "research"),
        )
    fitted.theta.save(output)
    _print_errors(fitted.errors)
    if json_output:
        print_json(fitted.to_dict() | {"output": str(output)})
    else:
        typer.echo(str(fitted))
        typer.echo(f"saved. Use it with: ragstone evaluate FILE --metrics udcg_theta@{quote(str(output))}", err=True)


def correlate(
    file: Path, *, theta: Path | None = None, erag: bool = False, json_output: bool = False, context: typer.Context
) -> None:
    """Correlate UDCG and other ranking metrics with graded answers.

    Query by query, with weights of UDCG that are cross-validated or given.

    Options:
        theta: Weights from `ragstone lab udcg fit`. Default: cross-validated weights.
        erag: Also let the reader answer from each passage alone (eRAG).
    """
    from ragstone.research import correlate_udcg

    settings = settings_of(context)
    judge, reader = Models(settings).judge_and_reader()
    with progress_bar("reading") as progress:
        result = correlate_udcg(
            str(file),
            theta=theta,
            erag=erag,
            reader=reader,
            judge=judge,
            progress=progress,
            **arguments_of(context, settings, "limits", "analysis"),
        )
    _print_errors(result.errors)
    if json_output:
        print_json(result.to_dict())
    else:
        typer.echo(str(result))


def rank(
    file: Path,
    *,
    top_k: int | None = None,
    erag: bool = False,
    keep_order: bool = False,
    output: Path | None = None,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    """Sort the passages of each sample by their utility.

    This is an oracle reranker: it knows the utility of each passage for the reader.

    Options:
        top_k (-k >=1): Keep only the best k passages. Default: all.
        erag: Sort by the reader's answer from each passage alone (eRAG).
        keep_order: Add the values to each passage without reordering.

    Output:
        output (-o): JSONL file for the samples. Default: stdout.
    """
    from ragstone.research import rank_udcg

    if output is not None:
        _check_writable(output, file)
    elif json_output:
        raise ConfigurationError(
            "--json prints the counts to stdout, where the samples would be printed. Add --output FILE."
        )
    settings = settings_of(context)
    judge, reader = Models(settings).judge_and_reader()
    with progress_bar("ranking") as progress:
        ranked = rank_udcg(
            str(file),
            top_k=top_k,
            rank_by="erag" if erag else "utility",
            keep_order=keep_order,
            reader=reader,
            judge=judge,
            concurrency=settings.limits.concurrency,
            progress=progress,
        )
    _print_errors(ranked.errors)
    if output is None:
        _print_rows(ranked.rows)
    else:
        ranked.to_jsonl(output)
    if json_output:
        print_json(ranked.to_dict())
    else:
        typer.echo(str(ranked), err=True)


def _print_rows(rows: Sequence[Mapping[str, Any]]) -> None:
    for row in rows:
        typer.echo(json.dumps(row, ensure_ascii=terminal_options()["ascii_only"]))


def _print_errors(errors: Sequence[str]) -> None:
    for error in errors:
        typer.echo(f"failed: {error}", err=True)


def _check_writable(output: Path, file: Path) -> None:
    check_not_read(output, file)
    if not output.absolute().parent.is_dir():
        raise ConfigurationError(
            f"the directory of --output {str(output)!r} does not exist. Create it, or give another path."
        )
    if output.is_dir():
        raise ConfigurationError(f"--output {str(output)!r} is a directory. Give the path of a file.")
