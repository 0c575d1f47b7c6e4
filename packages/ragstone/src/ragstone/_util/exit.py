"""What must be done when the interpreter ends, before anything closes: held by weak reference, as by `_util.fork`."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from types import MethodType
from typing import Final
from weakref import WeakKeyDictionary

from ragstone._util.guard import Guard

__all__ = ["register_exit_hook", "run_exit_hooks"]

_guard: Final = Guard()
_functions: Final[WeakKeyDictionary[object, Callable[..., object]]] = WeakKeyDictionary()


def register_exit_hook(method: Callable[[], object]) -> None:
    """Call a bound method, one of each object, when the interpreter ends, as long as its object lives.

    It is called while captures are still taken: `atexit` alone would depend on who registered last. It may be called
    several times, and must leave nothing to do for the second one.

    Example:
        ```python
        register_exit_hook(handler.record_what_is_open)
        ```
    """
    if not isinstance(method, MethodType):
        raise TypeError(f"needs a bound method, got {method!r}")
    _functions[method.__self__] = method.__func__


def run_exit_hooks() -> None:
    """Call them; whatever closes at exit does this first."""
    for owner, function in list(_functions.items()):
        _guard.attempt(function, owner)


# For those whose work goes somewhere that closes by itself, or never.
atexit.register(run_exit_hooks)
