"""`ragstone store export`: the outcomes of a store as a file for analysis."""

from __future__ import annotations

from pathlib import Path

import typer

from ragstone._util.quantities import count
from ragstone.cli._exit_codes import ExitCode
from ragstone.cli._options import parse_time_range
from ragstone.cli._output import print_result, print_text
from ragstone.errors import ConfigurationError
from ragstone.experiments import TimeRange
from ragstone.sinks import check_export_path, export_row, write_export
from ragstone.store import open_store


def export_command(source: str, output: Path, *, text: bool = False, json_output: bool = False) -> None:
    """Write the outcomes of a store to one file.

    With app, release, tags, score, interval and weight. Only its owner can read the file. Damaged rows are left out.

    Options:
        source (STORE): The store, or a period of it: STORE@-7d.., STORE@FROM..TO.
        output: The file to write: .jsonl. An existing one is replaced.
        text (--texts): Also write texts, reasons and the judge's replies.
    """
    opened = parse_time_range(source)
    period = opened if isinstance(opened, TimeRange) else TimeRange(opened)
    check_export_path(output)
    if Path(str(period.store)).absolute() == output.absolute():
        raise ConfigurationError(f"the output {str(output)!r} is the store itself.")
    damaged: list[str] = []
    try:
        with open_store(period.store, mode="read") as store:
            exported = store.outcomes.export(since=period.since, until=period.until, include_text=text, damaged=damaged)
            n = write_export(output, (export_row(*row, include_text=text) for row in exported))
    except OSError as error:
        # Under the name of the output, and not of its draft.
        raise OSError(error.errno or 0, error.strerror or str(error), str(output)) from error
    values = {"rows": n, "output": str(output), "damaged": len(damaged)}
    print_result(values, f"{n:,} outcomes written to {output}", json_output=json_output)
    if damaged:
        print_text(f"{count(len(damaged), 'damaged outcome')} left out. The first: {damaged[0]}", err=True)
        raise typer.Exit(ExitCode.GATE)
