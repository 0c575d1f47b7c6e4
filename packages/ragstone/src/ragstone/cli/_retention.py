"""The table `[retention]` of the file of `--config`, for commands that run a worker."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ragstone.worker import RetentionAges

_AGES: Final[ContextVar[RetentionAges | None]] = ContextVar("ragstone_retention", default=None)


def set_retention(table: Any, source: str) -> None:
    """Read the table.

    Raises:
        ConfigurationError: If it is not a table, or a key or value is invalid.
    """
    if table is None:
        _AGES.set(None)
        return
    # Help and most commands do not run a worker.
    from ragstone.worker import retention_from_table

    _AGES.set(retention_from_table(table, source=source))


def retention_ages() -> RetentionAges | None:
    """Return the ages of the table, or None without one."""
    return _AGES.get()
