"""What Ragstone's objects do when the process forks. Objects are referenced weakly, so registration keeps nothing alive."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, Final, Self
from weakref import WeakKeyDictionary, WeakSet

_logger = logging.getLogger("ragstone")
_functions: Final[WeakKeyDictionary[Any, Callable[[Any], object]]] = WeakKeyDictionary()

_MAX_WAIT_S: Final = 1.0
"""Maximum time that a fork waits for all sections together."""


def after_fork_in_child(function: Callable[[], object]) -> None:
    """Call a bound method, or a function of a module, in every child forked from now on.

    A method (one of each object) is called as long as its object exists.

    In the child only the forking thread exists: other threads are gone, and locks that they held stay locked forever.
    The function must replace locks, queues and threads, and must not wait for any of them. On systems without fork this
    function does nothing.
    """
    if isinstance(function, MethodType):
        _functions[function.__self__] = function.__func__
    elif isinstance(function, FunctionType) and "<" not in function.__qualname__:
        _functions[function] = _call
    else:  # a lambda or an inner function would be gone before the fork
        raise TypeError(f"needs a bound method or a function of a module, got {function!r}")


class NoFork:
    """Sections of a thread's code (`with no_fork:`) that end before another thread can fork the process.

    A section may use locks of other libraries: of pydantic, SQLite, an import, a user's function. A lock that a thread
    holds at a fork stays locked in the child forever, and the child's own thread would wait for it.

    One thread at a time can be in a section of an object. A fork waits at most one second for the sections of all
    objects, then it goes ahead. A section may itself fork.
    """

    def __init__(self) -> None:
        self.reset()
        _sections.add(self)

    def reset(self) -> None:
        """Forget a section whose thread does not exist in this process."""
        # A fork takes the first lock, so that no new section begins, and then waits for the second.
        self._entrance = threading.RLock()
        self._inside = threading.RLock()

    def __enter__(self) -> Self:
        with self._entrance:
            self._inside.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._inside.release()

    def stop(self, timeout_s: float) -> bool:
        """Prevent new sections, and wait for the running one. Return whether it ended, or else change nothing."""
        end = time.monotonic() + timeout_s
        if not self._entrance.acquire(timeout=timeout_s):
            return False
        if self._inside.acquire(timeout=max(0.0, end - time.monotonic())):
            return True
        self._entrance.release()
        return False

    def resume(self) -> None:
        """Allow sections again, in the thread that called `stop`."""
        self._inside.release()
        self._entrance.release()


_sections: Final[WeakSet[NoFork]] = WeakSet()


class _Stopped(threading.local):
    """The sections that the forking thread has stopped."""

    def __init__(self) -> None:
        self.sections: list[NoFork] = []


_stopped: Final = _Stopped()


def _call(function: Callable[[], object]) -> None:
    function()


def _before() -> None:
    end = time.monotonic() + _MAX_WAIT_S
    for section in list(_sections):
        if section.stop(max(0.0, end - time.monotonic())):
            _stopped.sections.append(section)


def _after() -> None:
    while _stopped.sections:
        _stopped.sections.pop().resume()


def _after_in_child() -> None:
    for section in list(_sections):
        if section not in _stopped.sections:
            section.reset()
    _after()
    # A copy: a method may make objects that register themselves.
    for owner, function in list(_functions.items()):
        try:
            function(owner)
        except Exception:
            name = getattr(owner, "__qualname__", type(owner).__name__)
            _logger.exception("Ragstone could not prepare %s for the forked process", name)


# One registration for the process, because a registration cannot be undone.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after_in_child)
