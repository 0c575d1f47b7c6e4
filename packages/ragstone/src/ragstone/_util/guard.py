"""Protection of the application from errors of ours: they are counted, logged once for each place, and never raised."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

from ragstone._util.tally import AtomicCounter

__all__ = ["Guard", "guarded"]

_Method = TypeVar("_Method", bound=Callable[..., Any])
_T = TypeVar("_T")


class Guard:
    """Counts the errors that were stopped before they reached the application, and logs the first one of each place.

    Every object that an application or a framework calls has its own. Errors are those of ours, or of functions that
    the user gave us. A `BaseException` that is not an `Exception` is never stopped: `KeyboardInterrupt`, `SystemExit`,
    `GeneratorExit` and cancellation belong to the application.

    Args:
        logger: Name of the logger.

    Example:
        >>> guard = Guard()
        >>> guard.attempt(divmod, 7, 2)
        (3, 1)
    """

    def __init__(self, logger: str = "ragstone") -> None:
        self._logger = logging.getLogger(logger)
        self._tallies: dict[str, AtomicCounter] = {}

    @property
    def total(self) -> int:
        """Number of errors stopped."""
        return sum(self.counts().values())

    def counts(self) -> dict[str, int]:
        """Number of errors stopped, by place; places without errors are absent."""
        return {place: tally.value() for place, tally in list(self._tallies.items())}

    def count(self, place: str, error: Exception) -> None:
        """Count an error, and log it with its traceback if it is the first one of its place."""
        # Without a lock, which a fork could leave held.
        tally = self._tallies.get(place)
        if tally is None:
            tally = self._tallies.setdefault(place, AtomicCounter())
            self._logger.warning("Ragstone failed in %s; the application goes on (logged once)", place, exc_info=error)
        tally.add()

    def attempt(self, function: Callable[..., _T], *values: Any) -> _T | None:
        """Call a function; if it raises, count the error and return None."""
        try:
            return function(*values)
        except Exception as error:  # noqa: BLE001 - our own functions, the user's, and odd objects of the application
            self.count(getattr(function, "__name__", repr(function)), error)
            return None


class _HasGuard(Protocol):
    _guard: Guard


def guarded(method: _Method) -> _Method:
    """Make a method never raise: an error is counted by the object's `_guard`, and the method returns None."""

    @functools.wraps(method)
    def never_raises(self: _HasGuard, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is, the application goes on
            self._guard.count(method.__name__, error)
            return None

    return cast("_Method", never_raises)
