"""Functions that are called when the interpreter exits, before anything closes. Objects are referenced weakly."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from types import MethodType
from typing import Final
from weakref import WeakKeyDictionary

from ragstone._util.guard import Guard

_guard: Final = Guard()
_functions: Final[WeakKeyDictionary[object, Callable[..., object]]] = WeakKeyDictionary()


def register_exit_hook(method: Callable[[], object]) -> None:
    """Call a bound method, one per object, when the interpreter exits, if its object still exists.

    It is called while captures are still recorded, independent of the order of `atexit` registrations. It may be called
    several times, so further calls must have no effect.

    Examples:
        ```python
        register_exit_hook(handler.record_what_is_open)
        ```
    """
    if not isinstance(method, MethodType):
        raise TypeError(f"needs a bound method, got {method!r}")
    _functions[method.__self__] = method.__func__


def run_exit_hooks() -> None:
    """Call all registered functions. Everything that closes at exit calls this first."""
    for owner, function in list(_functions.items()):
        _guard.attempt(function, owner)


# For functions whose output goes to something that closes at another time, or never.
atexit.register(run_exit_hooks)
