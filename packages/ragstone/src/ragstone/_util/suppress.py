"""Suppression: what runs inside `suppress_capture()` is our own work and is never captured as user traffic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["capture_suppressed", "suppress_capture"]

# A context variable, so that tasks and `asyncio.to_thread` started inside inherit it and neighbours do not see it.
_suppressed: ContextVar[bool] = ContextVar("ragstone_capture_suppressed", default=False)


@contextmanager
def suppress_capture() -> Iterator[None]:
    """Leave everything done inside the block uncaptured: this task, and the tasks it starts meanwhile.

    Example:
        ```python
        with suppress_capture():
            chain.invoke("a question of ours, not of a user")
        ```
    """
    token = _suppressed.set(True)
    try:
        yield
    finally:
        _suppressed.reset(token)


def capture_suppressed() -> bool:
    """Whether the caller runs inside `suppress_capture()`."""
    return _suppressed.get()
