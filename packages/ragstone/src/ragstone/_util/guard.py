"""The fence between our bugs and the application: errors stop here, are logged once a place, and counted."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Final, ParamSpec, TypeVar

from ragstone._util.tally import Tally

__all__ = ["Guard", "guard", "guard_counts", "guard_reraise"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_logger = logging.getLogger("ragstone")
_tallies: Final[dict[str, Tally]] = {}
_reraise = False


class Guard:
    """A fence around code that a host calls; made by `guard`, reusable, nestable, shared by threads."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        """Enter the fenced block; costs nothing."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> bool:
        """Swallow an `Exception` after counting it; the first one of this name is logged with its stack."""
        if not isinstance(error, Exception):
            return False
        tally = _tallies.get(self._name)
        if tally is None:
            tally = _tallies.setdefault(self._name, Tally())
            _logger.error(
                "Ragstone failed inside %s; the application goes on without it. Please report this. "
                "Further errors of this place are counted and not logged.",
                self._name,
                exc_info=error,
            )
        tally.add()
        return not _reraise

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R | None]:
        """Fence a whole function; it returns None where it would have raised."""

        @wraps(function)
        def fenced(*args: _P.args, **kwargs: _P.kwargs) -> _R | None:
            with self:
                return function(*args, **kwargs)
            return None

        return fenced


def guard(name: str) -> Guard:
    """Make a fence for a `with` block or, as a decorator, for a function: no `Exception` gets past it.

    What is raised inside is logged the first time for each name, and counted every time. A `BaseException` that is no
    `Exception` passes: `KeyboardInterrupt`, `SystemExit`, `GeneratorExit` and cancellation belong to the application,
    whose signal handler or task they come from, and our own code raises none.

    Args:
        name: The place, as it appears in the log and in `guard_counts`.

    Example:
        >>> @guard("doctest.divide")
        ... def divide(a: int, b: int) -> float:
        ...     return a / b
        >>> divide(6, 3)
        2.0
    """
    return Guard(name)


def guard_counts() -> dict[str, int]:
    """How many errors each fence stopped since the process started; fences that stopped none are absent."""
    return {name: tally.value() for name, tally in list(_tallies.items())}


def guard_reraise(on: bool) -> bool:  # noqa: FBT001 - reads as a switch: guard_reraise(True)
    """Switch raising through all fences on or off, and return how it was; tests want to see our bugs.

    Errors are logged and counted either way.
    """
    global _reraise
    was, _reraise = _reraise, on
    return was
