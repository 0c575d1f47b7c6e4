"""The table `[watch]` of the file of `--config`, for commands that run a worker or send alarms."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ragstone.settings import Watch

_OPTIONS: Final[ContextVar[Watch | None]] = ContextVar("ragstone_watch_options", default=None)


def set_watch_options(table: Any, source: str) -> None:
    """Read the table.

    Raises:
        ConfigurationError: If it is not a table, or a key or value is invalid.
    """
    if table is None:
        _OPTIONS.set(None)
        return
    from ragstone.settings import Watch, read_table

    _OPTIONS.set(read_table(Watch, table, source=source))


def watch_options() -> Watch:
    """Return the options of the configuration, or the defaults."""
    from ragstone.settings import Watch

    return _OPTIONS.get() or Watch()
