"""Log messages of the commands: text for people, or one JSON object a line for log collectors."""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any, Final, Literal

import typer
from typing_extensions import override

LogFormat = Literal["text", "json"]

_FIELDS: Final = ("app", "trace_id", "metric", "sink", "error_kind")
"""Fields that a log call can set with `extra=`. They never contain captured text."""
_logger = logging.getLogger("ragstone.command")


class _JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, event, and the fields of the call.

    Of an exception, only the type and the places in the code are written, because its message may quote captured text.
    """

    @override
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        line |= {name: value for name in _FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = record.exc_info[0].__name__
            frames = traceback.extract_tb(record.exc_info[2])
            line["frames"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        return json.dumps(line, ensure_ascii=False, default=str)


def configure_logging(level: int, log_format: LogFormat) -> None:
    """Send log messages of this process to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonFormatter() if log_format == "json" else logging.Formatter("%(levelname)s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler])
    if log_format == "json":
        _logger.setLevel(min(level, logging.INFO))


def announce(message: str) -> None:
    """Write what a service has begun to do: on standard error, or as a log message if logs are JSON."""
    if any(isinstance(handler.formatter, _JsonFormatter) for handler in logging.getLogger().handlers):
        _logger.info(message)
    else:
        typer.echo(message, err=True)
