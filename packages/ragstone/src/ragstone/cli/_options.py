"""Options that several commands share, apart from those of models."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ragstone.cli._panels import LIMITS, OUTPUT
from ragstone.errors import ConfigurationError
from ragstone.experiments import TimeRange

__all__ = [
    "ConcurrencyOption",
    "DeadlineOption",
    "JsonOption",
    "MetricsOption",
    "NoRedactOption",
    "OnlyMetricsOption",
    "SinkOption",
    "SystemsArgument",
    "parse_named_file",
    "parse_names",
    "parse_time_range",
]

MetricsOption = Annotated[str, typer.Option("--metrics", help="Metrics or groups, with commas between.")]
OnlyMetricsOption = Annotated[
    str | None, typer.Option("--metrics", help="Metrics or groups, with commas between; without it all there are.")
]
SystemsArgument = Annotated[
    list[str],
    typer.Argument(
        help="Outcomes of `evaluate --output`, or stores; NAME=FILE names a system, STORE@FROM..TO takes a time of a store, - is standard input."
    ),
]
SinkOption = Annotated[
    list[str] | None,
    typer.Option("--sink", rich_help_panel=OUTPUT, help="jsonl:PATH, otlp, ... May be given several times."),
]
ConcurrencyOption = Annotated[
    int, typer.Option("--concurrency", min=1, rich_help_panel=LIMITS, help="Samples scored at once.")
]
DeadlineOption = Annotated[
    float,
    typer.Option(
        "--deadline", min=0.1, rich_help_panel=LIMITS, help="Seconds after which a sample's unfinished metrics fail."
    ),
]
NoRedactOption = Annotated[
    bool,
    typer.Option("--no-redact", help="Store texts as they are, with the e-mail addresses, cards and keys in them."),
]
JsonOption = Annotated[bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print JSON.")]


def parse_time_range(text: str) -> TimeRange | str:
    """STORE@FROM..TO, or a file alone. Times are ISO dates in UTC, or -7d, -12h from now; either may be left out.

    Raises:
        ConfigurationError: A time that cannot be read, or an end that is not after the beginning.
    """
    store, separator, times = text.rpartition("@")
    if not separator or not store or ".." not in times or Path(text).exists():
        return text
    since, _, until = times.partition("..")
    period = TimeRange(store, since=_time_in(since), until=_time_in(until))
    if period.since is not None and period.until is not None and period.since >= period.until:
        raise ConfigurationError(
            f"{times!r} ends before it begins; write FROM..TO, such as 2026-11-01..2026-11-08 or -7d.."
        )
    return period


def _time_in(text: str) -> float | None:
    if not text:
        return None
    if found := re.fullmatch(r"-(\d+(?:\.\d+)?)([dhm])", text):
        return time.time() - float(found[1]) * {"d": 86400, "h": 3600, "m": 60}[found[2]]
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigurationError(
            f"{text!r} is no time; write an ISO date (2026-11-01, 2026-11-01T12:00), or -7d, -12h, -30m from now"
        ) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def parse_names(text: str) -> list[str]:
    """The names in a list with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_named_file(text: str) -> tuple[str | None, str]:
    """NAME=FILE, or a file alone; a file that has an equals sign in its name is a file."""
    name, separator, path = text.partition("=")
    if separator and name and path and not Path(text).exists():
        return name, path
    return None, text
