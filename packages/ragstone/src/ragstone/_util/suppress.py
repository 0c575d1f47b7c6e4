"""Suppression of capture: work inside `suppress_capture()` is Ragstone's own and is not captured as user traffic."""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar

from ragstone._util.variables import assigned

# A context variable: tasks and `asyncio.to_thread` calls started inside inherit it, concurrent tasks do not see it.
_suppressed: ContextVar[bool] = ContextVar("ragstone_capture_suppressed", default=False)


def suppress_capture() -> AbstractContextManager[bool]:
    """Do not capture anything inside the block, in this task and in tasks that it starts meanwhile.

    Examples:
        ```python
        with suppress_capture():
            chain.invoke("a question of the tests, not of a user")
        ```
    """
    return assigned(_suppressed, value=True)


def capture_suppressed() -> bool:
    """Return whether the caller runs inside `suppress_capture()`."""
    return _suppressed.get()
