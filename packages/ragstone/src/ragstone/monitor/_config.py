"""The configuration file of a Monitor, and of the commands that go with it."""

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
"""The arguments of `Monitor` that a file can say: those that are numbers and texts."""


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file whose keys are arguments of `Monitor`, and whose tables are for single commands.

    Args:
        path: The file.

    Raises:
        ConfigurationError: It does not exist, is no TOML, or has a key that is no argument.
    """
    name = os.fspath(path)
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"the configuration {name!r} cannot be read: {error}") from None
    for key, value in values.items():
        if key not in CONFIGURABLE and not isinstance(value, dict):
            raise ConfigurationError(
                f"{name!r} sets {key!r}, which is no argument of Monitor; those are {', '.join(CONFIGURABLE)}. What only a "
                "command has goes into its table, such as [replay]"
            )
    return values
