"""Context variables that have a value for the length of a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
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
