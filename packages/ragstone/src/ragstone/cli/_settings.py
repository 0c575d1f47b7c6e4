"""Settings of a command: options that are keys, `--set`, the environment, and the file of `--config`.

`_commands` has the keys that each command uses. The command calls `settings_of(context)`.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple

import typer

from ragstone._util.abstains import own_refusals
from ragstone.cli._commands import commands_that_use
from ragstone.cli._options import options_of
from ragstone.errors import ConfigurationError
from ragstone.metrics import split_metrics
from ragstone.settings import TABLES, Configuration, resolve

_MODELS, _LIMITS, _OUTPUT = "Models", "Limits and settings", "Output"
"""Groups of options in the help."""
ENDPOINTS: Final = ("judge", "reader", "embedder")


class _Option(NamedTuple):
    """The option of a key."""

    key: str
    metavar: str
    group: str


_OPTIONS: Final = {
    "metrics": _Option("scoring.metrics", "NAMES", _MODELS),
    "judge": _Option("judge.url", "URL", _MODELS),
    "judge_model": _Option("judge.model", "NAME", _MODELS),
    "reader": _Option("reader.url", "URL", _MODELS),
    "embedder": _Option("embedder.url", "URL", _MODELS),
    "reasons": _Option("scoring.reasons", "N", _MODELS),
    "budget_usd": _Option("budget.usd", "USD", _LIMITS),
    "set": _Option("", "KEY=VALUE", _LIMITS),
    "sink": _Option("scoring.sinks", "SPEC", _OUTPUT),
}
"""Keys of the settings that have an option of their own, by the name of its parameter, in the order of the help."""
_SET: Final = "set"
_GIVEN: Final = "ragstone.cli.settings"
OF_COMMAND: Final = ("max_failed_share", "call_latency_s")
"""Limits that a command applies itself."""
_SHOWN: Final = 6
"""Number of keys up to which a message names all that a command uses."""


def options_for(command: Any) -> list[Any]:
    """Return the options of a command for the settings that it uses, except those that it declares itself."""
    keys = {*_used_keys(command.settings.partition("--set")[0].replace("*", ""))}
    declared = {parameter.name for parameter in command.params}
    return [
        option
        for option in options_of(_declare)
        if option.name not in declared and (option.name == _SET or _OPTIONS[option.name].key in keys)
    ]


def _used_keys(settings: str) -> list[str]:
    """Return the dotted keys for tables and keys."""
    keys: list[str] = []
    for word in settings.replace("--set", "").split():
        tables = [*TABLES] if word == "*" else [word]
        keys += (
            [word] if "." in word else [f"{table}.{name}" for table in tables for name in TABLES[table].model_fields]
        )
    return keys


def arguments_of(
    context: typer.Context, settings: Configuration, *tables: str, omit: Collection[str] = ()
) -> dict[str, Any]:
    """Return the keys of tables that a command uses and that have a value, as keyword arguments of a function."""
    keys = [key.partition(".") for key in _used_keys(_settings_of_command(context))]
    values = {name: getattr(getattr(settings, table), name) for table, _, name in keys if table in tables}
    return {name: value for name, value in values.items() if name not in omit and value not in (None, ())}


def _settings_of_command(context: typer.Context) -> str:
    return getattr(context.command, "settings", "")


def settings_of(context: typer.Context, *, plan: Mapping[str, Any] | None = None) -> Configuration:
    """Return the settings of a command: its options come before the environment, the file, a plan and the defaults.

    The values of the plan of a store have dotted keys.
    """
    options: dict[str, Any] = {}
    names: dict[str, str] = {}
    for parameter, value in context.meta.get(_GIVEN, {}).items():
        place = f"--{parameter.replace('_', '-')}"
        if parameter == _SET:
            values: Mapping[str, Any] = _parse_set(value, context, place)
        else:
            values = {_OPTIONS[parameter].key: split_metrics(value) if parameter == "metrics" else value}
        options |= values
        names |= dict.fromkeys(values, place)
    settings = resolve(options, file=context.find_root().params.get("config"), plan=plan, names=names)
    context.with_resource(own_refusals(settings.answers.refusals))
    if settings.prompts.texts:
        from ragstone.metrics import own_prompts  # imports all metrics

        context.with_resource(own_prompts(settings.prompts.texts))
    return settings


def _parse_set(texts: Iterable[str], context: typer.Context, place: str) -> dict[str, str]:
    """Return the values of `--set` by dotted key. The last value of a key counts."""
    used = _used_keys(_settings_of_command(context))
    values: dict[str, str] = {}
    for text in texts:
        written, separator, value = text.partition("=")
        if not separator:
            raise ConfigurationError(f"{place}: {text!r} must be TABLE.KEY=VALUE. Example: --set judge.max_retries=8")
        table, _, name = written.strip().replace("-", "_").partition(".")
        main = TABLES[table].main if table in TABLES else None
        key = f"{table}.{name or main or ''}"
        if table in TABLES and key.partition(".")[2] in TABLES[table].model_fields and key not in used:
            raise ConfigurationError(f"{place}: {_describe_unused(key, used, context.command_path.partition(' ')[2])}")
        values[key] = value
    return values


def _describe_unused(key: str, used: Sequence[str], command: str) -> str:
    """Return the sentences about a key that a command does not use."""
    table, _, name = key.partition(".")
    near = [each for each in used if each.startswith(f"{table}.")] or [
        each for each in used if each.endswith(f".{name}")
    ]
    tables = dict.fromkeys(each.partition(".")[0] for each in used)
    others = commands_that_use(key)
    uses = near or (used if len(used) <= _SHOWN else [f"the tables {', '.join(tables)}"])
    return f"`{command}` does not use {key}. It uses {', '.join(dict.fromkeys(uses))}. " + (
        f"Commands that use {key}: {', '.join(others)}."
        if others
        else f"Only `Monitor`, or a command that is not installed, uses {key}."
    )


def _collect(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    """Keep the value of an option for `settings_of`."""
    if value is not None and value != []:
        context.meta.setdefault(_GIVEN, {})[parameter.name] = value
    return value


def _complete_key(context: typer.Context, incomplete: str) -> list[str]:
    """Return the keys of the command that begin with a text, for completion."""
    keys = (f"{key}=" for key in _used_keys(_settings_of_command(context)))
    return [key for key in keys if key.startswith(incomplete)]


def _declare(**_: object) -> None:
    """Declare the options of all commands that use settings: help and default are those of the key."""


def _parameter(name: str, option: _Option) -> inspect.Parameter:
    repeats = name in (_SET, "sink")
    settings: dict[str, Any] = {}
    if name == _SET:
        settings = {"help": "Any setting (ragstone doctor --settings): judge.draws=3.", "autocompletion": _complete_key}
    else:
        table, _, key = option.key.partition(".")
        field = TABLES[table].model_fields[key]
        shown = ",".join(field.default) if isinstance(field.default, tuple) else field.default
        default = f"Default: {shown}." if shown not in (None, "", 0) else ""
        settings["help"] = " ".join(filter(None, (field.description, default, "Repeatable." if repeats else "")))
    declared = typer.Option(
        f"--{name.replace('_', '-')}",
        metavar=option.metavar,
        rich_help_panel=option.group,
        expose_value=False,
        callback=_collect,
        **settings,
    )
    kind: Any = Annotated[list[str] | None if repeats else str | None, declared]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


_declare.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [_parameter(name, option) for name, option in _OPTIONS.items()]
)
