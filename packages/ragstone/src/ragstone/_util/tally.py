"""A count without a lock."""

from __future__ import annotations

import itertools

__all__ = ["AtomicCounter"]


class AtomicCounter:
    """A count that any thread, signal handler or finaliser may add to: nothing to wait for, nothing lost.

    Garbage collection and signal handlers run our code between any two steps of the interpreter, also inside a `with
    lock:` of the same thread, so a lock here could deadlock and `n += 1` could lose one.
    """

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps = itertools.count()

    def add(self) -> None:
        """Count one. A single step of the interpreter, so it cannot be interrupted half way."""
        next(self._steps)

    def value(self) -> int:
        """How often `add` was called."""
        # "count(7)": the only way to look at the next number without taking it.
        return int(repr(self._steps)[len("count(") : -1])
