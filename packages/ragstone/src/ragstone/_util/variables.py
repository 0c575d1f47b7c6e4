"""Context variables that have a value for the length of a block, and the one that suppresses capture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def assigned(variable: ContextVar[T], value: T) -> Iterator[T]:
    """Assign a value to a context variable for a block, which gets it, and for the tasks that the block starts."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


# Tasks and `asyncio.to_thread` calls started inside inherit it, concurrent tasks do not see it.
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
