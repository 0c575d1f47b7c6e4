"""The configuration file of `Monitor` and of the commands."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ragstone import judges
from ragstone.errors import ConfigurationError

_MAX_BYTES: Final = 2**20
"""Largest file. A device does not have an end."""
_TEXT: Final = "a text"
_TEXTS: Final = "a text or a list of texts"
_NUMBER: Final = "a number"
_WHOLE: Final = "an integer"
CONFIGURABLE: Final = {
    "judge": _TEXTS,
    "reader": _TEXTS,
    "embedder": _TEXTS,
    "metrics": _TEXTS,
    "store": _TEXT,
    "sinks": _TEXTS,
    "app": _TEXT,
    "release": _TEXT,
    "environment": _TEXT,
    "tags": _TEXTS,
    "sample_rate": _NUMBER,
    "durability": _TEXT,
    "flush_interval_s": _NUMBER,
    "queue_size": _WHOLE,
    "concurrency": _WHOLE,
    "deadline_s": _NUMBER,
    "max_outage_s": _NUMBER,
    "reasons": _WHOLE,
    "scoring": _TEXT,
    "ids": _TEXT,
}
"""The arguments of `Monitor` that a file can set, with the form of their values."""


def _has_form(value: object, form: str) -> bool:
    if isinstance(value, bool):
        return False
    match form:
        case "a text":
            return isinstance(value, str)
        case "an integer":
            return isinstance(value, int)
        case "a number":
            return isinstance(value, int | float)
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value))


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file whose keys are arguments of `Monitor` and whose tables are for endpoints and single commands.

    Args:
        path: The file.

    Raises:
        ConfigurationError: If the file does not exist, is not valid TOML or has an unknown key.
    """
    name = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            text = file.read(_MAX_BYTES + 1)
        values = {} if len(text) > _MAX_BYTES else tomllib.loads(text.decode("utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"the configuration {name!r} was not found. Check the path.") from None
    except OSError as error:
        raise ConfigurationError(f"the configuration {name!r} cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        # Besides errors of TOML and UTF-8: an integer with thousands of digits, arrays in arrays in arrays.
        raise ConfigurationError(f"the configuration {name!r} cannot be read: {error}") from None
    if len(text) > _MAX_BYTES:
        raise ConfigurationError(f"the configuration {name!r} has more than {_MAX_BYTES:,} bytes. Check the path.")
    for role in judges.ROLES:
        if isinstance(urls := values.get(role), list):
            values[role] = ",".join(map(str, urls))
    for key, value in values.items():
        if isinstance(value, dict) and key not in judges.ROLES and "url" in value:
            raise ConfigurationError(
                f"{name!r} has a table [{key}] with a `url`, but {key!r} is not a role. Roles: {', '.join(judges.ROLES)}."
            )
        if key not in CONFIGURABLE and not isinstance(value, dict):
            raise ConfigurationError(
                f"{name!r} sets {key!r}, which is not an argument of Monitor. Arguments: {', '.join(CONFIGURABLE)}. Set "
                "options of a command in its table, such as [replay]."
            )
        # Checked also if the command does not use the key: the same file is for others that do.
        if not isinstance(value, dict) and not _has_form(value, form := CONFIGURABLE[key]):
            raise ConfigurationError(f"{name!r} sets {key} to {value!r}, which must be {form}.")
    return values


def read_models(values: Mapping[str, Any], path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the arguments `judge`, `reader` and `embedder` of `Monitor`, if the configuration has a table of one of them.

    Args:
        values: The configuration.
        path: The file, for messages.

    Raises:
        ConfigurationError: If a table has an unknown key or an invalid value.
    """

    def read(role: judges.Role) -> judges.EndpointOptions:
        value = values.get(role)
        table = value if isinstance(value, Mapping) else {} if value is None else {"url": value}
        return judges.EndpointOptions.from_table(
            role, table, source=os.fspath(path), names=judges.OptionNames(role, "file")
        )

    if not any(isinstance(values.get(role), Mapping) for role in judges.ROLES):
        return {}
    return {role: read(role) for role in judges.ROLES}
