"""The fence around the hooks: a mistake of ours, or of an extractor, is counted and logged once, and never raised."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar, cast

__all__ = ["Failures", "guarded"]

logger = logging.getLogger("ragstone.langchain")

_Hook = TypeVar("_Hook", bound=Callable[..., Any])
_T = TypeVar("_T")


class Failures:
    """What went wrong inside a handler, by place."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    @property
    def total(self) -> int:
        """How many there were."""
        return sum(self._counts.values())

    def count(self, where: str, error: Exception) -> None:
        """Count an error, and log the first of each place."""
        # For diagnosis only, hence without a lock, which a fork could leave held.
        first = where not in self._counts
        self._counts[where] = self._counts.get(where, 0) + 1
        if first:
            logger.warning("capture failed in %s; the application goes on (logged once)", where, exc_info=error)

    def attempt(self, extract: Callable[[Any], _T | None], value: Any) -> _T | None:
        """One piece that cannot be found must not cost the rest of the trace."""
        try:
            return extract(value)
        except Exception as error:  # noqa: BLE001 - extractors and odd objects of the application
            self.count(getattr(extract, "__name__", repr(extract)), error)
            return None


class _Fallible(Protocol):
    _failures: Failures


def guarded(hook: _Hook) -> _Hook:
    """Keep our own mistakes out of the application; the method returns None where it would have raised."""

    @functools.wraps(hook)
    def fenced(self: _Fallible, *args: Any, **kwargs: Any) -> Any:
        try:
            return hook(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it is, the request goes on
            self._failures.count(hook.__name__, error)
            return None

    return cast("_Hook", fenced)
