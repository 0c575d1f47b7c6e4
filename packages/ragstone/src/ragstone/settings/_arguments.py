"""Keyword arguments of functions that are settings: checked, and completed from the environment."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, TypeVar

from ragstone.errors import ConfigurationError
from ragstone.settings._resolve import TABLES, read_table, resolve_arguments

_P = ParamSpec("_P")
_R = TypeVar("_R")

RUN_KEYS: Final = {
    "metrics": "scoring.metrics",
    "sinks": "scoring.sinks",
    "concurrency": "limits.concurrency",
    "deadline_s": "limits.deadline_s",
    "max_outage_s": "limits.max_outage_s",
    "reasons": "scoring.reasons",
    "processes": "limits.processes",
    "refusals": "answers.refusals",
    "prompts": "prompts.texts",
}
"""Keys of the arguments that functions have that score many samples."""
_OBJECTS: Final = ("metrics", "sinks", "redact")
"""Arguments that can be or contain objects, which are passed on as they are."""


def takes_settings(**keys: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Check arguments of a function by the rules of settings, and read those that a call omits from the environment.

    `keys` has, by argument, a dotted key, or the name of a table for an argument with keys of this table.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        signature = inspect.signature(function)
        name = function.__qualname__.removesuffix(".__init__")

        @functools.wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            bound = signature.bind(*args, **kwargs)
            bound.arguments |= complete(keys, bound.arguments, call=name)
            return function(*bound.args, **bound.kwargs)

        call.keys = keys  # type: ignore[attr-defined]
        return call

    return decorate


def check(table: str, call: str, /, **values: Any) -> None:
    """Check arguments of a call that are keys of a table. Raise ConfigurationError if a value is invalid."""
    for name, value in values.items():
        read_table(TABLES[table], {name: value}, source=f"{call}({name}=...)")


def complete(
    keys: Mapping[str, str], arguments: Mapping[str, Any], *, call: str, file: str | os.PathLike[str] | None = None
) -> dict[str, Any]:
    """Return the arguments that a call, the environment or a file states. `keys` are those of `takes_settings`.

    None in the arguments of the call is not given. `call` is the name of the function, for messages. Raise
    ConfigurationError if a value is invalid.
    """
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    objects: set[str] = set()
    for name, key in keys.items():
        value = arguments.get(name)
        if name in _OBJECTS and name in arguments and not _is_text(value):
            objects.add(name)
        elif value is None:
            continue
        elif "." in key:
            values[key] = os.fspath(value) if isinstance(value, os.PathLike) else value
            places[key] = f"{call}({name}=...)"
        elif isinstance(value, str) and TABLES[key].main:
            values[key] = value
            places[key] = f"{call}({name}=...)"
        elif isinstance(value, Mapping):
            values |= {f"{key}.{each}": part for each, part in value.items()}
            places |= {f"{key}.{each}": f"{call}({name}=...)" for each in value}
        else:
            raise ConfigurationError(f"{call}({name}=...) must be a table with the keys of [{key}], got {value!r}.")
    configuration = resolve_arguments(values, places, file=file)
    completed: dict[str, Any] = {}
    for name, key in keys.items():
        table, dot, each = key.partition(".")
        settings = getattr(configuration, table)
        if name not in objects and (key in configuration.sources if dot else settings.stated):
            completed[name] = getattr(settings, each) if dot else settings.stated
    return completed


def _is_text(value: object) -> bool:
    return isinstance(value, str | bool) or (
        isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)
    )
