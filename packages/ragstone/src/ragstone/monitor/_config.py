"""The configuration file of `Monitor` and of the commands."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ragstone.errors import ConfigurationError
from ragstone.judges import ROLES, EndpointOptions, OptionNames, Role

__all__ = ["CONFIGURABLE", "build_models", "read_config"]

CONFIGURABLE: Final = (
    "judge",
    "reader",
    "embedder",
    "metrics",
    "store",
    "sinks",
    "app",
    "release",
    "environment",
    "tags",
    "sample_rate",
    "durability",
    "flush_interval_s",
    "queue_size",
    "concurrency",
    "deadline_s",
    "max_outage_s",
    "reasons",
    "role",
)
"""The arguments of `Monitor` that a file can set: numbers, strings and lists of strings."""


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file whose keys are arguments of `Monitor` and whose tables are for endpoints and single commands.

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
    for role in ROLES:
        if isinstance(urls := values.get(role), list):
            values[role] = ",".join(map(str, urls))
    for key, value in values.items():
        if isinstance(value, dict) and key not in ROLES and "url" in value:
            raise ConfigurationError(
                f"{name!r} has a table [{key}] with a `url`, but {key!r} is not a role. Roles: {', '.join(ROLES)}."
            )
        if key not in CONFIGURABLE and not isinstance(value, dict):
            raise ConfigurationError(
                f"{name!r} sets {key!r}, which is not an argument of Monitor. Arguments: {', '.join(CONFIGURABLE)}. Set "
                "options of a command in its table, such as [replay]."
            )
    return values


def build_models(values: Mapping[str, Any], path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments `judge`, `reader` and `embedder` of `Monitor`, made from the tables of a configuration, if it has them.

    Args:
        values: The configuration.
        path: The file, for messages.

    Raises:
        ConfigurationError: If a table has an unknown key or an invalid value, or a variable is not set.
    """

    def read(role: Role) -> EndpointOptions:
        value = values.get(role)
        table = value if isinstance(value, Mapping) else {} if value is None else {"url": value}
        return EndpointOptions.from_table(role, table, source=os.fspath(path), names=OptionNames(role, "file"))

    if not any(isinstance(values.get(role), Mapping) for role in ROLES):
        return {}
    of_judge, of_reader = read("judge"), read("reader")
    judge = of_judge.build_judge()
    return {
        "judge": judge,
        "reader": of_reader.build_reader(judge, of_judge),
        "embedder": read("embedder").build_embedder(),
    }
