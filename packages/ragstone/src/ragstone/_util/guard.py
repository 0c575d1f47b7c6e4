"""Protection of the application from Ragstone's errors: they are counted, logged once per place, and not raised."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

from ragstone._util.tally import AtomicCounter

_Method = TypeVar("_Method", bound=Callable[..., Any])
_T = TypeVar("_T")


class Guard:
    """Counts errors that are not passed on to the application, and logs the first error of each place.

    Every object that an application or a framework calls has its own guard. It handles errors of Ragstone, and of
    functions that the user passed to Ragstone. It does not handle a `BaseException` that is not an `Exception`:
    `KeyboardInterrupt`, `SystemExit`, `GeneratorExit` and cancellation belong to the application.

    Args:
        logger: Name of the logger.

    Examples:
        >>> guard = Guard()
        >>> guard.attempt(divmod, 7, 2)
        (3, 1)
    """

    def __init__(self, logger: str = "ragstone") -> None:
        self._logger = logging.getLogger(logger)
        self._tallies: dict[str, AtomicCounter] = {}

    @staticmethod
    def describe(error: BaseException) -> str:
        """Describe an error of the application as "Type: message", whatever its own `__str__` does."""
        name = type(error).__name__
        try:
            message = str(error)
        except Exception:  # noqa: BLE001 - the exception may itself be broken
            message = ""
        return f"{name}: {message}" if message else name

    @property
    def total(self) -> int:
        """Number of errors handled."""
        return sum(self.counts().values())

    def counts(self) -> dict[str, int]:
        """Return the number of errors handled, by place. Places without errors are absent."""
        return {place: tally.value() for place, tally in list(self._tallies.items())}

    def count(self, place: str, error: Exception) -> None:
        """Count an error, and log it with its traceback if it is the first one of its place."""
        if self._is_first(place):
            self._logger.warning(
                "Ragstone failed in %s. The application continues (logged once)", place, exc_info=error
            )

    def note(self, place: str, message: str) -> None:
        """Count a wrong use, and log what to do about it if it is the first one of its place."""
        if self._is_first(place):
            self._logger.warning("ragstone: %s (logged once)", message)

    def _is_first(self, place: str) -> bool:
        """Count an event of a place, without a lock, which a fork could leave locked."""
        tally = self._tallies.get(place)
        is_first = tally is None
        if tally is None:
            tally = self._tallies.setdefault(place, AtomicCounter())
        tally.add()
        return is_first

    def attempt(self, function: Callable[..., _T], *values: Any) -> _T | None:
        """Call a function. If it raises, count the error and return None."""
        try:
            return function(*values)
        except Exception as error:  # noqa: BLE001 - code of Ragstone or the user, and unusual objects of the application
            self.count(getattr(function, "__name__", repr(function)), error)
            return None


def guarded(method: _Method) -> _Method:
    """Make a method never raise: an error is counted by the object's `_guard`, and the method returns None."""

    @functools.wraps(method)
    def never_raises(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the application must continue after any error
            self._guard.count(method.__name__, error)
            return None

    return cast("_Method", never_raises)
