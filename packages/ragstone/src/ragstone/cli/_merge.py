"""`ragstone store merge`: outcomes of batch jobs and other stores."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ragstone._util.plural import count
from ragstone.cli._options import JsonOption
from ragstone.cli._output import print_json, print_text
from ragstone.replay import merge_outcomes
from ragstone.worker import advise, read_ledger


def merge_command(
    store: Annotated[
        str, typer.Argument(help="The store: a file, which is created if it does not exist, or postgresql://...")
    ],
    outcomes: Annotated[
        list[str],
        typer.Argument(
            help="Files or directories that `ragstone store export --records` or `ragstone.ray.score` wrote."
        ),
    ],
    keep_stored: Annotated[
        bool,
        typer.Option("--keep-stored", help="Keep what is stored if a request or an outcome of the same id differs."),
    ] = False,
    restore_erased: Annotated[
        bool, typer.Option("--restore-erased", help="Also add requests that `ragstone store erase` removed.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Add requests and outcomes of a batch job or of another store, each once. Everything is checked first."""
    report = merge_outcomes(store, outcomes, keep_stored=keep_stored, restore_erased=restore_erased)
    if json_output:
        print_json(asdict(report))
        return
    print_text(
        f"{report.n_traces:,} requests and {report.n_outcomes:,} outcomes added, {report.n_known:,} outcomes were known."
    )
    if report.n_erased:
        print_text(
            f"{count(report.n_erased, 'request')} skipped, because `ragstone store erase` removed them from this store. "
            "--restore-erased adds them."
        )
    if report.n_conflicts:
        print_text(f"{report.n_conflicts:,} requests or outcomes differ from those with the same id, which are kept.")
    if report.n_pending:
        print_text("\n".join(advise(store, read_ledger(store))))
