"""One value for each key: from options, the environment, a file, the plan of a store, or its default."""

from __future__ import annotations

import difflib
import logging
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar, get_args, get_type_hints

from pydantic import ValidationError

from ragstone.errors import ConfigurationError
from ragstone.settings import _tables as tables
from ragstone.settings._analysis import Analysis, Receiver, Research
from ragstone.settings._base import Settings, extra_of, find_secrets, kind_of, may_hold_secret, parse, rule_of, show

logger = logging.getLogger("ragstone")

_MAX_BYTES: Final = 2**20
"""Largest file. A device does not have an end."""
_PLAN: Final = "the plan of the store"
_PREFIX: Final = "RAGSTONE_"
_SENT: Final = frozenset({"api_key", "api_key_env", "headers", "extra_body"})
"""Keys that are sent to an endpoint and may contain secrets."""
_OF_KUBERNETES: Final = re.compile(r".*_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_\w+)?)")
"""Variables that Kubernetes sets for a service with the name "ragstone-judge"."""
_OTHER_VARIABLES: Final = frozenset(
    f"{_PREFIX}{name}"
    for name in ("SPOOL", "ID_KEY", "INGEST_TOKEN", "VIEW_TOKEN", "WEBHOOK_SECRET", "BROKER_PASSWORD")
)
"""Variables that are read where they are used, because they are secrets or the place of a spool."""
_IN_TEST: Final = "PYTEST_CURRENT_TEST"
"""A variable of pytest. Variables of test suites, are not named in a test."""
_warned: Final[set[str]] = set()
"""What the log has named. A command reads its sources twice."""
_T = TypeVar("_T", bound=Settings)


@dataclass(frozen=True, slots=True)
class Row:
    """A key, its value as a user may see it, and where the value comes from."""

    key: str
    value: str
    source: str
    """`default`, `option`, `environment`, `file` or `plan`."""
    description: str
    variable: str
    """Its environment variable."""
    rule: str
    """What a value must be."""
    default: str


@dataclass(frozen=True, slots=True)
class _Layer:
    """Values by dotted key of one source."""

    source: str
    values: Mapping[str, Any]
    place: Callable[[str], str]
    """The source of a key in messages."""
    parses_text: bool = False


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """All settings, an attribute for each table, and the source of each key."""

    judge: tables.Judge
    reader: tables.Reader
    embedder: tables.Embedder
    answers: tables.Answers
    prompts: tables.Prompts
    cache: tables.Cache
    limits: tables.Limits
    budget: tables.Budget
    daily_budget: tables.DailyBudget
    scoring: tables.Scoring
    watch: tables.Watch
    retention: tables.Retention
    sampling: tables.Sampling
    redaction: tables.Redaction
    app: tables.App
    capture: tables.Capture
    lengths: tables.Lengths
    analysis: Analysis
    receiver: Receiver
    research: Research
    sources: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The source of each key that is not a default: `option`, `environment`, `file` or `plan`."""

    def rows(self) -> Iterator[Row]:
        """Yield all keys in the order of the tables, without secrets."""
        for table, kind in TABLES.items():
            settings = getattr(self, table)
            for name, info in kind.model_fields.items():
                key = f"{table}.{name}"
                yield Row(
                    key=key,
                    value=show(info, getattr(settings, name)),
                    source=self.sources.get(key, "default"),
                    description=str(info.description),
                    variable=variable_of(key),
                    rule=rule_of(info),
                    default=show(info, info.get_default()) if not extra_of(info).get("secret") else "none",
                )


TABLES: Final[Mapping[str, type[Settings]]] = MappingProxyType(
    {table: kind for table, kind in get_type_hints(Configuration).items() if table != "sources"}
)
"""The settings of each table."""


def _holds_secret(value: object) -> bool:
    texts = value if isinstance(value, list) else [value]
    return any(isinstance(text, str) and may_hold_secret(text) for text in texts)


def variable_of(key: str) -> str:
    """Return the environment variable of a dotted key: `RAGSTONE_TABLE_KEY`, or `RAGSTONE_TABLE` for the main key."""
    table, _, name = key.partition(".")
    is_main = name == TABLES[table].main
    return f"{_PREFIX}{table}".upper() if is_main else f"{_PREFIX}{table}_{name}".upper()


def resolve(
    options: Mapping[str, Any] | None = None,
    *,
    file: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    plan: Mapping[str, Any] | None = None,
    names: Mapping[str, str] | None = None,
    parses_text: bool = True,
) -> Configuration:
    """Return the settings of all sources: an option comes before the environment, the file, the plan and the default.

    If two sources name different URLs of a model, the source with the lower precedence describes another endpoint, so
    that its table is ignored. A source without a URL describes the endpoint of the next source with one: a key is never
    sent to another endpoint. Options and plan have dotted keys. Texts of options are parsed by the type of the key,
    unless `parses_text` is False. `environment` None is that of the process. `names` say how the user wrote an option,
    for messages (default: `--set`). Raise ConfigurationError if a key is unknown or a value is invalid. The message
    names source, key, value and rule.
    """
    written = names or {}
    content = {} if file is None else read_file(file)
    name = repr(os.fspath(file or ""))
    return _merge(
        [
            _Layer("option", options or {}, lambda key: written.get(key, "--set"), parses_text),
            _from_environment(os.environ if environment is None else environment),
            _Layer("file", content, lambda _: name),
            _Layer("plan", plan or {}, lambda _: _PLAN),
        ]
    )


def resolve_arguments(
    arguments: Mapping[str, Any], places: Mapping[str, str], *, file: str | os.PathLike[str] | None = None
) -> Configuration:
    """Return the settings of a Python call: its arguments, by dotted key, come before the environment and a file.

    `places` say where they are, by dotted key, for messages. Raise ConfigurationError if a value is invalid.
    """
    return resolve(arguments, file=file, names=places, parses_text=False)


def read_table(kind: type[_T], table: Mapping[str, Any] | None, *, source: str) -> _T:
    """Read the table of a file or of an argument, without other sources. `source` is where it is, for messages.

    Raise ConfigurationError if a key is unknown or a value is invalid.
    """
    name = next(name for name, settings in TABLES.items() if settings is kind)
    if table is not None and not isinstance(table, Mapping):
        raise ConfigurationError(f"{source}: {name} must be a table [{name}], got {table!r}.")
    return _validate(
        name, kind, {str(key).replace("-", "_"): value for key, value in (table or {}).items()}, lambda _: source
    )


def _merge(layers: list[_Layer]) -> Configuration:
    read = [(layer, _by_table(layer)) for layer in layers]
    merged: dict[str, Settings] = {}
    sources: dict[str, str] = {}
    for table, kind in TABLES.items():
        values: dict[str, Any] = {}
        # A plan does not contain secrets, so those of another source are not for its endpoint.
        urls = _urls(table, [by_table if layer.source != "plan" else {} for layer, by_table in read])
        called = next(filter(None, [*(by_table.get(table, {}).get("url") for _, by_table in read), *urls]), None)
        for number, (layer, by_table) in enumerate(read):
            stated = by_table.get(table)
            if not stated:
                continue
            # Also a value that another source replaces is an error of its source.
            _validate(table, kind, stated, layer.place)
            if "url" in values and stated.get("url", values["url"]) != values["url"]:
                continue
            described = next(filter(None, urls[number:]), None)
            for name, value in stated.items():
                if name in _SENT and described not in (None, called):
                    key = f"{table}.{name}"
                    place, to = layer.place(key), [show(kind.model_fields["url"], url) for url in (called, described)]
                    _warn_once(
                        f"{layer.source} {key}",
                        f"{place}: {key} is not sent to {to[0]}, because it belongs to {to[1]}.",
                    )
                    continue
                if name not in values:
                    values[name] = value
                    sources[f"{table}.{name}"] = layer.source
        merged[table] = _validate(table, kind, values, lambda _: "settings")
    return Configuration(**merged, sources=sources)  # type: ignore[arg-type]


def _urls(table: str, layers: Sequence[Mapping[str, Mapping[str, Any]]]) -> list[Any]:
    """Return the URL that each source names for the table of a model. A reader without a URL is at that of the judge."""
    urls = [layer.get(table, {}).get("url") for layer in layers]
    if table != "reader":
        return urls
    everywhere = not any(urls)
    return [
        url or (layer.get("judge", {}).get("url") if everywhere or "model" in layer.get(table, {}) else None)
        for url, layer in zip(urls, layers, strict=True)
    ]


def _by_table(layer: _Layer) -> dict[str, dict[str, Any]]:
    by_table: dict[str, dict[str, Any]] = {}
    for key, value in layer.values.items():
        table, dot, name = key.partition(".")
        if table not in TABLES:
            known = (
                TABLES
                if dot
                else [f"{each}.{kind_key}" for each, kind in TABLES.items() for kind_key in kind.model_fields]
            )
            raise ConfigurationError(
                f"{layer.place(key)}: {table!r} is not a table of settings.{_neighbor(table, known)} "
                f"Tables: {', '.join(TABLES)}."
            )
        kind = TABLES[table]
        name = name.replace("-", "_") or kind.main or ""
        field_of_key = kind.model_fields.get(name)
        if field_of_key is None:
            raise _unknown_key(layer.place(key), table, name)
        if name in by_table.setdefault(table, {}):
            raise ConfigurationError(f"{layer.place(key)}: {table}.{name} is set twice. Remove one of them.")
        if name == "url" and isinstance(value, str):
            value = value.rstrip("/")  # noqa: PLW2901 - the same endpoint
        by_table[table][name] = parse(field_of_key, value) if layer.parses_text and isinstance(value, str) else value
    return by_table


def _neighbor(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _unknown_key(place: str, table: str, name: str) -> ConfigurationError:
    keys = list(TABLES[table].model_fields)
    shown = f"{table}.{name}" if name else table
    return ConfigurationError(
        f"{place}: {shown!r} is not a setting.{_neighbor(name, keys)} Keys of [{table}]: {', '.join(keys)}."
    )


def _validate(table: str, kind: type[_T], values: Mapping[str, Any], place: Callable[[str], str]) -> _T:
    for name in values:
        if name not in kind.model_fields:
            raise _unknown_key(place(f"{table}.{name}"), table, str(name))
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigurationError(_describe(error, table, kind, values, place)) from None


def _describe(
    error: ValidationError, table: str, kind: type[Settings], values: Mapping[str, Any], place: Callable[[str], str]
) -> str:
    """Return the sentence about the first error."""
    first = error.errors(include_url=False, include_context=False)[0]
    name = str(first["loc"][0])
    key, info, value = f"{table}.{name}", kind.model_fields[name], values[name]
    source = place(key)
    if first["type"] == "settings":
        return f"{source}: {key}: {first['msg'].replace('<TABLE>', table.upper())}."
    inner = get_args(kind_of(info.annotation))
    if len(first["loc"]) > 2 and inner and isinstance(inner[0], type) and issubclass(inner[0], Settings):
        position, part = first["loc"][1:3]
        key = f"{key}[{position}].{part}"
        if part not in inner[0].model_fields:
            keys = inner[0].model_fields
            return f"{source}: {key} is not a setting.{_neighbor(str(part), keys)} Keys: {', '.join(keys)}."
        info, value = inner[0].model_fields[str(part)], value[position].get(part)
    hidden = extra_of(info).get("secret") or not extra_of(info).get("shown", True)
    got = "" if hidden else f", got {show(info, value) if _holds_secret(value) else repr(value)}"
    return f"{source}: {key} must be {rule_of(info)}{got}."


def _from_environment(environment: Mapping[str, str]) -> _Layer:
    """Return the values of the variables of all keys. An empty variable is not set."""
    keys = {
        variable_of(f"{table}.{name}"): f"{table}.{name}"
        for table, kind in TABLES.items()
        for name in kind.model_fields
    }
    mains = {f"{_PREFIX}{table}_{kind.main}".upper(): f"{_PREFIX}{table}".upper() for table, kind in TABLES.items()}
    values: dict[str, Any] = {}
    for variable, text in environment.items():
        if variable in keys:
            if text.strip() or keys[variable] == "cache.directory":
                values[keys[variable]] = text
        elif variable.startswith(_PREFIX) and not _OF_KUBERNETES.fullmatch(variable):
            if close := mains.get(variable) or next(iter(difflib.get_close_matches(variable, keys, 1, 0.9)), None):
                raise ConfigurationError(f"the environment variable {variable} is not a setting. Did you mean {close}?")
            if variable not in _OTHER_VARIABLES and _IN_TEST not in environment:
                _warn_once(
                    variable,
                    f"the environment variable {variable} is not a setting, and is ignored.{_similar(variable, keys)}",
                )
    return _Layer("environment", values, variable_of, parses_text=True)


def _similar(variable: str, variables: Collection[str]) -> str:
    """Return the variables with a part of the name, or similar ones, as a sentence."""
    part = f"_{variable.removeprefix(_PREFIX)}"
    close = [each for each in variables if each.endswith(part)] or difflib.get_close_matches(
        variable, variables, 3, 0.7
    )
    return f" Did you mean {' or '.join(close)}?" if close else " `ragstone doctor --settings` lists all."


def _warn_once(name: str, text: str) -> None:
    if name not in _warned:
        _warned.add(name)
        logger.warning("ragstone: %s", text)


def read_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file, and return its settings by dotted key. A secret in it is logged by its name.

    Raise ConfigurationError if the file does not exist, is not valid TOML or has an unknown table or key.
    """
    source = repr(os.fspath(path))
    values: dict[str, Any] = {}
    for table, content in _load_toml(path).items():
        if table not in TABLES:
            keys = [f"{each}.{name}" for each, kind in TABLES.items() for name in kind.model_fields if name == table]
            hint = f" Did you mean [{keys[0].partition('.')[0]}] {table}?" if keys else _neighbor(table, TABLES)
            raise ConfigurationError(
                f"{source}: {table!r} is not a table of settings.{hint} Tables: {', '.join(TABLES)}."
            )
        if isinstance(content, dict) and not (TABLES[table].is_open and TABLES[table].main not in content):
            values |= {f"{table}.{name}": value for name, value in content.items()}
        elif (main := TABLES[table].main) is not None:
            values[f"{table}.{main}"] = content
        else:
            raise ConfigurationError(f"{source}: {table} must be a table [{table}], got {content!r}.")
    # Also those that a command does not use, because the same file is for others that do.
    for table, stated in _by_table(_Layer("file", values, lambda _: source)).items():
        _validate(table, TABLES[table], stated, lambda _: source)
    for key, value in values.items():
        for secret in find_secrets(key, value):
            _warn_once(
                f"{source} {secret}",
                f"{source}: {secret} contains a secret. Name an environment variable that holds it instead: "
                "api_key_env = 'VARIABLE', or { env = 'VARIABLE' } for a header",
            )
    return values


def _load_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file. Raise ConfigurationError if the file does not exist, is too large or is not valid TOML."""
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
    return values
