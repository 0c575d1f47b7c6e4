"""The configuration file of `Monitor` and of the commands."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any, Final

from ragstone.errors import ConfigurationError

__all__ = ["CONFIGURABLE", "read_config"]

CONFIGURABLE: Final = (
    "judge",
    "reader",
    "metrics",
    "store",
    "sinks",
    "sample_rate",
    "durability",
    "flush_interval_s",
    "queue_size",
    "concurrency",
    "deadline_s",
    "max_outage_s",
    "role",
)
"""The arguments of `Monitor` that a file can set: numbers and strings."""


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file whose keys are arguments of `Monitor` and whose tables are for single commands.

    Args:
        path: The file.

    Raises:
        ConfigurationError: If the file does not exist, is not valid TOML or has an unknown key.
    """
    name = os.fspath(path)
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"the configuration {name!r} cannot be read: {error}") from None
    for key, value in values.items():
        if key not in CONFIGURABLE and not isinstance(value, dict):
            raise ConfigurationError(
                f"{name!r} sets {key!r}, which is not an argument of Monitor. Arguments: {', '.join(CONFIGURABLE)}. Set "
                "options of a command in its table, such as [replay]."
            )
    return values
