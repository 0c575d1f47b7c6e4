"""The table `[retention]` of the file of `--config`, for commands that run a worker."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

__all__ = ["retention_s", "set_retention"]

_AGE_S: Final[ContextVar[float | None]] = ContextVar("ragstone_retention", default=None)


def set_retention(table: Any, source: str) -> None:
    """Read the table.

    Raises:
        ConfigurationError: If it is not a table, or a key or value is invalid.
    """
    if table is None:
        _AGE_S.set(None)
        return
    # Help and most commands do not run a worker.
    from ragstone.worker import retention_from_table

    _AGE_S.set(retention_from_table(table, source=source))


def retention_s() -> float | None:
    """Return the age in seconds from which texts are removed, or None without one."""
    return _AGE_S.get()
