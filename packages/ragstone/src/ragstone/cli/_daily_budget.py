"""The table `[daily_budget]` of the file of `--config`, for commands that run a worker."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final

_NONE: Final[Mapping[str, float]] = MappingProxyType({})
_LIMITS: Final[ContextVar[Mapping[str, float]]] = ContextVar("ragstone_daily_budget", default=_NONE)


def set_daily_budget(table: Any, source: str) -> None:
    """Read the table.

    Raises:
        ConfigurationError: If it is not a table, or a key or value is invalid.
    """
    if table is None:
        _LIMITS.set(_NONE)
        return
    # Help and most commands do not run a worker.
    from ragstone.settings import DailyBudget, read_table

    _LIMITS.set(read_table(DailyBudget, table, source=source).stated)


def daily_budget() -> Mapping[str, float]:
    """Return the limits by name. Empty without the table."""
    return _LIMITS.get()
