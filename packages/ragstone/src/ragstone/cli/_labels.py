"""`ragstone labels`: draw requests that people should label, and add labels from files."""

from __future__ import annotations

import getpass
import shlex
from dataclasses import asdict
from pathlib import Path

import typer

from ragstone._util.csv_table import csv_table
from ragstone._util.files import check_not_read, check_output, open_output
from ragstone._util.quantities import count
from ragstone.cli._options import parse_time_range
from ragstone.cli._output import print_result
from ragstone.cli._settings import arguments_of, settings_of
from ragstone.errors import ConfigurationError
from ragstone.experiments import add_labels, choose_cases, draw_to_label, drawn_rows, kind_of_set
from ragstone.store import quote_store


def draw_command(
    store: str, *, limit: int = 100, output: Path | None = None, json_output: bool = False, context: typer.Context
) -> None:
    """Draw scored requests at random, to be labeled.

    The metrics disagree about half of them. The store keeps the probability of each draw.

    Options:
        limit (>=1): Number of requests to draw.
        output (-o): CSV file for the drawn requests without a label.
    """
    check_not_read(output and check_output(output), store)
    if output is not None and output.exists():
        raise ConfigurationError(
            f"{str(output)!r} exists and may contain labels. Add these (ragstone labels add), and name another file."
        )
    drawn = draw_to_label(store, limit, seed=settings_of(context).analysis.seed)
    if output is not None:
        rows = drawn_rows(store)
        with open_output(output, newline="", errors="replace") as file:
            file.write(csv_table([list(rows[0]) if rows else ["trace_id", "label"], *(row.values() for row in rows)]))
    text = f"{drawn.n_new:,} of {drawn.n_scored:,} scored requests drawn, {drawn.n_drawn:,} in all draws.\n"
    shown = quote_store(store)
    if output is None:
        text += f"label them in a browser: ragstone view {shown}, then open Label answers"
    else:
        text += (
            f"fill in the labels (correct, partly, wrong), then: ragstone labels add {shown} {shlex.quote(str(output))}"
        )
    print_result(asdict(drawn), text, json_output=json_output)


def cases_command(
    store: str,
    *,
    where: str | None = None,
    worst: int | None = None,
    limit: int = 100,
    output: Path | None = None,
    context: typer.Context,
) -> None:
    """Write scored requests as cases of a test set.

    Without --worst they are drawn at random, with weights. Corrected answers become references.

    Options:
        store: The store, or a period of it: STORE@-7d...
        where: Only requests with these labels, scores or cause: "cause=missed_passage".
        worst (>=1): The worst wrong answers instead, at most this number.
        limit (>=1): Expected number of drawn cases.
        output (-o): Write to this JSONL file, which the store notes for erasures.
    """
    check_not_read(output and check_output(output), store)
    cases = choose_cases(
        parse_time_range(store), where=where, worst=worst, limit=limit, seed=settings_of(context).analysis.seed
    )
    if output is None:
        for line in cases.lines():
            typer.echo(line, nl=False)
    else:
        cases.write(output)
    drawn = f"{count(len(cases.weights), 'case')} of {count(cases.n_selected, 'request')}"
    lines = [f"{drawn}. {kind_of_set(cases.estimates)}"]
    if cases.n_removed:
        lines.append(f"{count(cases.n_removed, 'request')} without a text left out: retention removed the texts.")
    shown = "-" if output is None else shlex.quote(str(output))
    lines.append(f"ask again: ragstone evaluate {shown} --app MODULE:NAME")
    lines.append(f"try repairs: ragstone repair {shown} --app MODULE:NAME")
    typer.echo("\n".join(lines), err=True)


def add_command(
    store: str,
    file: Path,
    *,
    label: list[str] | None = None,
    rows: str | None = None,
    author: str | None = None,
    json_output: bool = False,
    context: typer.Context,
) -> None:
    """Add labels from a file.

    A label replaces the one that the same author gave before.

    Options:
        file: Rows with trace_id or question, label and author, or a known layout.
        author: Author of rows without one. Default: the name of this user.
    """
    added = add_labels(
        store,
        str(file),
        author=author or _user(),
        label_columns=label or (),
        rows=rows,
        **arguments_of(context, settings_of(context), "research"),
    )
    text = f"{count(added.n_new, 'label')} added"
    if added.n_replaced:
        text += f", {added.n_replaced:,} replaced"
    if added.n_repeated:
        text += f". {count(added.n_repeated, 'row is', 'rows are')} about the same request and author as a later row, which counts"
    lines = [f"{text}.", *added.notes, f"agreement with the metrics: ragstone report {quote_store(store)}"]
    print_result(asdict(added), "\n".join(lines), json_output=json_output)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        raise ConfigurationError("the name of this user is not known. Name the author: --author NAME") from None
