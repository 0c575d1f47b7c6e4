"""`ragstone store export`: the outcomes of a store as a file for analysis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ragstone.cli._options import JsonOption, parse_time_range
from ragstone.cli._output import print_json, print_text
from ragstone.errors import ConfigurationError
from ragstone.experiments import TimeRange
from ragstone.sinks import check_export_path, export_row, label_trace, record_row, write_export
from ragstone.store import ExportedOutcome, open_store


def export_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="STORE",
            help="The store (a file or postgresql://...), or a period of it: STORE@-7d.., STORE@FROM..TO.",
        ),
    ],
    output: Annotated[Path, typer.Argument(help="The file to write: .jsonl or .parquet. An existing one is replaced.")],
    text: Annotated[
        bool, typer.Option("--text", help="Also write queries, answers, passages, reasons and the judge's replies.")
    ] = False,
    records: Annotated[
        bool,
        typer.Option(
            "--records",
            help="Write whole outcomes and requests, with all texts, for `ragstone store merge` into another store.",
        ),
    ] = False,
    json_output: JsonOption = False,
) -> None:
    """Write all outcomes with app, release, tags, score, interval and weight to one file. Only its owner can read it."""
    if text and records:
        raise ConfigurationError("--records already writes all texts, in another form than --text. Give one of them.")
    opened = parse_time_range(source)
    period = opened if isinstance(opened, TimeRange) else TimeRange(opened)
    check_export_path(output)
    if Path(str(period.store)).absolute() == output.absolute():
        raise ConfigurationError(f"the output {str(output)!r} is the store itself.")
    try:
        with open_store(period.store, mode="read") as store:
            exported = store.exported(since=period.since, until=period.until, include_text=text or records)
            rows = _records(exported) if records else (export_row(*row[:3], include_text=text) for row in exported)
            n = write_export(output, rows, records=records)
    except OSError as error:
        # Under the name of the output, and not of its draft.
        raise OSError(error.errno or 0, error.strerror or str(error), str(output)) from error
    if json_output:
        print_json({"rows": n, "output": str(output)})
    else:
        print_text(f"{n:,} outcomes written to {output}")


def _records(exported: Iterable[ExportedOutcome]) -> Iterator[dict[str, Any]]:
    """Yield whole records. Of consecutive outcomes of a request, the first one has the request."""
    last = None
    for each in exported:
        trace = None
        if each.delivery.trace_id != last:
            last = each.delivery.trace_id
            trace = each.trace or label_trace(each.delivery)
        yield record_row(each.delivery.outcome, trace, is_finished=each.state != "pending")
