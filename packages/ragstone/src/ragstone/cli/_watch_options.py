"""The table `[watch]` of the file of `--config`, for commands that run a worker or send alarms."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from ragstone.errors import ConfigurationError

if TYPE_CHECKING:
    from ragstone.watch import WatchOptions

_OPTIONS: Final[ContextVar[WatchOptions | None]] = ContextVar("ragstone_watch_options", default=None)


def set_watch_options(table: Any, source: str) -> None:
    """Read the table.

    Raises:
        ConfigurationError: If it is not a table, or a key or value is invalid.
    """
    if table is None:
        _OPTIONS.set(None)
        return
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"{source!r}: watch must be a table [watch], got {table!r}")
    # Help and most commands do not watch.
    from ragstone.watch import WatchOptions

    _OPTIONS.set(WatchOptions.from_table(table, source=source))


def watch_options() -> WatchOptions:
    """Return the options of the configuration, or the defaults."""
    from ragstone.watch import WatchOptions

    return _OPTIONS.get() or WatchOptions()
