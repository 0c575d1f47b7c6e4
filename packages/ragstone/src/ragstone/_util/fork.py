"""What must happen in a forked child: called by weak reference, so that registering keeps nothing alive."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakMethod

__all__ = ["after_fork_in_child"]

_logger = logging.getLogger("ragstone")
_ids = itertools.count()
_methods: Final[dict[int, WeakMethod[Callable[[], Any]]]] = {}


def after_fork_in_child(method: Callable[[], Any]) -> None:
    """Call a bound method in every child forked from now on, as long as its object lives.

    In the child only the forking thread exists: other threads are gone, and locks they held stay locked for ever. The
    method must replace locks, queues and threads, and must not wait for any. Where processes cannot fork, nothing is
    registered.
    """
    key = next(_ids)
    _methods[key] = WeakMethod(method, lambda _: _methods.pop(key, None))


def _run() -> None:
    # A copy: a method may make objects that register themselves.
    for reference in list(_methods.values()):
        method = reference()
        if method is None:
            continue
        try:
            method()
        except Exception:
            _logger.exception("Ragstone could not prepare %r for the forked process", method)


# One registration for the process: there is no way to take one back.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_run)
