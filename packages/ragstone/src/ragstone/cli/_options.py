"""Options that several commands share, except those of models."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ragstone._util.clock import parse_time
from ragstone.errors import ConfigurationError, StoreNotFoundError

if TYPE_CHECKING:
    # Imported where they are used: the commands that only declare options load neither.
    from ragstone.experiments import OutcomeSource, TimeRange
    from ragstone.requests import RetrieverTools


def options_of(declaration: Callable[..., None]) -> list[Any]:
    """Return the options that a function declares in its signature, for commands that share them."""
    whole = typer.Typer(add_completion=False)
    whole.command()(declaration)
    return list(typer.main.get_command(whole).params)


def parse_fields(pairs: Sequence[str] | None) -> dict[str, str]:
    """Parse the values of `--field`."""
    fields = {}
    for pair in pairs or ():
        field, separator, column = pair.partition("=")
        if not (separator and field and column):
            raise ConfigurationError(f"--field must be FIELD=COLUMN, got {pair!r}. Example: --field query=Frage")
        fields[field] = column
    return fields


def reading_options(rows: str | None, field: Sequence[str] | None) -> str:
    """Return `--rows` and `--field` as they are typed after the name of a file, for commands that are proposed."""
    options = [*([("--rows", rows)] if rows else []), *(("--field", pair) for pair in field or ())]
    return "".join(f" {name} {shlex.quote(value)}" for name, value in options)


def parse_time_range(text: str) -> TimeRange | str:
    """Parse STORE@FROM..TO or STORE@RUN, or return a file name unchanged.

    FROM and TO are ISO dates in UTC or relative to now (-7d, -12h, -30m). Either can be omitted.
    """
    from ragstone.experiments import TimeRange
    from ragstone.store import is_database_url

    store, separator, times = text.rpartition("@")
    if not separator or not store or Path(text).exists():
        return text
    if ".." not in times:
        # Without a path, the part before the last @ is the user of a database.
        is_store = "/" in store.partition("://")[2] if is_database_url(store) else Path(store).is_file()
        return TimeRange(store, run=times) if is_store else text
    since, _, until = times.partition("..")
    period = TimeRange(store, since=parse_time(since) if since else None, until=parse_time(until) if until else None)
    if period.since is not None and period.until is not None and period.since >= period.until:
        raise ConfigurationError(
            f"invalid period {times!r}: TO is not after FROM. Write FROM..TO, such as 2026-11-01..2026-11-08 or -7d.."
        )
    return period


def parse_address(text: str, option: str = "--listen") -> tuple[str, int]:
    """Split HOST:PORT."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ConfigurationError(
            f"{option} must be HOST:PORT, such as 127.0.0.1:4318, got {text!r}. Port 0 takes a free one."
        )
    return host.strip("[]"), int(port)


def resolve_new_store(store: str) -> str:
    """Return the full name of a store that a command may create.

    Raise StoreNotFoundError if the directory of its file does not exist.
    """
    from ragstone.store import is_database_url, resolve_store

    resolved = resolve_store(store)
    if not is_database_url(store) and not Path(resolved).parent.is_dir():
        raise StoreNotFoundError(
            f"the directory of the store {store!r} does not exist. Create it, or give another path."
        )
    return resolved


def parse_retriever_tools(texts: Sequence[str] | None, others: Sequence[str] | None) -> RetrieverTools:
    r"""Read `--retriever-tool` (NAME, or NAME=SEPARATOR with `\n` and `\t` as escapes) and `--no-retriever-tool`."""
    from ragstone.requests import read_retriever_tools

    tools: dict[str, str | bool | None] = dict.fromkeys(others or (), False)
    for text in texts or ():
        name, has_separator, separator = text.partition("=")
        if name in tools and tools[name] is False:
            raise ConfigurationError(
                f"the tool {name!r} is in --retriever-tool and in --no-retriever-tool: pass one of them"
            )
        tools[name] = separator.replace("\\n", "\n").replace("\\t", "\t") if has_separator else None
    return read_retriever_tools(tools)


def parse_named_file(text: str) -> tuple[str | None, str]:
    """Split NAME=FILE. If a file with the whole text as its name exists, the name is None."""
    name, separator, path = text.partition("=")
    if separator and name and path and not Path(text).exists():
        return name, path
    return None, text


def read_sources(systems: Sequence[str]) -> dict[str, OutcomeSource]:
    """Read NAME=SOURCE arguments: sources by name. If none has a name, the names come from the sources."""
    from ragstone.experiments import TimeRange, names_of

    named = [parse_named_file(text) for text in systems]
    if not any(name for name, _ in named):
        nameless = [parse_time_range(path) for _, path in named]
        return dict(zip(names_of(nameless), nameless, strict=True))
    sources: dict[str, OutcomeSource] = {}
    for name, path in named:
        source = parse_time_range(path)
        system = name or (source.name if isinstance(source, TimeRange) else Path(path).stem)
        if system in sources:
            raise ConfigurationError(
                f"two systems have the name {system!r}. Write NAME=FILE with a unique name for each."
            )
        sources[system] = source
    return sources
