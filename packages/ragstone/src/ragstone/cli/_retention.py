"""The table `[retention]` of the file of `--config`, for commands that run a worker."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ragstone.settings import Retention

_AGES: Final[ContextVar[Retention | None]] = ContextVar("ragstone_retention", default=None)


def set_retention(table: Any, source: str) -> None:
    """Read the table.

    Raises:
        ConfigurationError: If it is not a table, or a key or value is invalid.
    """
    if table is None:
        _AGES.set(None)
        return
    # Help and most commands do not run a worker.
    from ragstone.settings import Retention, read_table

    _AGES.set(read_table(Retention, table, source=source))


def retention_ages() -> Retention | None:
    """Return the ages of the table, or None without one."""
    return _AGES.get()
