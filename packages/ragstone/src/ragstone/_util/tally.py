"""Counter without a lock."""

from __future__ import annotations

import itertools


class AtomicCounter:
    """A counter that any thread, signal handler or finalizer may increase. It never waits and never loses a count.

    The interpreter may run signal handlers and finalizers between any two steps, even inside a `with lock:` of the same
    thread. A lock could therefore deadlock, and `n += 1` could lose a count.
    """

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps = itertools.count()

    def add(self) -> None:
        """Add one. This is a single step of the interpreter, so it cannot be interrupted halfway."""
        next(self._steps)

    def value(self) -> int:
        """Return how often `add` was called."""
        # "count(7)": the only way to read the next number without consuming it.
        return int(repr(self._steps)[len("count(") : -1])
