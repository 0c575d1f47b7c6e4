"""Functions that are called in a forked child. Objects are referenced weakly, so registration keeps nothing alive."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, Final
from weakref import WeakKeyDictionary

__all__ = ["after_fork_in_child"]

_logger = logging.getLogger("ragstone")
_functions: Final[WeakKeyDictionary[Any, Callable[[Any], object]]] = WeakKeyDictionary()


def after_fork_in_child(function: Callable[[], object]) -> None:
    """Call a bound method, or a function of a module, in every child forked from now on.

    A method (one of each object) is called as long as its object exists.

    In the child only the forking thread exists: other threads are gone, and locks that they held stay locked forever. The
    function must replace locks, queues and threads, and must not wait for any of them. On systems without fork this
    function does nothing.
    """
    if isinstance(function, MethodType):
        _functions[function.__self__] = function.__func__
    elif isinstance(function, FunctionType) and "<" not in function.__qualname__:
        _functions[function] = _call
    else:  # a lambda or an inner function would be gone before the fork
        raise TypeError(f"needs a bound method or a function of a module, got {function!r}")


def _call(function: Callable[[], object]) -> None:
    function()


def _run() -> None:
    # A copy: a method may make objects that register themselves.
    for owner, function in list(_functions.items()):
        try:
            function(owner)
        except Exception:
            name = getattr(owner, "__qualname__", type(owner).__name__)
            _logger.exception("Ragstone could not prepare %s for the forked process", name)


# One registration for the process, because a registration cannot be undone.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_run)
