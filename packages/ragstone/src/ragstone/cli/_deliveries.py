"""`ragstone store deliveries`: list deliveries to sinks and retry them."""

from __future__ import annotations

from typing import Literal

import typer

from ragstone._util.table import text_table
from ragstone.cli._output import print_json, print_result, print_text, sanitize_for_terminal
from ragstone.errors import ConfigurationError
from ragstone.store import open_store


def deliveries_command(
    store: str,
    *,
    sink: str | None = None,
    state: Literal["pending", "sent", "skipped", "failed"] = "failed",
    limit: int = 50,
    retry: bool = False,
    json_output: bool = False,
) -> None:
    """List deliveries to sinks by state, or retry them.

    The list has the last error of each.

    Options:
        store: The store: a file or postgresql://...
        sink: Only this sink, named as in `ragstone status`.
        state: State of the deliveries.
        limit (>=1): Maximum number of listed deliveries.
        retry: Reset them to pending.
    """
    if retry:
        with open_store(store, mode="own") as owned:
            n = owned.deliveries.requeue(sink=sink, state=state)
        text = f"{n} deliveries are pending again. The next worker of this store sends them."
        print_result({"requeued": n}, text, json_output=json_output)
        return
    with open_store(store, mode="read") as opened:
        rows = opened.deliveries.read(sink=sink, state=state, limit=limit)
        counts = opened.ledger().outbox
    if sink is not None and sink not in counts:
        raise ConfigurationError(
            f"unknown sink {sink!r}. Sinks of this store: {', '.join(map(repr, counts)) or 'none'}."
        )
    n_all = sum(getattr(row, state) for name, row in counts.items() if sink is None or name == sink)
    if json_output:
        print_json({"n": n_all, "deliveries": [row._asdict() for row in rows]})
        return
    if rows:
        table: list[tuple[str, ...]] = [("sink", "metric", "trace", "attempts", "last error")]
        table += [
            (
                *map(sanitize_for_terminal, (r.sink, r.metric or r.kind, r.trace_id or r.item_id)),
                str(r.attempts),
                sanitize_for_terminal(r.last_error) if r.last_error else "",
            )
            for r in rows
        ]
        print_text(text_table(table, align="lllr", n_keys=3))
    typer.echo(f"{n_all} {state}" + (f", {len(rows)} listed" if len(rows) < n_all else ""), err=True)
