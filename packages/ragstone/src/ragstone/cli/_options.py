"""Options that several commands share, apart from those of models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "ConcurrencyOption",
    "DeadlineOption",
    "JsonOption",
    "MetricsOption",
    "OnlyMetricsOption",
    "SinkOption",
    "SystemsArgument",
    "named_file",
    "names_in",
]

MetricsOption = Annotated[str, typer.Option("--metrics", help="Metrics or groups, with commas between.")]
OnlyMetricsOption = Annotated[
    str | None, typer.Option("--metrics", help="Metrics or groups, with commas between; without it all there are.")
]
SystemsArgument = Annotated[
    list[str],
    typer.Argument(help="Outcomes of `evaluate --output`, or stores; one a system, NAME=FILE to name it."),
]
SinkOption = Annotated[
    list[str] | None, typer.Option("--sink", help="jsonl:PATH, otlp, ... May be given several times.")
]
ConcurrencyOption = Annotated[int, typer.Option("--concurrency", min=1, help="Samples scored at once.")]
DeadlineOption = Annotated[
    float, typer.Option("--deadline", min=0.1, help="Seconds after which a sample's unfinished metrics fail.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def names_in(text: str) -> list[str]:
    """The names in a list with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def named_file(text: str) -> tuple[str | None, str]:
    """NAME=FILE, or a file alone; a file that has an equals sign in its name is a file."""
    name, separator, path = text.partition("=")
    if separator and name and path and not Path(text).exists():
        return name, path
    return None, text
