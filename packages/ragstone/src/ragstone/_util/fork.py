"""What must happen in a forked child: held by weak reference, so that registering keeps nothing alive."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from types import MethodType
from typing import Final
from weakref import WeakKeyDictionary

__all__ = ["after_fork_in_child"]

_logger = logging.getLogger("ragstone")
_functions: Final[WeakKeyDictionary[object, Callable[..., object]]] = WeakKeyDictionary()


def after_fork_in_child(method: Callable[[], object]) -> None:
    """Call a bound method, one of each object, in every child forked from now on, as long as its object lives.

    In the child only the forking thread exists: other threads are gone, and locks they held stay locked for ever. The
    method must replace locks, queues and threads, and must not wait for any. Where processes cannot fork, this does
    nothing.
    """
    if not isinstance(method, MethodType):
        raise TypeError(f"needs a bound method, got {method!r}")
    _functions[method.__self__] = method.__func__


def _run() -> None:
    # A copy: a method may make objects that register themselves.
    for owner, function in list(_functions.items()):
        try:
            function(owner)
        except Exception:
            _logger.exception("Ragstone could not prepare a %s for the forked process", type(owner).__name__)


# One registration for the process: there is no way to take one back.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_run)
