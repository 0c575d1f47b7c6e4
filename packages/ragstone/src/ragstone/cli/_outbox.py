"""`ragstone deliveries`: what sinks did not take, and sending it again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Literal

import typer

from ragstone._util.table import text_table
from ragstone.cli._options import JsonOption
from ragstone.cli._output import print_json, print_text, sanitize_for_terminal
from ragstone.errors import ConfigurationError
from ragstone.store import open_store

__all__ = ["deliveries_command"]

_StoreArgument = Annotated[str, typer.Argument(help="The store: what Monitor(store=...) was given.")]
_SinkOption = Annotated[str | None, typer.Option("--sink", help="Only this sink, by its name in `ragstone status`.")]


def deliveries_command(
    store: _StoreArgument,
    sink: _SinkOption = None,
    state: Annotated[
        Literal["pending", "sent", "skipped", "failed"], typer.Option("--state", help="Which deliveries.")
    ] = "failed",
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many are listed at most.")] = 50,
    retry: Annotated[
        bool, typer.Option("--retry", help="Put them in line once more; the worker must not be running.")
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """List what sinks refused (or what waits, was sent, has no place), with the reasons; or send it again."""
    if retry:
        with open_store(store, mode="own") as owned:
            n = owned.requeue_deliveries(sink=sink, state=state)
        if json_output:
            print_json({"requeued": n})
        else:
            typer.echo(f"{n} deliveries are in line again; the next worker of this store sends them")
        return
    with open_store(store, mode="read") as opened:
        rows = opened.deliveries(sink=sink, state=state, limit=limit)
        books = opened.ledger().outbox
    if sink is not None and sink not in books:
        raise ConfigurationError(f"the store has no sink {sink!r}; it has {', '.join(map(repr, books)) or 'none'}")
    n_all = sum(getattr(row, state) for name, row in books.items() if sink is None or name == sink)
    if json_output:
        print_json({"n": n_all, "deliveries": [asdict(row) for row in rows]})
        return
    if rows:
        table = [("sink", "metric", "trace", "attempts", "last error")]
        table += [
            (
                sanitize_for_terminal(r.sink),
                sanitize_for_terminal(r.metric),
                sanitize_for_terminal(r.trace_id),
                str(r.attempts),
                sanitize_for_terminal(r.last_error) if r.last_error else "",
            )
            for r in rows
        ]
        print_text(text_table(table, align="lllr", n_keys=3))
    typer.echo(f"{n_all} {state}" + (f", {len(rows)} of them listed" if len(rows) < n_all else ""), err=True)
