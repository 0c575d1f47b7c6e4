"""`--config FILE`: settings, and options of single commands, from a TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ragstone.cli._commands import nearest
from ragstone.errors import ConfigurationError

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="TOML file with settings. A table such as \\[replay] has options of one command."),
]

_LISTED: Final = frozenset({"metrics"})
"""Keys whose lists become one comma-separated string."""


def apply_config(context: typer.Context, path: Path | None) -> None:
    """Use the tables of commands as defaults for options that the command line does not set.

    Args:
        context: The application's context, before its command runs.
        path: The file. None does nothing.
    """
    if path is None:
        return
    from ragstone.settings import TABLES, load_toml, read_file

    commands = _inner(context.command)
    tables = {name: table for name, table in load_toml(path).items() if name not in TABLES}
    for name in tables.keys() - commands.keys():
        # A command of a group, without its group. Otherwise the settings name the nearest of their tables.
        if (known := nearest(name)) is not None and known.rpartition(" ")[2] == name:
            raise _unknown_table(path, name)
    read_file(path, [*commands])
    context.default_map = {name: _defaults(name, commands[name], table, path) for name, table in tables.items()}


def _unknown_table(path: Path, name: str) -> ConfigurationError:
    known = nearest(name.rpartition(".")[2])
    is_command = known is not None and "--" not in known
    hint = f"Did you mean [{known.replace(' ', '.')}]?" if known and is_command else "`ragstone --help` lists all."
    return ConfigurationError(f"{str(path)!r} has {name!r}, which is not the table of a command. {hint}")


def _inner(command: Any) -> Mapping[str, Any]:
    """Return the commands of a group, or an empty mapping for a command."""
    # Typer bundles a copy of click, so isinstance checks with click's classes do not work.
    return getattr(command, "commands", {})


def _defaults(name: str, command: Any, section: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Build click's default map of a command, or of the commands of a group."""
    if commands := _inner(command):
        for inner, table in section.items():
            if inner not in commands or not isinstance(table, Mapping):
                raise _unknown_table(path, f"{name}.{inner}")
        return {inner: _defaults(f"{name} {inner}", commands[inner], table, path) for inner, table in section.items()}
    names = _option_names(command)
    repeatable = {parameter.name for parameter in command.params if getattr(parameter, "multiple", False)}
    flags = {parameter.name for parameter in command.params if getattr(parameter, "is_flag", False)}
    defaults: dict[str, Any] = {}
    for key, value in section.items():
        if isinstance(value, Mapping):
            raise ConfigurationError(
                f"{str(path)!r} has a table [{name}.{key}]. Settings have one table for all commands, such as [judge]. Set "
                f"those of one command in [{name}]: set = ['judge.draws=3']."
            )
        if (option := names.get(_key(key))) is None:
            raise ConfigurationError(
                f"{str(path)!r} sets {key!r}, but the command `{name}` does not have this option.{_hint(key)}"
            )
        # Typer reads true as the number 1 or the text "True", and "yes" as true.
        if isinstance(value, bool) != (option in flags):
            form = "true or false" if option in flags else "a number or a text"
            raise ConfigurationError(f"{str(path)!r} sets {key} of `{name}` to {value!r}, which must be {form}.")
        # click reads the letters of a text as the values of a repeatable option.
        defaults[option] = [value] if option in repeatable and isinstance(value, str) else _plain(key, value)
    return defaults


def _hint(key: str) -> str:
    """Return the table of settings with this key, as a sentence."""
    from ragstone.settings import TABLES

    tables = [table for table, kind in TABLES.items() if key.replace("-", "_") in kind.model_fields]
    return f" Did you mean [{tables[0]}] {key}?" if tables else ""


def _key(name: str) -> str:
    """Return a key in its normalized form: the command's name for it, with dashes."""
    return name.replace("_", "-")


def _option_names(command: Any) -> dict[str, str]:
    """Return the parameter names by accepted keys: option names without leading dashes, and parameter names."""
    names: dict[str, str] = {}
    for parameter in command.params:
        names[_key(parameter.name)] = parameter.name
        names.update({option.lstrip("-"): parameter.name for option in parameter.opts})
    return names


def _plain(key: str, value: Any) -> Any:
    return ",".join(map(str, value)) if key in _LISTED and isinstance(value, list) else value
