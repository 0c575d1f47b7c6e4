"""Settings of a command: options that are keys, `--set`, the environment, and the file of `--config`.

A command that uses settings is decorated with `@uses`, and calls `settings_of(context)`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, Final, TypeVar

import typer

from ragstone.cli._options import options_of
from ragstone.cli._panels import LIMITS, MODELS, OUTPUT
from ragstone.errors import ConfigurationError
from ragstone.metrics import split_metrics
from ragstone.settings import TABLES, Configuration, resolve

_Command = TypeVar("_Command", bound=Callable[..., None])

ENDPOINTS: Final = ("judge", "reader", "embedder")
RUN: Final = ("cache", "limits", "budget")
SCORING: Final = (*ENDPOINTS, *RUN, "scoring", "analysis")
WORKER: Final = ("watch", "retention", "daily_budget")

_KEYS: Final = {
    "metrics": "scoring.metrics",
    "sink": "scoring.sinks",
    "reasons": "scoring.reasons",
    "judge": "judge.url",
    "judge_model": "judge.model",
    "reader": "reader.url",
    "embedder": "embedder.url",
    "concurrency": "limits.concurrency",
    "budget_usd": "budget.usd",
    "cache": "cache.directory",
}
"""Keys of the settings that have an option of their own, by the name of its parameter."""
_SET: Final = "set"
_GIVEN: Final = "ragstone.cli.settings"


def uses(*tables: str, without: Collection[str] = ()) -> Callable[[_Command], _Command]:
    """Give a command `--set`, and the options of these tables of settings.

    Args:
        tables: Tables whose keys can be set.
        without: Parameters of options that the command does not have.
    """

    def decorate(command: _Command) -> _Command:
        command.uses = tables, without  # type: ignore[attr-defined]
        return command

    return decorate


def options_for(tables: Collection[str], without: Collection[str]) -> list[Any]:
    """Return the options of a command that uses these tables, except those of some parameters."""
    return [
        option
        for option in options_of(_declare)
        if option.name not in without and (option.name == _SET or _KEYS[option.name].partition(".")[0] in tables)
    ]


def settings_of(
    context: typer.Context,
    *,
    plan: Mapping[str, Any] | None = None,
) -> Configuration:
    """Return the settings of a command: its options come before the environment, the file, the plan and the defaults.

    Args:
        context: The command's context.
        plan: Values of the plan of a store, by dotted key.

    Raises:
        ConfigurationError: If a key is unknown or a value is invalid.
    """
    tables, _ = getattr(context.command.callback, "uses", ((), ()))
    options: dict[str, Any] = {}
    table: dict[str, Any] = {}
    names: dict[str, str] = {}
    path = context.find_root().params.get("config")
    for parameter, (value, is_from_file) in context.meta.get(_GIVEN, {}).items():
        place = repr(str(path)) if is_from_file else f"--{parameter.replace('_', '-')}"
        if parameter == _SET:
            values: Mapping[str, Any] = _parse_set(value, tables, str(context.info_name), place)
        else:
            values = {_KEYS[parameter]: split_metrics(value) if parameter == "metrics" else value}
        (table if is_from_file else options).update(values)
        if not is_from_file:
            names |= dict.fromkeys(values, place)
    known = getattr(context.find_root().command, "commands", {})
    return resolve(options, file=path, table=table, plan=plan, names=names, other_tables=[*known])


def _parse_set(texts: Iterable[str], tables: Collection[str], command: str, place: str) -> dict[str, str]:
    """Return the values of `--set` by dotted key. The last value of a key counts."""
    values: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not separator:
            raise ConfigurationError(f"{place}: {text!r} must be TABLE.KEY=VALUE. Example: --set judge.max_retries=8")
        table, _, name = key.strip().replace("-", "_").partition(".")
        if table in TABLES and table not in tables:
            raise ConfigurationError(
                f"{place}: {key}: `{command}` does not use the table [{table}]. It uses: {', '.join(tables)}."
            )
        main = TABLES[table].main if table in TABLES else None
        values[f"{table}.{name or main or ''}"] = value
    return values


def _collect(context: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    """Keep the value of an option for `settings_of`."""
    if value is not None and value != []:
        source = context.get_parameter_source(str(parameter.name))
        is_from_file = source is not None and source.name == "DEFAULT_MAP"
        context.meta.setdefault(_GIVEN, {})[parameter.name] = (value, is_from_file)
    return value


def _complete_key(context: typer.Context, incomplete: str) -> list[str]:
    """Return the keys of the command that begin with a text, for completion."""
    tables, _ = context.command.callback.uses  # type: ignore[union-attr]
    keys = (f"{table}.{name}=" for table in tables for name in TABLES[table].model_fields)
    return [key for key in keys if key.startswith(incomplete)]


def option_of(key: str, *names: str, metavar: str, panel: str, also: str = "") -> Any:
    """Return an option that sets a key: its help and its default are those of the key.

    Args:
        key: Dotted key.
        names: Names of the option.
        metavar: What is written after it.
        panel: Group in the help.
        also: A sentence about the option that does not apply to the key.
    """
    table, _, name = key.partition(".")
    field = TABLES[table].model_fields[name]
    shown = ",".join(field.default) if isinstance(field.default, tuple) else field.default
    default = f"Default: {shown}." if shown not in (None, "", 0) else ""
    return typer.Option(
        *names,
        metavar=metavar,
        rich_help_panel=panel,
        help=" ".join(filter(None, (field.description, default, also))),
        expose_value=False,
        callback=_collect,
    )


def _declare(
    *,
    metrics: Annotated[str | None, option_of("scoring.metrics", "--metrics", metavar="NAMES", panel=MODELS)] = None,
    judge: Annotated[str | None, option_of("judge.url", "--judge", metavar="URL", panel=MODELS)] = None,
    judge_model: Annotated[str | None, option_of("judge.model", "--judge-model", metavar="NAME", panel=MODELS)] = None,
    reader: Annotated[
        str | None,
        option_of("reader.url", "--reader", metavar="URL", panel=MODELS),
    ] = None,
    embedder: Annotated[str | None, option_of("embedder.url", "--embedder", metavar="URL", panel=MODELS)] = None,
    reasons: Annotated[str | None, option_of("scoring.reasons", "--reasons", metavar="N", panel=MODELS)] = None,
    concurrency: Annotated[
        str | None, option_of("limits.concurrency", "--concurrency", metavar="N", panel=LIMITS)
    ] = None,
    budget_usd: Annotated[str | None, option_of("budget.usd", "--budget-usd", metavar="USD", panel=LIMITS)] = None,
    cache: Annotated[str | None, option_of("cache.directory", "--cache", metavar="DIR", panel=LIMITS)] = None,
    set: Annotated[  # noqa: A002 - the name of the option
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            rich_help_panel=LIMITS,
            help="Any setting (ragstone doctor --settings): judge.draws=3.",
            expose_value=False,
            callback=_collect,
            autocompletion=_complete_key,
        ),
    ] = None,
    sink: Annotated[
        list[str] | None, option_of("scoring.sinks", "--sink", metavar="SPEC", panel=OUTPUT, also="Repeatable.")
    ] = None,
) -> None:
    """Declare the options of all commands that use settings."""
