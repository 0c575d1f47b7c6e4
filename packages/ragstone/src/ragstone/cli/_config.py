"""`--config FILE`: options that are the same each time, in a TOML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ragstone.errors import ConfigurationError
from ragstone.monitor import read_config

__all__ = ["ConfigOption", "apply_config"]

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", help="A TOML file with options for all commands, or in a table \\[NAME] for the command NAME."
    ),
]

_NAMES: Final = {"sinks": "sink"}
"""What `Monitor` calls otherwise than the commands do."""
_LISTED: Final = frozenset({"metrics"})
"""What commands take as one text with commas."""


def apply_config(context: typer.Context, path: Path | None) -> None:
    """Let the file's values stand for options that are not given.

    Args:
        context: Of the application, before its command runs.
        path: The file; None does nothing.

    Raises:
        ConfigurationError: The file cannot be read, or names an option that no command has.
    """
    if path is None:
        return
    values = read_config(path)
    group = context.command
    shared = {key: value for key, value in values.items() if not isinstance(value, Mapping)}
    for table in values.keys() - shared.keys():
        if table not in _inner(group):
            raise ConfigurationError(
                f"{str(path)!r} has a table [{table}], and there is no such command; there are {', '.join(_inner(group))}"
            )
    context.default_map = _defaults(group, shared, values, path)


def _inner(command: Any) -> Mapping[str, Any]:
    """The commands of a group; nothing for a command."""
    # Typer brings a copy of click with it, so its classes are not for comparing.
    return getattr(command, "commands", {})


def _defaults(group: Any, shared: Mapping[str, Any], own: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """What click takes for values that the command line does not give, by command."""
    found: dict[str, Any] = {}
    for name, command in _inner(group).items():
        section = own.get(name, {})
        if not isinstance(section, Mapping):
            section = {}
        if _inner(command):
            inner = {key: value for key, value in section.items() if not isinstance(value, Mapping)}
            found[name] = _defaults(command, {**shared, **inner}, section, path)
            continue
        names = _option_names(command)
        for key in section:
            if _key(key) not in names:
                raise ConfigurationError(f"{str(path)!r} sets {key!r} for `{name}`, which has no such option")
        merged = {**shared, **section}
        found[name] = {names[_key(k)]: _plain(k, v) for k, v in merged.items() if _key(k) in names}
    return found


def _key(name: str) -> str:
    """A key as it is looked for: with dashes, as options are written, and by the command's word for it."""
    return _NAMES.get(name, name).replace("_", "-")


def _option_names(command: Any) -> dict[str, str]:
    """What a key may be called to mean a parameter: its options, without the dashes before them, or its own name."""
    names: dict[str, str] = {}
    for parameter in command.params:
        names[_key(parameter.name)] = parameter.name
        names.update({option.lstrip("-"): parameter.name for option in parameter.opts})
    return names


def _plain(key: str, value: Any) -> Any:
    return ",".join(map(str, value)) if key in _LISTED and isinstance(value, list) else value
