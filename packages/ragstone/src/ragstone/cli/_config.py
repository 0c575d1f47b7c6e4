"""`--config FILE`: default options from a TOML file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ragstone.cli._daily_budget import set_daily_budget
from ragstone.cli._retention import set_retention
from ragstone.cli._watch_options import set_watch_options
from ragstone.errors import ConfigurationError

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file with default options. A table such as \\[replay] applies to one command."),
]

_NAMES: Final = {"sinks": "sink"}
"""Option names by the parameter names of `Monitor` that differ from them."""
_LISTED: Final = frozenset({"metrics"})
"""Keys whose lists become one comma-separated string."""


def apply_config(context: typer.Context, path: Path | None) -> None:
    """Use the file's values as defaults for options that the command line does not set.

    Args:
        context: The application's context, before its command runs.
        path: The file. None does nothing.

    Raises:
        ConfigurationError: If the file cannot be read, sets an option that the command does not have, or sets a flag to
            another value than true or false, or another option to true or false.
    """
    set_watch_options(None, "")
    set_retention(None, "")
    set_daily_budget(None, "")
    if path is None:
        return
    from ragstone.cli._endpoints import read_tables
    from ragstone.judges import ROLES
    from ragstone.settings import RUN_KEYS, TABLES, load_toml, read_file

    group = context.command
    settings = read_file(path, {*_inner(group)})
    tables: dict[str, dict[str, Any]] = {}
    for dotted, value in settings.items():
        table, _, key = dotted.partition(".")
        tables.setdefault(table, {})[key] = value
    set_watch_options(tables.get("watch"), repr(str(path)))
    set_retention(tables.get("retention"), repr(str(path)))
    set_daily_budget(tables.get("daily_budget"), repr(str(path)))
    # `takes_models` reads them from there.
    context.obj = read_tables(tables, repr(str(path)))
    shared = {name: settings[key] for name, key in RUN_KEYS.items() if key in settings}
    values = {name: value for name, value in load_toml(path).items() if name not in TABLES}
    context.default_map = _defaults(group, shared, values, path, roles=ROLES)


def _inner(command: Any) -> Mapping[str, Any]:
    """Return the commands of a group, or an empty mapping for a command."""
    # Typer bundles a copy of click, so isinstance checks with click's classes do not work.
    return getattr(command, "commands", {})


def _defaults(
    group: Any, shared: Mapping[str, Any], own: Mapping[str, Any], path: Path, *, roles: Collection[str]
) -> dict[str, Any]:
    """Build click's default map: default values by command."""
    defaults: dict[str, Any] = {}
    for name, command in _inner(group).items():
        section = own.get(name, {})
        if not isinstance(section, Mapping):
            section = {}
        if _inner(command):
            inner = {key: value for key, value in section.items() if not isinstance(value, Mapping)}
            defaults[name] = _defaults(command, {**shared, **inner}, section, path, roles=roles)
            continue
        names = _option_names(command)
        repeatable = {parameter.name for parameter in command.params if getattr(parameter, "multiple", False)}
        flags = {parameter.name for parameter in command.params if getattr(parameter, "is_flag", False)}
        for key, value in section.items():
            if key in roles and isinstance(value, Mapping):
                raise ConfigurationError(
                    f"{str(path)!r} has a table [{name}.{key}]. Endpoints have one table for all commands: [{key}]. Set options "
                    f"of one command there, such as {key}-model = 'MODEL' in [{name}]."
                )
            if _key(key) not in names:
                raise ConfigurationError(
                    f"{str(path)!r} sets {key!r}, but the command `{name}` does not have this option."
                )
        merged = {**shared, **section}
        given = {names[_key(k)]: _plain(k, v) for k, v in merged.items() if _key(k) in names}
        for key, value in merged.items():
            # Typer reads true as the number 1 or the text "True", and "yes" as true.
            if (option := names.get(_key(key))) is not None and isinstance(value, bool) != (option in flags):
                form = "true or false" if option in flags else "a number or a text"
                raise ConfigurationError(f"{str(path)!r} sets {key} of `{name}` to {value!r}, which must be {form}.")
        # click reads the letters of a text as the values of a repeatable option.
        defaults[name] = {k: [v] if k in repeatable and isinstance(v, str) else v for k, v in given.items()}
    return defaults


def _key(name: str) -> str:
    """Return a key in its normalized form: the command's name for it, with dashes."""
    return _NAMES.get(name, name).replace("_", "-")


def _option_names(command: Any) -> dict[str, str]:
    """Return the parameter names by accepted keys: option names without leading dashes, and parameter names."""
    names: dict[str, str] = {}
    for parameter in command.params:
        names[_key(parameter.name)] = parameter.name
        names.update({option.lstrip("-"): parameter.name for option in parameter.opts})
    return names


def _plain(key: str, value: Any) -> Any:
    return ",".join(map(str, value)) if key in _LISTED and isinstance(value, list) else value
